"""Stored results as tables: selection, statistics, the papers' tables, renderers. Runs no encoder."""
