"""Maintenance: build, check, verify, repair, back up, erase and export the data of a home."""
