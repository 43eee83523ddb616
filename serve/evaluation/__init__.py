"""How well recall answers a dataset of labelled queries, through the real write and read path."""
