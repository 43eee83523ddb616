"""Sync: one memory on all of a person's machines, by way of a place that none of them trusts."""
