"""Dagster: the assets, their checks, jobs, schedules and sensors, and its web pages."""
