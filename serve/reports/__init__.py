"""Reports: what a memory holds, how it answers, what waits for a decision, in order and drawn."""
