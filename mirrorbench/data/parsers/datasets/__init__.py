"""Parsers of the formats of published data sets."""
