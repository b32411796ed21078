from __future__ import annotations

import statistics
from itertools import pairwise, product

import numpy as np
import pytest
from analysed_results import result
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from toys import scored

from mirrorbench.analysis.scores import (
    FEWEST,
    MOST,
    answers,
    bands_of,
    bounds,
    bucket,
    changed_answers,
    count_words,
    curves_over,
    distribution,
    middle,
    roc_curve,
    setting,
    shared_edges,
    shifted_ranks,
)
from mirrorbench.data.items import Pair
from mirrorbench.tasks import PairClassification

RNG = np.random.default_rng(5)
GOLD = RNG.integers(0, 2, 80).astype(np.float64)
SCORES = np.round(RNG.normal(GOLD * 0.7, 1), 1)  # with ties


def test_kinds_of_pairs() -> None:
    for gold, kinds in (
        ([1, 0, 1.0], ["positive", "negative", "positive"]),
        ([0, 1.6, 1.7, 3.3, 3.4, 5], ["low", "low", "middle", "middle", "high", "high"]),
    ):
        names, kind = bands_of(gold)
        assert [names[k] for k in kind] == kinds
    with pytest.raises(ValueError, match="same judgement"):
        bands_of([2.0, 2.0])


def test_distribution_of_loops() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 200)
    cosines = np.clip(rng.normal(0.4 + 0.2 * gold, 0.15), -1, 1)
    edges = shared_edges([cosines])
    found = distribution({"scores": cosines, "gold": gold}, edges)
    for band, label in zip(found["bands"], (0, 1), strict=True):
        own = [c for c, g in zip(cosines.tolist(), gold.tolist(), strict=True) if g == label]
        assert band["n"] == len(own)
        assert band["mean"] == pytest.approx(statistics.fmean(own))
        assert band["sd"] == pytest.approx(statistics.stdev(own))
        assert band["median"] == pytest.approx(statistics.median(own))
        counts = [sum(low <= c < high for c in own) for low, high in pairwise(edges)]
        assert band["density"] * np.diff(edges) * len(own) == pytest.approx(counts)
    assert found["auc"] == pytest.approx(roc_auc_score(gold, cosines))
    shared = [
        min(a, b) * (high - low)
        for a, b, low, high in zip(*(band["density"] for band in found["bands"]), edges[:-1], edges[1:], strict=True)
    ]
    assert found["overlap"] == pytest.approx(sum(shared))
    assert 0 < found["overlap"] < 1


def test_parted_equal_and_graded_bands() -> None:
    gold = np.array([0, 0, 1, 1])
    parted, same = np.array([0.1, 0.15, 0.8, 0.9]), np.array([0.1, 0.9, 0.1, 0.9])
    overlaps = [distribution({"scores": s, "gold": gold}, shared_edges([s]))["overlap"] for s in (parted, same)]
    assert overlaps == [0, pytest.approx(1)]
    gold = np.array([0, 0.5, 2.5, 4.5, 5])
    cosines = np.array([0.2, 0.6, 0.99, 0.5, 0.9])
    found = distribution({"scores": cosines, "gold": gold}, shared_edges([cosines]))
    assert [band["name"] for band in found["bands"]] == ["low", "middle", "high"]
    assert found["bands"][1]["sd"] is None
    assert found["auc"] == pytest.approx(0.75)  # of four pairs only .6 > .5 is wrong


def test_edges_hold_everything() -> None:
    for n, bins in ((5, FEWEST), (1000, 20), (10**5, MOST)):
        edges = shared_edges([np.linspace(-0.2, 0.5, n), np.array([0.9])])
        assert len(edges) == bins + 1
        assert edges[0] < -0.2
        assert edges[-1] > 0.9
        assert (np.diff(shared_edges([np.full(n, 0.5)])) > 0).all()


def test_the_area_of_loops_and_secret_labels_left_out() -> None:
    found = roc_curve({"scores": np.append(SCORES, [9.0, -9.0]), "gold": np.append(GOLD, [np.nan, np.nan])})
    wins = [float(p > n) + 0.5 * (p == n) for p in SCORES[GOLD == 1] for n in SCORES[GOLD == 0]]
    assert found["auc"] == pytest.approx(sum(wins) / len(wins)) == roc_auc_score(GOLD, SCORES)
    assert np.trapezoid(found["tpr"], found["fpr"]) == pytest.approx(found["auc"])
    assert (found["positives"], found["negatives"]) == ((GOLD == 1).sum(), (GOLD == 0).sum())


