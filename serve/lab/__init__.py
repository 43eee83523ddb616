"""The recall lab: one question under one or two settings, and what every stage made of it."""
