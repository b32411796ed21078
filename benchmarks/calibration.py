"""Shares of simulated data sets on which equal encoders differ, and on which the interval holds the true difference.

    python benchmarks/calibration.py [--sets N] [--only TEXT] [--json FILE]

Each line is a way to simulate the predictions of two encoders, equally good but for some lines: 1,000 data sets,
compared by what ``run``, ``leaderboard`` and ``compare`` use. Printed are the share with p below .05 and the share of
95 % intervals that hold the true difference; at the end, by margin, how often encoders are called equal within it: at a
true difference of the margin, and at none. Between them are the shares of columns of equal rows in which one is without a dagger,
and of intervals that hold a single encoder's true score. Items
share what those of real data do: the words of Multi-SimLex, the targets and contexts of WiC-TSV.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from mirrorbench import Session
from mirrorbench.core.vectors import unit
from mirrorbench.data.corpora import shared_codes
from mirrorbench.own_data.measures import folds
from mirrorbench.reports.statistics.comparisons import Comparisons
from mirrorbench.reports.statistics.equality import equality_within
from mirrorbench.reports.statistics.items import MEAN, ItemScores, score_on
from mirrorbench.reports.statistics.verdicts import tied_with_best
from mirrorbench.tasks.thresholds import exact_threshold

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Rows = NDArray[np.intp]
Made = dict[tuple[str, str], dict[int, ItemScores]]
"""Items of each seed by encoder, A or B, and task."""
Simulation = Callable[[np.random.Generator], Made]


@cache
def real(task: str) -> Codes:
    """Return codes of the texts that items of an embedded task share."""
    session = Session(offline=True)
    found = session.plugins.tasks[task]
    shared = found.shared(found.load(session.folders.data))
    return shared_codes(shared, list(shared))


def groups(count: int, size: int) -> Codes:
    """Return codes of equal groups of items, such as the mentions of one document."""
    return np.repeat(np.arange(count), size)[:, None].astype(np.int32)


def effects(rng: np.random.Generator, codes: Codes) -> Floats:
    """Draw an effect of variance 1 for each item: the sum over its shared texts."""
    drawn = np.append(rng.normal(size=codes.max(initial=-1) + 1), 0)
    has = np.maximum(1, (codes >= 0).sum(axis=1))
    found: Floats = drawn[codes].sum(axis=1) / np.sqrt(has)
    return found


def items(statistic: str, values: Floats, gold: Floats, codes: Codes | None = None) -> ItemScores:
    """Return the predictions of one encoder."""
    ids = tuple(map(str, range(len(values))))
    return ItemScores(
        statistic, ids, values.astype(np.float64), gold.astype(np.float64), shared=codes
    )


def correlated(
    rng: np.random.Generator,
    n: int = 0,
    codes: Codes | None = None,
    effect: float = 1.0,
    worse: float = 1.0,
) -> Made:
    """Simulate Spearman's correlation with gold ratings; the errors of B are ``worse`` times as large."""
    n = n if codes is None else len(codes)
    gold = rng.normal(size=n)
    if codes is not None and codes.shape[1] == 1:  # what is judged depends on the group too
        gold = gold / 2 + effects(rng, codes)
    noise = (
        rng.normal(size=n) + (0 if codes is None else effect * effects(rng, codes)) for _ in "AB"
    )
    values = {"A": gold + next(noise), "B": gold + worse * next(noise)}
    return {
        (encoder, "t"): {0: items("spearman", own, gold, codes)} for encoder, own in values.items()
    }


def separated(rng: np.random.Generator, n: int, positive: int) -> Made:
    """Simulate the area under the ROC curve."""
    gold = (np.arange(n) < positive).astype(np.float64)
    return {(e, "t"): {0: items("auc", gold + rng.normal(size=n), gold)} for e in "AB"}


def answered(
    rng: np.random.Generator, codes: Codes, right: float, own: float = 1.0, worse: float = 0.0
) -> Made:
    """Simulate right and wrong answers; a share ``own`` of their difficulty is the encoder's own. B has fewer right."""
    n = len(codes)
    hard = rng.normal(size=n) + effects(rng, codes)
    found: Made = {}
    for encoder in "AB":
        latent = np.sqrt(1 - own) * hard + np.sqrt(own) * (rng.normal(size=n) + effects(rng, codes))
        share = right - worse * (encoder == "B")
        found[encoder, "t"] = {
            0: items(MEAN, latent < np.sqrt(2) * norm.ppf(share), np.zeros(n), codes)
        }
    return found


