"""What is put away: old receipts of the log, and memories that nobody is to be reminded of."""
