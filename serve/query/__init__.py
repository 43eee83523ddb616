"""What a question says, read from its words alone: pure functions, no model, no clock."""
