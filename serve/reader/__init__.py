"""The state of the memory that answers are given from: one manifest's snapshots, and over them the
tail: the events in the log since they were built.
"""
