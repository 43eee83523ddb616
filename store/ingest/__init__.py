"""The queue of a tenant: what was accepted to be recorded, and is not in the log yet."""
