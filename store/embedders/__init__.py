"""The models that turn texts into vectors, one a file; store/embedding.py chooses among them."""