def test_stored_points_are_taken() -> None:
    pairs = [Pair(str(n), f"left {n}", f"right {n}", gold) for n, gold in enumerate(GOLD)]
    scores = scored(PairClassification("yes-no", pairs), lambda item: RNG.normal(size=3))
    stored = {"scores": scores.scores, "gold": scores.gold, **scores.extra}
    assert roc_curve(stored)["fpr"] is stored["roc_fpr"]
    assert roc_curve(stored)["auc"] == pytest.approx(scores.metrics["auc"])


def test_other_judgements_have_no_curve() -> None:
    for gold in ([0, 1, 2], [1, 1, 1], [0.0, np.nan, 0.0]):
        with pytest.raises(ValueError, match="labels 0 and 1"):
            roc_curve({"scores": np.array([0.1, 0.2, 0.3]), "gold": np.array(gold, dtype=np.float64)})


def test_answers_of_every_kind_of_task() -> None:
    for scores, gold, given, right, above in (
        ([0.9, 0.2], [1, np.nan], [1, 0], [1, 0], [0.5, -0.2]),  # decided by the task, at .4
        ([1.0, 0.0], [1, 1], None, [1, 0], [0.5, -0.5]),  # hits and misses
        ([0.9, 0.8, 0.3], [1, 1, 0], None, [1, 1, 0], [0.35, 0.25, -0.25]),  # the best threshold is .55
    ):
        stored = {"scores": np.array(scores), "gold": np.array(gold, dtype=np.float64)}
        found = answers(stored | ({"predictions": np.array(given, dtype=np.int8)} if given else {}), 0.4)
        assert found is not None
        assert (found[0].tolist(), found[1].tolist()) == (right, pytest.approx(above))
    assert answers({"scores": np.array([0.1, 0.2, 0.4]), "gold": np.array([0, 2.5, 5])}) is None  # graded


def test_changes_of_loops() -> None:
    rng = np.random.default_rng(2)
    n = 60
    gold = rng.integers(0, 2, n)
    scores = rng.normal(size=n), rng.normal(size=n) + gold
    cuts = 0.1, 0.6
    before, after = ((s > c).astype(np.int64) for s, c in zip(scores, cuts, strict=True))
    ids = [f"i{row}" for row in range(n)]
    found = changed_answers(ids, gold, (before, scores[0] - cuts[0]), (after, scores[1] - cuts[1]))
    changed = [row for row in range(n) if before[row] != after[row]]
    assert {c["id"] for c in found} == {ids[row] for row in changed}
    assert {c["id"] for c in found if c["after"] == c["gold"]} == {ids[r] for r in changed if after[r] == gold[r]}
    assert all((c[f"score_{when}"] > 0) == bool(c[when]) for c in found for when in ("before", "after"))
    sizes = [abs(c["score_after"] - c["score_before"]) for c in found]
    assert sizes == sorted(sizes, reverse=True)


def test_shifts_of_ranks() -> None:
    gold, before, after = [0.0, 1.0, 2.0, 3.0], np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    found = shifted_ranks(list("abcd"), gold, before, after)
    assert [shift["id"] for shift in found] == ["a", "d", "b", "c"]  # the largest gain first
    assert [shift["gain"] for shift in found] == pytest.approx([1, 1, 1 / 3, 1 / 3])
    assert all(shift["rank_after"] == shift["gold_rank"] for shift in found)
    rng = np.random.default_rng(4)  # Spearman's correlation is Pearson's of these ranks, ties given their mean
    gold, scores = rng.integers(0, 5, 40).astype(float), rng.normal(size=40)
    found = shifted_ranks([str(n) for n in range(40)], gold, scores, -scores)
    correlation = np.corrcoef([s["gold_rank"] for s in found], [s["rank_before"] for s in found])[0, 1]
    assert correlation == pytest.approx(spearmanr(gold, scores)[0])


