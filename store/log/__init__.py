"""Log: events, the append-only log that keeps them, and the commands that write them."""
