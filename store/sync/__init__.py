"""Sync: one memory on all of a person's machines, through a place that none of them trusts."""
