"""The queue of a tenant: memories accepted for recording that are not in the log yet."""
