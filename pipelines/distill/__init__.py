"""distill: what sessions teach. Failures and their cures, corrections, decisions; what is stale."""
