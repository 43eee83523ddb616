"""A team's memories: shared as files in its repository, read from the checked-out tree."""
