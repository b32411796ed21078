"""Tunes on and encodes a user's own texts, pairs and words in context. Runs no tasks."""
