"""The operator's pages: the memory looked at, mended and trusted in a browser."""
