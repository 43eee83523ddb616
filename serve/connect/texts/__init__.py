"""The texts that are written as they stand: rules, a skill, a plugin's page and its code."""

from pathlib import Path


def text(name: str) -> str:
    """Return a text of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
