"""What is known of a topic, a project or some days, put in order without a model."""
