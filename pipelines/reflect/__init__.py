"""reflect: what several memories say together, found by likeness, by time and by cause."""
