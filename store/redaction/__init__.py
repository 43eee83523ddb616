"""Secrets: which texts hold one, and what is written in its place."""