def averaged(rng: np.random.Generator, tasks: int, shared: float, n: int = 200) -> Made:
    """Simulate an average of correlations on the same items in several languages; a share of the errors is common."""
    found: Made = {}
    gold, common = rng.normal(size=n), rng.normal(size=(2, n))
    for task in range(tasks):
        for encoder, both in zip("AB", common, strict=True):
            noise = np.sqrt(shared) * both + np.sqrt(1 - shared) * rng.normal(size=n)
            found[encoder, f"t{task}"] = {0: items("spearman", gold + noise, gold)}
    return found


def copied(rng: np.random.Generator, copies: int, n: int = 200) -> Made:
    """Simulate an average over a file and its near-copies, each without one row, whose items have the same contents."""
    found: Made = {}
    gold = rng.normal(size=n)
    for encoder in "AB":
        whole = items("spearman", gold + rng.normal(size=n), gold)
        whole = replace(whole, units=whole.ids)
        for copy in range(copies):
            rows = [row for row in range(n) if copy == 0 or row != copy]
            names = tuple(map(str, range(len(rows))))
            found[encoder, f"t{copy}"] = {0: replace(whole.only(rows), ids=names)}
    return found


def differing(
    rng: np.random.Generator, n: int, first: float, second: float, codes: Codes | None = None
) -> Made:
    """Simulate answers of which shares are right by the first encoder alone, and by the second alone.

    With ``codes`` of groups, which encoder is right depends on the group as much as on the item.
    """
    drawn = rng.normal(size=n)
    if codes is not None:
        drawn = (drawn + effects(rng, codes)) / np.sqrt(2)
    ranks = norm.cdf(drawn)
    both = np.abs(ranks - 0.5) < 0.2
    right = {"A": both | (ranks < first), "B": both | (ranks > 1 - second)}
    return {(e, "t"): {0: items(MEAN, own, np.zeros(n), codes)} for e, own in right.items()}


def answering_seeds(rng: np.random.Generator, n: int, spread: float) -> Made:
    """Simulate three seeds of A and one of B that answer most questions alike, with accuracies around the same mean."""
    hard = rng.normal(size=n)
    found: Made = {("A", "t"): {}, ("B", "t"): {}}
    for encoder, count in (("A", 3), ("B", 1)):
        shares = rng.normal(0.8, spread, count) if count > 1 else [0.8]
        own = rng.normal(size=n)
        for seed, share in enumerate(shares):
            latent = np.sqrt(0.9) * hard + np.sqrt(0.08) * own
            latent += np.sqrt(0.02) * rng.normal(size=n)
            found[encoder, "t"][seed] = items(MEAN, latent < norm.ppf(share), np.zeros(n))
    return found


def heavy(rng: np.random.Generator, n: int) -> Made:
    """Simulate Pearson's correlation with ratings of a long tail, on which errors grow."""
    gold = rng.lognormal(size=n)
    return {(e, "t"): {0: items("pearson", gold * rng.lognormal(0, 0.5, n), gold)} for e in "AB"}


def seeded(
    rng: np.random.Generator, spread: float, n: int = 500, seeds: tuple[int, int] = (3, 3)
) -> Made:
    """Simulate seeds of encoders, with true correlations around the same mean; a single seed has that mean."""
    gold, found = rng.normal(size=n), {}
    for encoder, count in zip("AB", seeds, strict=True):
        own = rng.normal(size=n)
        found[encoder, "t"] = {}
        for seed, r in enumerate(rng.normal(0.5, spread, count) if count > 1 else [0.5]):
            noise = np.sqrt(0.7) * own + np.sqrt(0.3) * rng.normal(size=n)
            found[encoder, "t"][seed] = items(
                "pearson", r * gold + np.sqrt(1 - r * r) * noise, gold
            )
    return found


