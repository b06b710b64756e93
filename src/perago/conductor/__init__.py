"""The task authority."""
