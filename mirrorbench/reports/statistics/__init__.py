"""Encoders compared on the same items, from stored per-item predictions: intervals, paired tests, unseen items."""

from enum import StrEnum


class PairedTest(StrEnum):
    """Paired tests. ``auto``: McNemar for right or wrong of one seed each, permutation otherwise, bootstrap for AUC."""

    auto = "auto"
    bootstrap = "bootstrap"
    permutation = "permutation"
    mcnemar = "mcnemar"
