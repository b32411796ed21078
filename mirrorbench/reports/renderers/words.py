"""Scores, p-values and metrics in words."""

from __future__ import annotations

from collections.abc import Callable

from mirrorbench.reports.table import DIGITS, Score

MISSING = "–"
TIED = "†"
"""Marks a score that is not separable from the best one."""

_METRICS = {
    "spearman": "Spearman's correlation", "pearson": "Pearson's correlation", "auc": "area under the ROC curve",
    "spearman_mean": "Spearman's correlation, mean over subsets", "f1": "F1", "mrr": "mean reciprocal rank",
    "spearman_wmean": "Spearman's correlation, weighted mean over subsets",
}  # fmt: skip


def number(value: float, digits: int = DIGITS) -> str:
    """A score as the papers print it: ``.743``, ``-.012``, ``1.000``."""
    text = f"{value:z.{digits}f}"  # z: no -0.000
    return text.replace("0.", ".", 1) if abs(float(text)) < 1 else text


def p_words(value: float) -> str:
    """A p-value with two significant digits after ``p``: ``= .012``; ``< .001``."""
    return "< .001" if value < 0.001 else f"= {value:#.2g}".replace("0.", ".", 1)


def metric_words(name: str) -> str:
    """A metric's name in words: ``dev_accuracy`` is ``accuracy on the dev split``."""
    split, _, rest = name.partition("_")
    if split in ("train", "dev", "test") and rest:
        return f"{metric_words(rest)} on the {split} split"
    return _METRICS.get(name) or name.replace("_", " ")


def with_deviation(score: Score | None, show: Callable[[float], str] = number) -> str:
    """A score and, for several seeds, its standard deviation: ``.743 ± .002``."""
    if score is None or score.text is not None:
        return MISSING if score is None else score.text or ""
    return show(score.mean) if score.sd is None else f"{show(score.mean)} ± {show(score.sd)}"


def with_marks(score: Score | None, show: Callable[[float], str] = number) -> str:
    """The interval and the dagger of a score, where there are any."""
    if score is None:
        return ""
    interval = f" [{show(score.interval[0])}, {show(score.interval[1])}]" if score.interval else ""
    return interval + (TIED if score.tied else "")
