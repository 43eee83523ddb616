"""A backup: one tenant in one file, proven when it is made, checked and restored."""
