"""The BM25 index: its formula, its segments and how they are made, and its reader."""
