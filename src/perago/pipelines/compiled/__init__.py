"""The parts of a compiled pipeline: Conductor's tasks, expressions and conditions."""
