"""The real servers on this machine: fetched, built, cached, started, watched and stopped without a container engine."""
