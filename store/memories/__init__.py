"""Memories: folded out of events, laid in tables, read back out of them."""
