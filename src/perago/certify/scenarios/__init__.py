"""The scenarios, by what they need. Each is a function of a scene; its docstring says what is tried.

A scenario returns the evidence that the worker held, or raises `Broken` or `NotReached`.
"""
