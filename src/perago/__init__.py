"""Perago."""
