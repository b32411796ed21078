"""Tuning on a user's own texts, and the encoder directory that comes of it."""
