"""Language models: the only owner of litellm; tiers, budget, and each call recorded in the log."""
