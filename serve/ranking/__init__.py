"""The stages of ranking as pure functions: arrays in, arrays out; no I/O, no clock, nothing of ours
imported.
"""
