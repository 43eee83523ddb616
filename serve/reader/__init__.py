"""The state of the memory that answers are given from: one manifest's snapshots, and over them the
tail, which is what the log holds since they were built.
"""
