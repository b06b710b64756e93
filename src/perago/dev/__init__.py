"""Real Conductor and lakeFS servers on this machine, without a container engine: installed, started, watched and stopped."""
