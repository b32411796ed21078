"""Analyses of stored results against explicit computations."""

from __future__ import annotations

import statistics
from itertools import product

import numpy as np
import pytest
from helpers.analysis_results import result
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from mirrorbench.analysis import scores

RNG = np.random.default_rng(5)
GOLD = RNG.integers(0, 2, 80).astype(np.float64)
SCORES = np.round(RNG.normal(GOLD * 0.7, 1), 1)  # with ties


def test_pairs_are_banded_by_judgement() -> None:
    for gold, expected in (
        ([1, 0, 1.0], ["positive", "negative", "positive"]),
        ([0, 1.6, 1.7, 3.3, 3.4, 5], ["low", "low", "middle", "middle", "high", "high"]),
    ):
        names, bands = scores.judgement_bands(gold)
        assert [names[band] for band in bands] == expected
    with pytest.raises(ValueError, match="same judgement"):
        scores.judgement_bands([2.0, 2.0])


def test_band_distributions_equal_numpy_and_sklearn() -> None:
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 200)
    cosines = np.clip(rng.normal(0.4 + 0.2 * gold, 0.15), -1, 1)
    edges = scores.shared_edges([cosines])
    distribution = scores.distribution({"scores": cosines, "gold": gold}, edges)
    for label, band in enumerate(distribution["bands"]):
        in_band = cosines[gold == label]
        assert band["n"] == len(in_band)
        assert band["mean"] == pytest.approx(np.mean(in_band))
        assert band["sd"] == pytest.approx(statistics.stdev(in_band))
        assert band["median"] == pytest.approx(np.median(in_band))
        counts, _ = np.histogram(in_band, edges)
        assert band["density"] * np.diff(edges) * len(in_band) == pytest.approx(counts)
    assert len(distribution["bands"]) == 2
    assert distribution["auc"] == pytest.approx(roc_auc_score(gold, cosines))
    low, high = (band["density"] for band in distribution["bands"])
    assert distribution["overlap"] == pytest.approx(np.minimum(low, high) @ np.diff(edges))


def test_band_overlap_and_graded_auc_are_correct() -> None:
    gold = np.array([0, 0, 1, 1])
    for cosines, overlap in (([0.1, 0.15, 0.8, 0.9], 0), ([0.1, 0.9, 0.1, 0.9], 1)):
        predictions = {"scores": np.array(cosines), "gold": gold}
        edges = scores.shared_edges([predictions["scores"]])
        assert scores.distribution(predictions, edges)["overlap"] == pytest.approx(overlap)
    gold = np.array([0, 0.5, 2.5, 4.5, 5])
    cosines = np.array([0.2, 0.6, 0.99, 0.5, 0.9])
    distribution = scores.distribution(
        {"scores": cosines, "gold": gold}, scores.shared_edges([cosines])
    )
    assert [band["name"] for band in distribution["bands"]] == ["low", "middle", "high"]
    assert distribution["bands"][1]["sd"] is None
    assert distribution["auc"] == pytest.approx(0.75)  # of four pairs only .6 > .5 is wrong


def test_histogram_edges_cover_all_scores() -> None:
    for n, bins in ((5, scores.FEWEST_BINS), (1000, 20), (10**5, scores.MOST_BINS)):
        edges = scores.shared_edges([np.linspace(-0.2, 0.5, n), np.array([0.9])])
        assert len(edges) == bins + 1
        assert edges[0] < -0.2
        assert edges[-1] > 0.9
        assert (np.diff(scores.shared_edges([np.full(n, 0.5)])) > 0).all()


def test_roc_curve_equals_sklearn_on_known_labels() -> None:
    curve = scores.roc_curve(
        {"scores": np.append(SCORES, [9.0, -9.0]), "gold": np.append(GOLD, [np.nan, np.nan])}
    )
    assert curve["auc"] == pytest.approx(roc_auc_score(GOLD, SCORES))
    assert np.trapezoid(curve["tpr"], curve["fpr"]) == pytest.approx(curve["auc"])
    assert (curve["positives"], curve["negatives"]) == ((GOLD == 1).sum(), (GOLD == 0).sum())
    for gold in ([0, 1, 2], [1, 1, 1], [0.0, np.nan, 0.0]):
        with pytest.raises(ValueError, match="labels 0 and 1"):
            scores.roc_curve(
                {"scores": np.array([0.1, 0.2, 0.3]), "gold": np.array(gold, dtype=np.float64)}
            )


