"""The answers: HTTP and CLI over one read path. Opens snapshots, appends events, starts jobs as
processes.
"""
