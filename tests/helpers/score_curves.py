"""Scores of encoders by a hyper-parameter, as figures draw them."""

from __future__ import annotations

from mirrorbench.analysis.scores import Series
from mirrorbench.core.specs import parse_spec

NAMES = (
    "BERT-mp",
    "BERT + Mirror",
    "roberta + Mirror (corpus_size=1000, dropout=0.2, span_mask=5)",
)
"""Labels of encoders, one of them long."""


def score_curves(n: int, sd: float | None) -> dict[str, Series]:
    """The curves of the first ``n`` encoders, of three points each."""
    points = tuple({"x": x, "mean": 0.4 + x / 100, "sd": sd, "n": 3} for x in (10, 25, 35))
    return {
        name: Series(parse_spec("bert+mirror"), "t", "spearman", "paper", points)
        for name in NAMES[:n]
    }
