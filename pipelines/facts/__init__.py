"""Facts read out of turns and notes: what is asserted in them, and nothing that is in doubt."""
