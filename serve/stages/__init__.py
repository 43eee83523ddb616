"""The stages of recall, in their order: each takes the one before it as a value."""
