"""Confidence intervals and paired tests from stored per-item predictions."""

from enum import StrEnum


class PairedTest(StrEnum):
    """Paired tests. ``auto``: McNemar for accuracy with one seed each, permutation otherwise, bootstrap for AUC."""

    auto = "auto"
    bootstrap = "bootstrap"
    permutation = "permutation"
    mcnemar = "mcnemar"
