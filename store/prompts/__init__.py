"""What a prompt wants, and which of its sentences hold beyond it, by one small fitted model."""
