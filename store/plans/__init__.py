"""The proposals of jobs: plans of events, reviewed before they are written, and undone after."""
