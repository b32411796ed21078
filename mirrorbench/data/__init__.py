"""Data sets: cards, a store of verified files, parsers of the original formats. Knows no model, task or training."""
