"""Stored results as tables: selection, statistics, the papers' tables, renderers. Computes no score of an encoder."""
