"""The server: its process, who may ask, the tenants it holds open, and what it counts."""
