"""Vectors by number: made, quantized, looked up by their text's hash, scanned by the server."""
