"""Recommendations to a person: what to put away, to merge, to promote and to say better."""
