"""Leaderboards: tables of values (``table``), apart from the text they are rendered to (``renderers``)."""
