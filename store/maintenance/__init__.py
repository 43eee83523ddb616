"""Maintenance: build, check, verify, repair, back up, erase and export what a home holds."""
