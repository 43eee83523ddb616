"""What a text says of time, in days: a question's interval, when a fact became true."""
