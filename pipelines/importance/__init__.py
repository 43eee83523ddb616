"""The job `importance`: how much memories turned out to matter, where nobody said how much."""