def equal() -> dict[str, Simulation]:
    """Return simulations of equally good encoders, by name."""
    words, mentions = real("quick-simlex"), groups(100, 6)
    found: dict[str, Simulation] = {
        f"Spearman, {n:,} independent pairs": partial(correlated, n=n) for n in (30, 60, 250, 1888)
    }
    for effect, of in ((1.0, "with effects"), (0.0, "without effects")):
        found[f"Spearman, Multi-SimLex's pairs, {of} of each word"] = partial(
            correlated, codes=words, effect=effect
        )
        eight = partial(correlated, codes=groups(8, 25), effect=effect)
        found[f"Spearman, 8 groups of 25, {of} of each group"] = eight
    found |= {f"AUC, {n} items": partial(separated, n=n, positive=n // 3) for n in (60, 600)}
    found["AUC, 60 items, 6 of them positive"] = partial(separated, n=60, positive=6)
    found["accuracy, WiC-TSV's items, with effects of targets and contexts"] = partial(
        answered, codes=real("quick-wic"), right=0.6
    )
    found["accuracy@1, 100 documents of 6 mentions, with effects"] = partial(
        answered, codes=mentions, right=0.8
    )
    found["accuracy, 600 items, few answers differ"] = partial(
        answered, codes=groups(600, 1), right=0.9, own=0.005
    )
    for n, share in ((600, 0.005), (60, 0.05), (200, 0.1)):
        name = f"accuracy, {n} independent items, {2 * share:.0%} of the answers differ"
        found[name] = partial(differing, n=n, first=share, second=share)
    for count, size in ((8, 25), (20, 10), (100, 6)):
        for share in (0.02, 0.15):
            name = f"accuracy, {count} groups of {size}, {2 * share:.0%} of the answers differ"
            found[name] = partial(
                differing, n=count * size, first=share, second=share, codes=groups(count, size)
            )
    for spread in (0, 0.01):
        name = f"accuracy, 600 items, three seeds against one, spread by {spread:g}"
        found[name] = partial(answering_seeds, n=600, spread=spread)
    for copies in (2, 5):
        found[f"average over a file and {copies - 1} near-copies"] = partial(copied, copies=copies)
    for shared in (0, 0.1, 0.3, 0.5):
        for tasks in (2, 8):
            average = partial(averaged, tasks=tasks, shared=shared)
            found[f"average over {tasks} tasks, {shared:.0%} of the error shared"] = average
    return found | {
        f"three seeds, true scores spread by {spread:g}": partial(seeded, spread=spread)
        for spread in (0, 0.005, 0.025)
    }


def limits() -> dict[str, Simulation]:
    """Return simulations of equal encoders of which too many are called different."""
    return {
        "two seeds against an untuned encoder, spread by 0.1": partial(
            seeded, spread=0.1, seeds=(2, 1)
        ),
        "three seeds against an untuned encoder, spread by 0.1": partial(
            seeded, spread=0.1, seeds=(3, 1)
        ),
        "Pearson, 250 lognormal ratings": partial(heavy, n=250),
    }


def better() -> dict[str, tuple[Simulation, float]]:
    """Return simulations of encoders of which the first is better, with the true difference."""
    of_pairs = 6 / np.pi * (np.arcsin(0.5**0.5 / 2) - np.arcsin((1 + 1.5**2) ** -0.5 / 2))
    single = groups(600, 1)
    found: dict[str, tuple[Simulation, float]] = {}
    for count, size in ((8, 25), (20, 10), (100, 6)):
        for first, second in ((0.02, 0.0), (0.05, 0.01), (0.3, 0.2)):
            differ = f"{first + second:.0%} of the answers differ"
            simulate = partial(
                differing, n=count * size, first=first, second=second, codes=groups(count, size)
            )
            name = f"accuracy, {count} groups of {size}, {differ}, A is better"
            found[name] = simulate, first - second
    return found | {
        "Spearman, 60 pairs, A is better": (partial(correlated, n=60, worse=1.5), of_pairs),
        "accuracy, 600 items, A is better by .01": (
            partial(answered, codes=single, right=0.9, own=0.05, worse=0.01),
            0.01,
        ),
        "accuracy, 600 items, A is better by .05": (
            partial(answered, codes=single, right=0.9, own=0.05, worse=0.05),
            0.05,
        ),
        "accuracy, 600 independent items, 2.3 % of the answers differ": (
            partial(differing, n=600, first=0.02, second=0.003),
            0.017,
        ),
        "accuracy, 200 independent items, 2 % of the answers differ, all for A": (
            partial(differing, n=200, first=0.02, second=0.0),
            0.02,
        ),
    }


def single() -> dict[str, tuple[Callable[[np.random.Generator], ItemScores], float]]:
    """Return simulations of one encoder's predictions, with the true score."""

    def answers(rng: np.random.Generator, n: int, right: float) -> ItemScores:
        return items(MEAN, rng.random(n) < right, np.zeros(n))

    def scores(
        rng: np.random.Generator, n: int, area: float, positive: int, wide: float = 1
    ) -> ItemScores:
        gold = (np.arange(n) < positive).astype(np.float64)
        values = rng.normal(size=n) * np.where(gold == 1, wide, 1)
        return items("auc", values + np.sqrt(1 + wide**2) * norm.ppf(area) * gold, gold)

    found: dict[str, tuple[Callable[[np.random.Generator], ItemScores], float]] = {}
    for n in (60, 200, 600):
        for score in (0.5, 0.8, 0.9, 0.96, 0.98):
            found[f"accuracy of {score}, {n} items"] = (partial(answers, n=n, right=score), score)
            found[f"AUC of {score}, {n} items"] = (
                partial(scores, n=n, area=score, positive=n // 3),
                score,
            )
    for n, positive in ((60, 6), (600, 12), (600, 30)):
        for wide, of in ((1, ""), (3, " that vary three times as much")):
            for score in (0.5, 0.8, 0.9, 0.96, 0.98):
                found[f"AUC of {score}, {n} items, {positive} positive{of}"] = (
                    partial(scores, n=n, area=score, positive=positive, wide=wide),
                    score,
                )
    return found


def alike(rng: np.random.Generator, n_rows: int, statistic: str, n: int = 300) -> Made:
    """Simulate a column of equally good encoders, of whose errors half is common."""
    gold, common = rng.normal(size=(2, n))
    found: Made = {}
    for row in range(n_rows):
        errors = np.sqrt(0.5) * (common + rng.normal(size=n))
        own = items(MEAN, errors < 0.84, np.zeros(n))
        if statistic == "spearman":
            own = items(statistic, gold + errors, gold)
        found[str(row), "t"] = {0: own}
    return found


SCORES = ("accuracy", "nDCG", "spearman", "auc", "cosine_ap")
"""Scores whose equality is tested; nDCG stands for all means of values between 0 and 1."""


def nearly_equal(
    rng: np.random.Generator,
    score: str,
    n: int,
    share: float,
    favoured: float,
    seeds: int = 1,
    size: int = 1,
) -> Made:
    """Simulate an encoder A that differs from B on a share of the items, each of its seeds on others.

    ``size``: of groups of items, on which half of what changes depends. ``favoured``: the share of the changes that are gains; of correlations and areas, A has fresh errors instead, as
    large as those of B at .5, and larger from there.
    """
    codes = groups(n // size, size) if size > 1 else None
    gold = rng.normal(size=n)
    if score in ("auc", "cosine_ap"):
        gold = (gold > 0.5).astype(np.float64)
    errors = rng.normal(size=n)
    values = rng.beta(2, 2, n) if score == "nDCG" else gold + errors
    if score == "accuracy":
        values = (rng.random(n) < 0.5).astype(np.float64)
    statistic = MEAN if score in ("accuracy", "nDCG") else score
    found: Made = {("A", "t"): {}}
    for seed in range(seeds):
        drawn = rng.normal(size=n)
        if codes is not None:
            drawn = (drawn + effects(rng, codes)) / np.sqrt(2)
        # Half of the changes of right and wrong answers are possible.
        changed = norm.cdf(drawn) < (2 * share if score == "accuracy" else share)
        gains = np.where(rng.random(n) < favoured, 1, -1)
        if score == "accuracy":
            # A gain turns a wrong answer of B into a right one, and the other way round.
            changed &= (gains > 0) == (values == 0)
            own = np.where(changed, 1 - values, values)
        elif score == "nDCG":
            # Most changes are small, and some are large.
            sizes = np.minimum(1, rng.exponential(0.1, n) + (rng.random(n) < 0.05) * rng.random(n))
            own = values + changed * gains * sizes * (1 - values)
        else:
            fresh = rng.normal(size=n) * (1 + 2 * (favoured - 0.5))
            own = gold + np.where(changed, fresh, errors)
        found["A", "t"][seed] = items(statistic, own, gold, codes)
    found["B", "t"] = {0: items(statistic, values, gold, codes)}
    return found


DIMENSIONS, OWN_DIMENSIONS = 32, 8
"""Dimensions of simulated vectors, and how many of them two encoders do not have in common."""
MEANS_OF_LABELS = np.random.default_rng(0).normal(0, 0.5, (4, DIMENSIONS))
"""Mean vector of the texts of each of four labels, of which each dimension varies by 1."""


def classified(rng: np.random.Generator, n: int, favoured: float) -> Made:
    """Simulate right and wrong labels of texts, by classifiers that are fitted in five folds.

    Two encoders have three quarters of their dimensions in common. Those that B has of its own tell less of the labels
    than A's: nothing if ``favoured`` is 1, as much if it is .5.
    """
    from sklearn.linear_model import LogisticRegression

    labels = rng.integers(len(MEANS_OF_LABELS), size=n)
    splits = folds_of_single_items(labels)
    common = rng.normal(size=(n, DIMENSIONS - OWN_DIMENSIONS))
    found: Made = {}
    for encoder, signal in (("A", 1.0), ("B", 2 * (1 - favoured))):
        signals = np.append(np.ones(common.shape[1]), np.full(OWN_DIMENSIONS, signal))
        errors = np.hstack([common, rng.normal(size=(n, OWN_DIMENSIONS))])
        vectors = unit(signals * MEANS_OF_LABELS[labels] + errors)
        hits = np.zeros(n)
        for rows, scored in splits:
            classifier = LogisticRegression(max_iter=1000).fit(vectors[rows], labels[rows])
            hits[scored] = classifier.predict(vectors[scored]) == labels[scored]
        found[encoder, "t"] = {0: items(MEAN, hits, np.zeros(n))}
    return found


def above_threshold(rng: np.random.Generator, n: int, favoured: float) -> Made:
    """Simulate right and wrong labels of pairs, by thresholds of cosines that are fitted in five folds.

    Two encoders have three quarters of the variance of their errors in common. Cosines of B tell less of the labels
    than A's: half as much if ``favoured`` is 1, as much if it is .5.
    """
    labels = rng.integers(2, size=n)
    splits = folds_of_single_items(labels)
    common = rng.normal(size=n)
    found: Made = {}
    for encoder, signal in (("A", 2.0), ("B", 3 - 2 * favoured)):
        cosines = signal * labels + np.sqrt(0.75) * common + np.sqrt(0.25) * rng.normal(size=n)
        hits = np.zeros(n)
        for rows, scored in splits:
            threshold = exact_threshold(cosines[rows], labels[rows].astype(np.float64))
            hits[scored] = (cosines[scored] > threshold) == labels[scored]
        found[encoder, "t"] = {0: items(MEAN, hits, np.zeros(n))}
    return found


def folds_of_single_items(labels: NDArray[np.int64]) -> list[tuple[Rows, Rows]]:
    """Return the fitted and the scored rows of the five folds in which own data are scored; no items share a text."""
    return list(folds(labels, [(str(row),) for row in range(len(labels))]))


FITTED = {"classification": classified, "threshold of pairs": above_threshold}
"""Simulations of answers that depend on what is fitted on other items."""


def margins() -> dict[str, partial[Made]]:
    """Return simulations of encoders whose true difference is the margin."""
    found: dict[str, partial[Made]] = {}
    for kind, simulate in FITTED.items():
        for n in (200, 600):
            for favoured, difference in ((1.0, "large"), (0.65, "small")):
                name = f"{kind}, {n} items, fitted in five folds, {difference} difference"
                found[name] = partial(simulate, n=n, favoured=favoured)
    for score in SCORES:
        for n in (200, 600, 2000):
            for share in (0.02, 0.1, 0.5):
                for favoured, gains in ((1.0, "one-sided"), (0.65, "two-sided")):
                    name = (
                        f"{score.removeprefix('cosine_')}, {n:,} items, {share:.0%} differ, {gains}"
                    )
                    found[name] = partial(
                        nearly_equal, score=score, n=n, share=share, favoured=favoured
                    )
        name = f"{score.removeprefix('cosine_')}, 300 groups of 6, 10% differ, one-sided"
        found[name] = partial(nearly_equal, score=score, n=1800, share=0.1, favoured=1.0, size=6)
        for favoured, gains in ((1.0, "one-sided"), (0.65, "two-sided")):
            name = f"{score.removeprefix('cosine_')}, 600 items, 10% differ, {gains}, three seeds"
            found[name] = partial(
                nearly_equal, score=score, n=600, share=0.1, favoured=favoured, seeds=3
            )
    return found


def called_equal(name: str, simulate: partial[Made], sets: int) -> tuple[float, float, float]:
    """Return the true difference, and how often encoders are called equal within it: at that difference, and at none."""
    plugins = Session(offline=True).plugins
    rng = np.random.default_rng(crc32(name.encode()))

    def difference(made: Made) -> float:
        first, second = (made[encoder, "t"] for encoder in "AB")
        mean = np.mean([score_on(own, plugins) for own in first.values()])
        return float(mean) - score_on(second[0], plugins)

    repeats, of_truth = 10, partial(simulate, n=100_002)
    if simulate.func in FITTED.values():
        # How well a classifier or a threshold is fitted depends on the number of items.
        repeats, of_truth = sets, simulate
    margin = abs(float(np.mean([difference(of_truth(rng)) for _ in range(repeats)])))
    shares = []
    for favoured in (simulate.keywords["favoured"], 0.5):
        called = 0
        for _ in range(sets):
            made = simulate(rng, favoured=favoured)
            comparisons = Comparisons(made, plugins)
            estimate = comparisons.compare("A", "B", ["t"]).estimate
            basis = comparisons.basis("A", "B", ["t"])
            p = equality_within(estimate, basis, margin).p
            called += p is not None and p < 0.05
        shares.append(called / sets)
    return margin, shares[0], shares[1]


def calibrate(name: str, simulate: Simulation, true: float, sets: int) -> tuple[float, float]:
    """Return the shares of data sets with a difference at .05, and with the truth in the interval."""
    rng = np.random.default_rng(crc32(name.encode()))
    plugins = Session(offline=True).plugins
    alarms = covered = 0
    for _ in range(sets):
        made = simulate(rng)
        estimate = (
            Comparisons(made, plugins)
            .compare("A", "B", list(dict.fromkeys(t for _, t in made)))
            .estimate
        )
        ends = estimate.interval()
        alarms += estimate.p is not None and estimate.p < 0.05
        covered += ends is not None and ends[0] <= true <= ends[1]
    return alarms / sets, covered / sets


def covered(
    name: str, simulate: Callable[[np.random.Generator], ItemScores], true: float, sets: int
) -> float:
    """Return the share of data sets whose interval of a single score holds the true one."""
    rng = np.random.default_rng(crc32(name.encode()))
    plugins = Session(offline=True).plugins
    held = 0
    for _ in range(sets):
        made = {("A", "t"): {0: simulate(rng)}}
        ends = Comparisons(made, plugins).estimate("A", ["t"]).interval()
        held += ends is not None and ends[0] <= true <= ends[1]
    return held / sets


def set_apart(name: str, simulate: Simulation, sets: int) -> float:
    """Return the share of columns of equal rows in which a row is without a dagger beside the best."""
    rng = np.random.default_rng(crc32(name.encode()))
    plugins = Session(offline=True).plugins
    apart = 0
    for _ in range(sets):
        made = simulate(rng)
        comparisons = Comparisons(made, plugins)
        scores = {row: comparisons.estimate(row, ["t"]).value for row, _ in made}
        best = max(scores, key=scores.__getitem__)
        others = [row for row in scores if row != best]
        apart += len(tied_with_best(comparisons, best, others, ["t"])) < len(others)
    return apart / sets


def main() -> None:
    """Print a line for each simulation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", type=int, default=1000, help="data sets of each simulation (default 1000)"
    )
    parser.add_argument("--only", default="", help="simulations whose name has this text")
    parser.add_argument("--json", type=Path, help="write the shares there too")
    options = parser.parse_args()
    found: dict[str, float | tuple[float, ...]] = {}
    print(
        "| items | p below .05 | intervals that hold the true difference |\n|---|---|---|",
        flush=True,
    )
    for name, (simulate, true) in (
        {n: (s, 0.0) for n, s in (equal() | limits()).items()} | better()
    ).items():
        if options.only in name:
            shares = found[name] = calibrate(name, simulate, true, options.sets)
            alarms, held = (f"{share:.3f}".removeprefix("0") for share in shares)
            print(f"| {name} | {alarms} | {held} |", flush=True)
    for n_rows in (3, 6, 12):
        for statistic in ("spearman", MEAN):
            name = f"{n_rows} equal rows, {statistic}: one without a dagger"
            if options.only in name:
                found[name] = set_apart(
                    name, partial(alike, n_rows=n_rows, statistic=statistic), options.sets
                )
                print(f"| {name} | {found[name]:.3f} | |".replace(" 0.", " ."), flush=True)
    for name, (simulate_one, true) in single().items():
        if options.only in name:
            found[name] = covered(name, simulate_one, true, options.sets)
            print(f"| {name} | | {found[name]:.3f} |".replace("| 0.", "| ."), flush=True)
    for name, nearly in margins().items():
        if options.only in name:
            margin, *shares = found[name] = called_equal(name, nearly, options.sets)
            at_margin, at_none = (f"{share:.3f}".removeprefix("0") for share in shares)
            print(f"| {name} | {margin:.4f} | {at_margin} | {at_none} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
