"""The checks of `perago doctor --publication`: the publication protocol on a real lakeFS, with a Conductor in memory."""
