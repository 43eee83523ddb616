"""What a team shares: memories as files in its repository, read from the checked-out tree."""
