"""Text: tokens, dates, entity mentions, text features and strict duplicates, by rules alone."""
