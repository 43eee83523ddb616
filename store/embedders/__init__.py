"""Embedders: the models that turn texts into vectors; `embedder` makes the one a setting names."""
