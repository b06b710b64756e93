"""Declarations of what a table must hold: its columns as a type, rules, and `require_table`. Without I/O."""
