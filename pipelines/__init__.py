"""The clock: when to rebuild what is derived from the log, and what must hold to be served."""
