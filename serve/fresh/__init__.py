"""What was written since the last build, laid over the snapshots in memory."""
