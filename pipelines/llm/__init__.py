"""The one seam to language models: litellm, tiers, a budget, and every call in the log."""
