"""Confidence intervals and paired tests from stored per-item predictions."""

LEVEL = 0.95
"""Confidence level of intervals; the significance level of tests is 1 minus it."""
