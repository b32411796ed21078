"""Analyses of stored results and of their per-item scores.

Cosines of positive and negative pairs are Mirror-BERT's Figure 7 (section 4.4), ROC curves of unsupervised QNLI its
Figure 4; answers that tuning changes are MirrorWiC's Table 6 (section 5.3). Scores by a tuning hyper-parameter: by
number of tuning strings, Mirror-BERT's Figure 5 and MirrorWiC's Figure 4; by dropout rate and span length, MirrorWiC's
Table 7 and Mirror-BERT's Tables 12 and 13. Words of a task in each frequency bucket, and scores after tuning on the
bucket: Mirror-BERT's Figure 8 (section 4.4).
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.storage.results import Result
from mirrorbench.tasks.metrics import auc, roc_points
from mirrorbench.tasks.thresholds import exact_threshold

FEWEST_BINS = 12
MOST_BINS = 40
"""Limits of the number of bins of a histogram, which is otherwise that of the Rice rule, 2 n^(1/3)."""
GRADES = ("low", "middle", "high")
"""Bands of graded judgements: thirds of the gold range."""
Arrays = Mapping[str, NDArray[Any]]
"""Stored predictions, by name: arrays of ids, scores, gold and others."""
Answers = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Binary answers (0 or 1) to the items, and their scores minus the encoder's threshold."""


def judgement_bands(gold: ArrayLike) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the names of the bands of pairs, and the index of each pair's band.

    Graded judgements are cut into ``GRADES``. ``ValueError`` if all judgements are equal.
    """
    values = np.asarray(gold, dtype=np.float64)
    low = values.min()
    high = values.max()
    if low == high:
        raise ValueError("all pairs have the same judgement")
    if set(np.unique(values)) <= {0.0, 1.0}:
        return ("negative", "positive"), values.astype(np.int64)
    cuts = np.linspace(low, high, len(GRADES) + 1)[1:-1]
    return GRADES, np.searchsorted(cuts, values, side="right").astype(np.int64)


def shared_edges(cosines: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the edges of bins over the cosines of all encoders, so that their histograms are comparable."""
    low = min(float(array.min()) for array in cosines)
    high = max(float(array.max()) for array in cosines)
    margin = 0.01 * max(high - low, 1e-6)
    n_pairs = max(len(array) for array in cosines)
    bins = int(np.clip(round(2 * n_pairs ** (1 / 3)), FEWEST_BINS, MOST_BINS))
    edges: NDArray[np.float64] = np.linspace(low - margin, high + margin, bins + 1)
    return edges


def distribution(predictions: Arrays, edges: NDArray[np.float64]) -> dict[str, Any]:
    """Describe the distribution of an encoder's cosines in each band of judgements that has pairs.

    ``bands`` holds the name, the numbers and the histogram of each band, the lowest first; ``edges`` are the argument.
    ``overlap`` is the area shared by the histograms of the lowest and the highest band, from 0 (separate) to 1 (equal);
    ``auc`` is the probability that a pair of the highest band has a higher cosine than one of the lowest.

    Raises:
        ValueError: all pairs have the same judgement, so that there are no bands.
    """
    cosines = predictions["scores"]
    names, band_of_pair = judgement_bands(predictions["gold"])
    bands: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        band_cosines = cosines[band_of_pair == index]
        if len(band_cosines) == 0:
            continue
        sd = float(band_cosines.std(ddof=1)) if len(band_cosines) > 1 else None
        density, _ = np.histogram(band_cosines, edges, density=True)
        bands.append(
            {
                "name": name,
                "n": len(band_cosines),
                "mean": float(band_cosines.mean()),
                "sd": sd,
                "median": float(np.median(band_cosines)),
                "density": density,
            }
        )
    # The lowest and the highest judgement are in the first and the last band, so these are never empty.
    shared_density = np.minimum(bands[0]["density"], bands[-1]["density"])
    overlap = float((shared_density * np.diff(edges)).sum())
    in_lowest = band_of_pair == 0
    in_highest = band_of_pair == len(names) - 1
    extreme = in_lowest | in_highest
    auc_of_extremes = auc(cosines[extreme], in_highest[extreme])
    return {"bands": bands, "edges": edges, "overlap": overlap, "auc": auc_of_extremes}


