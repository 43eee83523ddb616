"""Erasing a memory for good: what is looked for, where it may lie, and the receipt that says so."""
