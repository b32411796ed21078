"""Metrics: numbers from scores and gold. ``None`` means undefined, which is not zero."""
