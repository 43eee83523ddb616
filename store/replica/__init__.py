"""A replica: the log, sent elsewhere as it grows, and a tenant restored from it."""
