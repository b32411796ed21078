"""Scores by a tuning hyper-parameter, from the stored results of a sweep.

Mirror-BERT's Figure 5 and MirrorWiC's Figure 4: by number of tuning strings; MirrorWiC's Table 7 and Mirror-BERT's
Tables 12 and 13: by dropout rate and span length. Mirror-BERT's Figure 8 (section 4.4): the words of a task in each
frequency bucket, and scores after tuning on the bucket.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.runs.results import Result

_BUCKET = re.compile(r"words-en-(\d+)-(\d+)k")


@dataclass(frozen=True, slots=True)
class Series:
    """The curve of one encoder on one task; ``spec`` is without the key that varies.

    ``points`` by rising ``x`` have ``mean`` and sample standard deviation ``sd`` of the main metric over ``n`` seeds.
    """

    spec: EncoderSpec
    task: str
    metric: str
    protocol: str
    points: tuple[dict[str, Any], ...]

    def at(self, x: float) -> dict[str, Any]:
        """The point at ``x``; its mean and deviation are ``None`` where there is no such point."""
        return next((point for point in self.points if point["x"] == x), {"mean": None, "sd": None})


def setting(result: Result, key: str) -> float | None:
    """The value of a hyper-parameter in a result, also where it came from a preset.

    ``corpus_size`` is the actual number of strings. ``None`` where nothing was tuned or the value is not a number.
    """
    recipe, corpus = result.cell.get("recipe"), result.cell.get("corpus")
    if not recipe:
        return None
    if key == "corpus_size":
        return float(corpus["n"]) if corpus else None
    value = recipe.get(key, recipe["augment"].get(key, parse_spec(result.spec).get(key)))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def bucket(result: Result, key: str = "corpus") -> float | None:
    """The middle rank of the frequency bucket that was tuned on, in thousands."""
    return middle((result.cell.get(key) or {}).get("name", ""))


def curves_over(
    results: Iterable[Result], key: str, x_of: Callable[[Result, str], float | None] = setting, least: int = 2
) -> list[Series]:
    """The curves over a key of the spec with at least ``least`` points; undefined scores are left out.

    Results of one curve have specs that differ in ``key`` alone, and the same task, metric and protocol.
    """
    found: dict[tuple[EncoderSpec, str, str, str], dict[float, dict[int, float]]] = {}
    for result in results:
        x, y = x_of(result, key), result.main_score
        if x is not None and y is not None:
            spec = parse_spec(result.spec)
            spec = EncoderSpec(spec.backbone, spec.revision, spec.method, tuple(p for p in spec.params if p[0] != key))
            name = (spec, result.task, result.main_metric, result.protocol)
            found.setdefault(name, defaultdict(dict))[x][result.seed] = y
    return [
        Series(*name, tuple(_point(x, list(scores.values())) for x, scores in sorted(values.items())))
        for name, values in found.items()
        if len(values) >= least
    ]


def _point(x: float, scores: list[float]) -> dict[str, Any]:
    sd = statistics.stdev(scores) if len(scores) > 1 else None
    return {"x": x, "mean": statistics.fmean(scores), "sd": sd, "n": len(scores)}


def bounds(corpus: str) -> tuple[int, int] | None:
    """First and last frequency rank of a bucket, in thousands, from its corpus name; ``None`` for other corpora."""
    match = _BUCKET.fullmatch(corpus)
    return (int(match[1]), int(match[2])) if match else None


def middle(corpus: str) -> float | None:
    """The middle of ``bounds``."""
    limits = bounds(corpus)
    return sum(limits) / 2 if limits else None


def count_words(words: Iterable[str], buckets: Iterable[tuple[str, Sequence[str]]]) -> list[dict[str, Any]]:
    """Number and share of a task's distinct words in each corpus (name and words), case ignored."""
    own = {word.lower() for word in words}
    counts = {corpus: len(own & {member.lower() for member in members}) for corpus, members in buckets}
    return [{"corpus": name, "words": n, "share": n / len(own) if own else 0.0} for name, n in counts.items()]
