"""Whether two texts say the same, by strict evidence: no model, no likeness, no threshold."""
