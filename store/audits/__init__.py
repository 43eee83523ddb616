"""What must hold of what is built, of what is served, and of the home as a whole."""
