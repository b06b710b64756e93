"""The executor process: imports task modules and runs one attempt at a time."""