def test_binary_answers_and_margins_are_computed() -> None:
    for values, gold, given, right, above in (
        ([0.9, 0.2], [1, np.nan], [1, 0], [1, 0], [0.5, -0.2]),  # decided by the task, at .4
        ([1.0, 0.0], [1, 1], None, [1, 0], [0.5, -0.5]),  # hits and misses
        (
            [0.9, 0.8, 0.3],
            [1, 1, 0],
            None,
            [1, 1, 0],
            [0.35, 0.25, -0.25],
        ),  # the best threshold is .55
    ):
        stored = {"scores": np.array(values), "gold": np.array(gold, dtype=np.float64)}
        if given:
            stored["predictions"] = np.array(given, dtype=np.int8)
        answers = scores.answers(stored, 0.4)
        assert answers is not None
        assert (answers[0].tolist(), answers[1].tolist()) == (right, pytest.approx(above))
    assert (
        scores.answers({"scores": np.array([0.1, 0.2, 0.4]), "gold": np.array([0, 2.5, 5])}) is None
    )  # graded


def test_changed_answers_are_found_and_sorted() -> None:
    rng = np.random.default_rng(2)
    gold = rng.integers(0, 2, 60)
    ids = [str(n) for n in range(60)]
    margins = rng.normal(size=60) - 0.1, rng.normal(size=60) + gold - 0.6
    before, after = ((margin > 0).astype(np.int64) for margin in margins)
    changed = scores.changed_answers(ids, gold, (before, margins[0]), (after, margins[1]))
    assert sorted(int(c["id"]) for c in changed) == np.flatnonzero(before != after).tolist()
    for change in changed:
        n = int(change.pop("id"))
        assert list(change.values()) == [gold[n], before[n], after[n], margins[0][n], margins[1][n]]
    sizes = [abs(c["score_after"] - c["score_before"]) for c in changed]
    assert sizes == sorted(sizes, reverse=True)


def test_rank_shifts_are_sorted_by_gain() -> None:
    gold = [0.0, 1.0, 2.0, 3.0]
    before = np.array([4.0, 3.0, 2.0, 1.0])
    after = np.array([1.0, 2.0, 3.0, 4.0])
    shifts = scores.shifted_ranks(list("abcd"), gold, before, after)
    assert [shift["id"] for shift in shifts] == ["a", "d", "b", "c"]  # the largest gain first
    assert [shift["gain"] for shift in shifts] == pytest.approx([1, 1, 1 / 3, 1 / 3])
    assert all(shift["rank_after"] == shift["gold_rank"] for shift in shifts)
    # Spearman's correlation is Pearson's of these ranks, ties given their mean.
    rng = np.random.default_rng(4)
    gold = rng.integers(0, 5, 40).astype(float)
    values = rng.normal(size=40)
    shifts = scores.shifted_ranks([str(n) for n in range(40)], gold, values, -values)
    gold_ranks = [shift["gold_rank"] for shift in shifts]
    ranks_before = [shift["rank_before"] for shift in shifts]
    correlation = np.corrcoef(gold_ranks, ranks_before)[0, 1]
    assert correlation == pytest.approx(spearmanr(gold, values)[0])


def test_curve_points_average_seeds_in_ascending_order() -> None:
    values = {200: [0.5, 0.52, 0.6], 50: [0.4], 1000: [0.7, 0.7]}
    stored = [
        result(f"b+mirror:corpus_size={n}", y, seed=seed, n=n)
        for n, ys in values.items()
        for seed, y in enumerate(ys)
    ]
    (curve,) = scores.curves_over(stored, "corpus_size")
    assert (str(curve.spec), curve.task, curve.metric) == ("b+mirror", "cats", "spearman")
    assert [(p["x"], p["n"], p["mean"]) for p in curve.points] == [
        (n, len(values[n]), pytest.approx(statistics.fmean(values[n]))) for n in (50, 200, 1000)
    ]
    assert [p["sd"] for p in curve.points[:2]] == [
        None,
        pytest.approx(statistics.stdev(values[200])),
    ]


