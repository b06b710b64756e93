"""A task run on plain files without servers, for `perago run` and `perago.testing`."""
