"""Runs the publication code of the program under many interleavings, chosen by a scheduler: `make simulate`."""
