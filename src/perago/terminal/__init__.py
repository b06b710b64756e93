"""Output on a terminal or a pipe: lines, tables, progress, tracebacks and diffs. Used by the commands and the demo."""