def roc_curve(predictions: Arrays) -> dict[str, Any]:
    """Return the ROC curve of predictions: the stored one, or else a computed one.

    Items of unknown gold (NaN) are left out. ``ValueError`` if the others do not have both labels, 0 and 1.
    """
    has_gold = ~np.isnan(predictions["gold"])
    scores = predictions["scores"][has_gold]
    gold = predictions["gold"][has_gold]
    if set(np.unique(gold)) != {0.0, 1.0}:
        raise ValueError("a ROC curve needs labels 0 and 1, and both of them")
    points = predictions if "roc_fpr" in predictions else roc_points(scores, gold)
    positives = int(gold.sum())
    return {
        "fpr": points["roc_fpr"],
        "tpr": points["roc_tpr"],
        "threshold": points["roc_thresholds"],
        "auc": auc(scores, gold),
        "positives": positives,
        "negatives": len(gold) - positives,
    }


def answers(predictions: Arrays, threshold: float | None = None) -> Answers | None:
    """Return the binary answer to each item; ``None`` for graded judgements.

    If the task stored decisions, return these, with its ``threshold``. If scores are hits (1) and misses (0), the
    threshold is 0.5; otherwise it is the one with the best accuracy on the same items.
    """
    scores = predictions["scores"]
    gold = predictions["gold"]
    if "predictions" in predictions and threshold is not None:
        return predictions["predictions"].astype(np.int64), scores - threshold
    scores_are_hits = set(np.unique(scores)) <= {0.0, 1.0} and bool((gold == 1).all())
    if scores_are_hits:
        return scores.astype(np.int64), scores - 0.5
    # Items of unknown gold (NaN) have answers too, but do not count for the threshold.
    has_gold = ~np.isnan(gold)
    if set(np.unique(gold[has_gold])) != {0.0, 1.0}:
        return None
    best_threshold = exact_threshold(scores[has_gold], gold[has_gold])
    return (scores > best_threshold).astype(np.int64), scores - best_threshold


