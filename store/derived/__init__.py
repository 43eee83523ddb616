"""Derived knowledge: what is computed from the memories, one projection a file."""
