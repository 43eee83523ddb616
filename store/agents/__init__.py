"""Agents: an agent's actions and its user's words, read from hooks and transcripts."""