def changed_answers(
    ids: Sequence[str], gold: ArrayLike, before: Answers, after: Answers
) -> list[dict[str, Any]]:
    """Return the items whose answers differ, the largest change of the score first.

    Scores are relative to each encoder's threshold; the paper's are "isotropy-adjusted" by random-word similarity.
    """
    answers_before, scores_before = before
    answers_after, scores_after = after
    columns = {
        "id": ids,
        "gold": np.asarray(gold, dtype=np.int64).tolist(),
        "before": answers_before.tolist(),
        "after": answers_after.tolist(),
        "score_before": scores_before.tolist(),
        "score_after": scores_after.tolist(),
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    changed = [row for row in rows if row["before"] != row["after"]]
    return sorted(changed, key=lambda row: -abs(row["score_after"] - row["score_before"]))


def shifted_ranks(
    ids: Sequence[str], gold: ArrayLike, before: NDArray[np.float64], after: NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return a row for each of at least two items: its ranks by gold and both encoders, from 0 (least similar) to 1.

    ``gain`` is the error of the rank before minus the error after; the largest change for better or worse comes first.
    """
    from scipy.stats import rankdata

    def ranks_of(values: ArrayLike) -> list[float]:
        ranks: list[float] = ((rankdata(values) - 1) / (len(ids) - 1)).tolist()
        return ranks

    ranks = zip(ids, ranks_of(gold), ranks_of(before), ranks_of(after), strict=True)
    rows = []
    for item, gold_rank, rank_before, rank_after in ranks:
        error_before = abs(rank_before - gold_rank)
        error_after = abs(rank_after - gold_rank)
        rows.append(
            {
                "id": item,
                "gold_rank": gold_rank,
                "rank_before": rank_before,
                "rank_after": rank_after,
                "gain": error_before - error_after,
            }
        )
    return sorted(rows, key=lambda row: -abs(row["gain"]))


_BUCKET = re.compile(r"words-en-(\d+)-(\d+)k")


@dataclass(frozen=True, slots=True)
class Series:
    """The curve of one encoder on one task.

    Attributes:
        spec: the encoder, without the key that varies.
        task: name of the task.
        metric: the main metric of the task.
        protocol: name of the protocol.
        points: points by rising ``x``, each with ``mean`` and sample standard deviation ``sd`` of the metric over ``n``
            seeds.
    """

    spec: EncoderSpec
    task: str
    metric: str
    protocol: str
    points: tuple[dict[str, Any], ...]

    def at(self, x: float) -> dict[str, Any]:
        """Return the point at ``x``; without such a point, one whose mean and deviation are ``None``."""
        for point in self.points:
            if point["x"] == x:
                return point
        return {"mean": None, "sd": None}


def setting(result: Result, key: str) -> float | None:
    """Return the value of a hyper-parameter in a result, presets included; ``None`` if it has none or not a number.

    ``corpus_size`` is the number of strings in the tuning corpus of the result.
    """
    recipe = result.cell.get("recipe")
    corpus = result.cell.get("corpus")
    if key == "corpus_size":
        return float(corpus["n"]) if corpus and recipe else None
    value = parse_spec(result.spec).get(key)
    if recipe:
        # The recipe has the values of presets too.
        value = recipe.get(key, recipe["augment"].get(key, value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def rank_of_corpus(result: Result, key: str = "corpus") -> float | None:
    """Return the middle rank, in thousands, of the frequency bucket that was the tuning corpus; ``None`` for others."""
    corpus = result.cell.get(key) or {}
    return middle_rank(corpus.get("name", ""))


def curves_over(
    results: Iterable[Result],
    key: str,
    x_of: Callable[[Result, str], float | None] = setting,
    fewest_points: int = 2,
) -> list[Series]:
    """Return the curves over a key of the spec that have enough points; undefined scores are left out.

    Results of one curve have specs that differ in ``key`` alone, and the same task, metric and protocol.

    Args:
        results: results of any encoders and tasks.
        key: the key of the spec.
        x_of: called with a result and ``key``; returns the x of the result, or ``None`` to leave it out.
        fewest_points: the smallest number of points of a curve.
    """
    # Scores by curve (spec without the key, task, metric, protocol), then by x, then by seed.
    curves: dict[tuple[EncoderSpec, str, str, str], dict[float, dict[int, float]]] = {}
    for result in results:
        x = x_of(result, key)
        score = result.main_score
        if x is None or score is None:
            continue
        spec = parse_spec(result.spec)
        other_params = tuple((name, value) for name, value in spec.params if name != key)
        spec_without_key = replace(spec, params=other_params)
        curve = (spec_without_key, result.task, result.main_metric, result.protocol)
        scores_by_x = curves.setdefault(curve, defaultdict(dict))
        scores_by_x[x][result.seed] = score
    series = []
    for (spec, task, metric, protocol), scores_by_x in curves.items():
        if len(scores_by_x) >= fewest_points:
            points = [
                _point(x, list(by_seed.values())) for x, by_seed in sorted(scores_by_x.items())
            ]
            series.append(Series(spec, task, metric, protocol, tuple(points)))
    return series


def _point(x: float, scores: list[float]) -> dict[str, Any]:
    sd = statistics.stdev(scores) if len(scores) > 1 else None
    return {"x": x, "mean": statistics.fmean(scores), "sd": sd, "n": len(scores)}


def bucket_ranks(corpus: str) -> tuple[int, int] | None:
    """Return the first and last frequency rank of a bucket, in thousands, from its name; ``None`` for other corpora."""
    match = _BUCKET.fullmatch(corpus)
    return (int(match[1]), int(match[2])) if match else None


def middle_rank(corpus: str) -> float | None:
    """Return the middle of ``bucket_ranks``; ``None`` for other corpora."""
    limits = bucket_ranks(corpus)
    return sum(limits) / 2 if limits else None


def count_words(
    words: Iterable[str], buckets: Iterable[tuple[str, Sequence[str]]]
) -> list[dict[str, Any]]:
    """Count a task's distinct words in each corpus (name and words), case ignored; ``share`` is of all its words."""
    task_words = {word.lower() for word in words}
    counts = {}
    for corpus, members in buckets:
        bucket_words = {member.lower() for member in members}
        counts[corpus] = len(task_words & bucket_words)
    rows = []
    for corpus, n in counts.items():
        share = n / len(task_words) if task_words else 0.0
        rows.append({"corpus": corpus, "words": n, "share": share})
    return rows
