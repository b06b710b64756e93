"""The supervisor process: polls Conductor, runs attempts in executors, reports their outcomes."""
