"""Memories as rows: folded out of events, laid in tables, and read back out of them."""
