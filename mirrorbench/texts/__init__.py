"""Tuning on, and encoding of, a user's own texts, pairs and words in context; no tasks are run here."""
