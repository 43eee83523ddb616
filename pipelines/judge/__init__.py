"""Judgments of recalls from what was done afterwards."""
