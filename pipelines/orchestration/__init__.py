"""Dagster: what is built and which jobs run, when, and what a person sees of it."""
