"""Builds, jobs and language models: when derived data is rebuilt, and what jobs learn from it."""
