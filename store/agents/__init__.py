"""Agents: what an agent did and what its user said, read from hooks and transcripts."""
