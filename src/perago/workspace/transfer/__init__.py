"""Downloads and uploads of workspace files."""
