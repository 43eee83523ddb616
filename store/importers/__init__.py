"""One foreign source per module, read into drafts of memories; nothing here writes to the log."""
