"""Pipelines: declared in Python, checked at declaration, compiled to a plain Conductor workflow. No I/O."""
