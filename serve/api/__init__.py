"""The REST API: every operation it has, and the routes they give."""
