"""Projections of the log: tables, pure builds and readers."""
