"""The publication code of the program under every interleaving that a scheduler finds; `make simulate` runs it."""
