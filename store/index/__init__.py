"""The index: postings for BM25, vectors, and how both are read by a query."""
