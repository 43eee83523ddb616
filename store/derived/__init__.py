"""Derived knowledge: projections computed from the memories, one a file."""
