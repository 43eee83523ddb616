"""consolidate: what says the same becomes one, what was corrected gives way, nothing is deleted."""
