"""Edits of texts in three formats, each of which leaves alone what it does not mean."""
