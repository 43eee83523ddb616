"""Whom and what a text names: people, tools, files, commands, errors."""
