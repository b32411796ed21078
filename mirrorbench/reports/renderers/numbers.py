"""Scores, p-values and names of metrics as text."""

from __future__ import annotations

from collections.abc import Callable

from mirrorbench.reports.table import DIGITS, Score

MISSING = "–"
"""The text of a missing score."""
TIED = "†"
"""The mark of a score that is not separable from the best one."""

_METRICS = {
    "spearman": "Spearman's correlation",
    "pearson": "Pearson's correlation",
    "auc": "area under the ROC curve",
    "spearman_mean": "Spearman's correlation, mean over subsets",
    "f1": "F1",
    "mrr": "mean reciprocal rank",
    "spearman_wmean": "Spearman's correlation, weighted mean over subsets",
}


def number(value: float, digits: int = DIGITS) -> str:
    """Format a score as in the papers: ``.743``, ``-.012``, ``1.000``."""
    text = f"{value:z.{digits}f}"  # z: never -0.000
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def p_words(value: float) -> str:
    """Format a p-value with two significant digits, to follow ``p``: ``= .012``; ``< .001``."""
    return "< .001" if value < 0.001 else f"= {value:#.2g}".replace("0.", ".", 1)


def metric_words(name: str) -> str:
    """Return a metric's name in words: ``dev_accuracy`` is ``accuracy on the dev split``."""
    split, _, rest = name.partition("_")
    if split in ("train", "dev", "test") and rest:
        return f"{metric_words(rest)} on the {split} split"
    return _METRICS.get(name) or name.replace("_", " ")


def with_deviation(score: Score | None, show: Callable[[float], str] = number) -> str:
    """Format a score and, for several seeds, its standard deviation: ``.743 ± .002``."""
    if score is None:
        return MISSING
    if score.text is not None:
        return score.text
    return show(score.mean) if score.sd is None else f"{show(score.mean)} ± {show(score.sd)}"


def marks(score: Score | None) -> str:
    """Format the interval and the dagger of a score; empty where it has neither."""
    if score is None:
        return ""
    text = ""
    if score.interval:
        low, high = score.interval
        text += f" [{number(low)}, {number(high)}]"
    if score.tied:
        text += TIED
    return text
