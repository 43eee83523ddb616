"""The REST API: its operations and their routes."""
