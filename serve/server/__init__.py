"""The server: its process, the callers it admits, its open tenants, and its metrics."""
