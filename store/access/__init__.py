"""What opens the home's ports: the owner's token, browser sessions, and where a request comes from.

Every port is guarded by these, the recall server's and that of Dagster's pages.
"""