def test_points_are_means_over_seeds_by_rising_x() -> None:
    scores = {200: [0.5, 0.52, 0.6], 50: [0.4], 1000: [0.7, 0.7]}
    stored = [
        result(f"b+mirror:corpus_size={n}", y, seed=seed, n=n) for n, ys in scores.items() for seed, y in enumerate(ys)
    ]
    (found,) = curves_over(stored, "corpus_size")
    assert str(found.spec) == "b+mirror"
    assert (found.task, found.metric) == ("cats", "spearman")
    assert [p["x"] for p in found.points] == [50, 200, 1000]
    assert [p["n"] for p in found.points] == [1, 3, 2]
    assert [p["mean"] for p in found.points] == pytest.approx([statistics.fmean(scores[n]) for n in (50, 200, 1000)])
    assert found.points[0]["sd"] is None
    assert found.points[1]["sd"] == pytest.approx(statistics.stdev(scores[200]))


def test_a_preset_counts_as_much_as_a_key() -> None:
    stored = [
        result("b+mirror", 0.5, augment={"dropout": 0.1}),
        result("b+mirror:dropout=0.4", 0.6, augment={"dropout": 0.4}),
    ]
    (found,) = curves_over(stored, "dropout")
    assert [p["x"] for p in found.points] == [0.1, 0.4]
    assert [setting(r, "lr") for r in stored] == [2e-5, 2e-5]
    assert [setting(r, "corpus_size") for r in stored] == [1000, 1000]
    assert setting(result("b+base", 0.1), "dropout") is None
    assert setting(result("b+base:dims=64", 0.1), "dims") == 64
    assert setting(result("b+base:dims=64", 0.1), "corpus_size") is None
    assert setting(stored[0], "no-such-key") is None


def test_curves_do_not_mix_other_settings_tasks_or_protocols() -> None:
    stored = [
        result(f"b+mirror:dropout={x}{extra}", x, task=task, protocol=protocol, augment={"dropout": x})
        for x, extra, task, protocol in product((0.1, 0.2), ("", ",lr=0.1"), ("cats", "dogs"), ("paper", "released"))
    ]
    stored += [result("b+base", 0.9), result("c+mirror:dropout=0.1", 0.9, augment={"dropout": 0.1})]
    found = curves_over(stored, "dropout")
    assert len(found) == 8
    assert {len(one.points) for one in found} == {2}
    assert len({(one.spec, one.task, one.protocol) for one in found}) == 8
    scores = ((1, 0.1), (2, None), (3, 0.3))  # an undefined one is no point
    stored = [result(f"b+mirror:span_mask={k}", y, augment={"span_mask": k}) for k, y in scores]
    (alone,) = curves_over(stored, "span_mask")
    assert [p["x"] for p in alone.points] == [1, 3]
    assert curves_over(stored[:2], "span_mask") == []


def test_words_are_counted_once_and_without_case_in_the_registered_buckets(plugins: object) -> None:
    buckets = [("words-en-0-10k", ["the", "Cat", "dog"]), ("words-en-10-20k", ["zebra", "yak"])]
    found = count_words(["cat", "CAT", "dog", "yak", "xylophone"], buckets)
    assert [tuple(row.values()) for row in found] == [("words-en-0-10k", 2, 0.5), ("words-en-10-20k", 1, 0.25)]
    assert [row["words"] for row in count_words([], buckets)] == [0, 0]
    assert [b for entry in plugins.corpora if (b := bounds(entry.name))] == [(n, n + 10) for n in range(0, 100, 10)]
    assert bounds("words-en") is None


def test_scores_by_bucket() -> None:
    stored = [
        result(f"b+mirror:corpus={name}", y, seed=seed, corpus=name)
        for name, ys in (("words-en-10-20k", [0.3, 0.5]), ("words-en-0-10k", [0.6]))
        for seed, y in enumerate(ys)
    ]
    stored += [result("b+mirror", 0.9), result("b+base", 0.1)]
    (found,) = curves_over(stored, "corpus", bucket, least=1)
    assert str(found.spec) == "b+mirror"
    assert middle("words-en-10-20k") == 15
    assert found.at(5)["mean"] == 0.6
    sd = pytest.approx(statistics.stdev([0.3, 0.5]))
    assert found.at(15) == {"x": 15, "mean": pytest.approx(0.4), "sd": sd, "n": 2}
    assert found.at(25)["mean"] is None