def test_preset_settings_count_as_curve_values() -> None:
    stored = [
        result("b+mirror", 0.5, augment={"dropout": 0.1}),
        result("b+mirror:dropout=0.4", 0.6, augment={"dropout": 0.4}),
    ]
    (curve,) = scores.curves_over(stored, "dropout")
    assert [p["x"] for p in curve.points] == [0.1, 0.4]
    assert scores.setting(stored[1], "lr") == 2e-5
    assert scores.setting(stored[1], "corpus_size") == 1000
    assert scores.setting(stored[1], "no-such-key") is None
    untuned = result("b+base:dims=64", 0.1)
    assert scores.setting(untuned, "dims") == 64
    assert scores.setting(untuned, "dropout") is None
    assert scores.setting(untuned, "corpus_size") is None


def test_curves_separate_settings_tasks_and_protocols() -> None:
    stored = [
        result(
            f"b+mirror:dropout={x}{extra}", x, task=task, protocol=protocol, augment={"dropout": x}
        )
        for x, extra, task, protocol in product(
            (0.1, 0.2), ("", ",lr=0.1"), ("cats", "dogs"), ("paper", "released")
        )
    ]
    stored += [result("b+base", 0.9), result("c+mirror:dropout=0.1", 0.9, augment={"dropout": 0.1})]
    curves = scores.curves_over(stored, "dropout")
    assert len(curves) == 8
    assert {len(curve.points) for curve in curves} == {2}
    assert len({(curve.spec, curve.task, curve.protocol) for curve in curves}) == 8
    values = ((1, 0.1), (2, None), (3, 0.3))  # an undefined score gives no point
    stored = [result(f"b+mirror:span_mask={k}", y, augment={"span_mask": k}) for k, y in values]
    (curve,) = scores.curves_over(stored, "span_mask")
    assert [p["x"] for p in curve.points] == [1, 3]
    assert scores.curves_over(stored[:2], "span_mask") == []


def test_bucket_words_are_counted_once_ignoring_case(plugins: object) -> None:
    buckets = [("words-en-0-10k", ["the", "Cat", "dog"]), ("words-en-10-20k", ["zebra", "yak"])]
    rows = scores.count_words(["cat", "CAT", "dog", "yak", "xylophone"], buckets)
    assert [tuple(row.values()) for row in rows] == [
        ("words-en-0-10k", 2, 0.5),
        ("words-en-10-20k", 1, 0.25),
    ]
    assert [row["words"] for row in scores.count_words([], buckets)] == [0, 0]
    bucket_ranks = [scores.bucket_ranks(entry.name) for entry in plugins.corpora]
    assert [limits for limits in bucket_ranks if limits] == [(n, n + 10) for n in range(0, 100, 10)]
    assert scores.bucket_ranks("words-en") is None


def test_frequency_curves_average_scores_by_bucket() -> None:
    values = (("words-en-10-20k", 0.3, 0), ("words-en-10-20k", 0.5, 1), ("words-en-0-10k", 0.6, 0))
    stored = [
        result(f"b+mirror:corpus={name}", y, seed=seed, corpus=name) for name, y, seed in values
    ]
    stored += [result("b+mirror", 0.9), result("b+base", 0.1)]
    (curve,) = scores.curves_over(stored, "corpus", scores.rank_of_corpus, fewest_points=1)
    assert str(curve.spec) == "b+mirror"
    assert scores.middle_rank("words-en-10-20k") == 15
    assert curve.at(5)["mean"] == 0.6
    assert curve.at(15) == {
        "x": 15,
        "mean": pytest.approx(0.4),
        "sd": pytest.approx(0.02**0.5),
        "n": 2,
    }
    assert curve.at(25)["mean"] is None
