"""The router's policy: what the log says another would be worth, and the tier a job is to use."""
