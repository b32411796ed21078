"""Curves over a setting of the tuning, from the stored results of a sweep.

Mirror-BERT's Figure 5 and MirrorWiC's Figure 4: performance by number of strings tuned on; MirrorWiC's Table 7 and
Mirror-BERT's Tables 12 and 13: by dropout rate and by length of the masked span.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.runs.results import Result


@dataclass(frozen=True, slots=True)
class Point:
    """The score at one value of the setting.

    Attributes:
        x: the value.
        mean: of the main metric over seeds.
        sd: sample standard deviation over seeds; ``None`` for one seed.
        n: number of seeds.
    """

    x: float
    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Series:
    """The curve of one encoder on one task.

    Attributes:
        spec: the encoder, without the key that varies.
        task: the task's name.
        metric: what is on the y axis.
        protocol: which reading of the experiment.
        points: by rising x, at least two.
    """

    spec: EncoderSpec
    task: str
    metric: str
    protocol: str
    points: tuple[Point, ...]


def value_of(result: Result, key: str) -> float | None:
    """What a setting of the tuning really was in a result: presets count as much as what the spec says.

    Args:
        result: a stored result.
        key: a numeric key of a spec: ``corpus_size`` (the number of strings that were there), ``dropout``,
            ``span_mask``, ``temperature``, ``lr``, ``epochs``, ``batch_size`` ...

    Returns:
        ``None`` where nothing was tuned or the key is not a number there.
    """
    recipe, corpus = result.cell.get("recipe"), result.cell.get("corpus")
    if not recipe:
        return None
    if key == "corpus_size":
        return float(corpus["n"]) if corpus else None
    value = recipe.get(key, recipe["augment"].get(key, parse_spec(result.spec).get(key)))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def series(results: Iterable[Result], key: str) -> list[Series]:
    """Every curve that stored results hold over ``key``, in the order of their first result.

    Results belong to one curve if their specs differ in that key alone, and task and protocol are the same. What has
    only one value of the key is no curve. An undefined score is left out.
    """
    return series_over(
        results, lambda result: value_of(result, key), lambda result: without(parse_spec(result.spec), key), least=2
    )


def series_over(
    results: Iterable[Result],
    x_of: Callable[[Result], float | None],
    encoder_of: Callable[[Result], EncoderSpec],
    least: int,
) -> list[Series]:
    """Curves over anything that can be read off a result.

    Args:
        results: stored results.
        x_of: where a result stands on the x axis; ``None`` where it does not belong there.
        encoder_of: what the results of one curve have in common.
        least: points that a curve must have.
    """
    found: dict[tuple[EncoderSpec, str, str, str], dict[float, dict[int, float]]] = {}
    for result in results:
        x, y = x_of(result), result.main_score
        if x is not None and y is not None:
            name = (encoder_of(result), result.task, result.main_metric, result.protocol)
            found.setdefault(name, defaultdict(dict))[x][result.seed] = y
    return [
        Series(*name, tuple(_point(x, list(scores.values())) for x, scores in sorted(values.items())))
        for name, values in found.items()
        if len(values) >= least
    ]


def without(spec: EncoderSpec, key: str) -> EncoderSpec:
    """A spec less one of its keys."""
    return EncoderSpec(spec.backbone, spec.revision, spec.method, tuple(p for p in spec.params if p[0] != key))


def _point(x: float, scores: list[float]) -> Point:
    sd = statistics.stdev(scores) if len(scores) > 1 else None
    return Point(x, statistics.fmean(scores), sd, len(scores))
