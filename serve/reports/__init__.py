"""Reports: the contents of a memory, its answers and the waiting decisions, in order and drawn."""
