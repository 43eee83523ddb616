"""Secrets: finding them in texts, and replacing them."""
