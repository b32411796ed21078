"""Data sets: cards that declare them, a store of verified files, and parsers of the original formats.

Nothing here knows about models, tasks or training.
"""
