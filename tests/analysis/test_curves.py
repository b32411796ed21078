from __future__ import annotations

import statistics

import pytest
from analysed_results import result

from mirrorbench.analysis.scores import bounds, bucket, count_words, curves_over, middle, setting


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
    assert setting(stored[0], "no-such-key") is None


def test_curves_do_not_mix_other_settings_tasks_or_protocols() -> None:
    stored = []
    for x in (0.1, 0.2):
        for extra in ("", ",lr=0.1"):
            for task in ("cats", "dogs"):
                for protocol in ("paper", "released"):
                    spec = f"b+mirror:dropout={x}{extra}"
                    stored.append(result(spec, x, task=task, protocol=protocol, augment={"dropout": x}))
    stored += [result("b+base", 0.9), result("c+mirror:dropout=0.1", 0.9, augment={"dropout": 0.1})]
    found = curves_over(stored, "dropout")
    assert len(found) == 8
    assert {len(one.points) for one in found} == {2}
    assert len({(one.spec, one.task, one.protocol) for one in found}) == 8


def test_an_undefined_score_is_no_point() -> None:
    stored = [
        result(f"b+mirror:span_mask={k}", y, augment={"span_mask": k}) for k, y in ((1, 0.1), (2, None), (3, 0.3))
    ]
    (found,) = curves_over(stored, "span_mask")
    assert [p["x"] for p in found.points] == [1, 3]
    assert curves_over(stored[:2], "span_mask") == []


BUCKETS = [("words-en-0-10k", ["the", "Cat", "dog"]), ("words-en-10-20k", ["zebra", "yak"])]


def test_words_are_counted_once_and_without_case() -> None:
    found = count_words(["cat", "CAT", "dog", "yak", "xylophone"], BUCKETS)
    assert [tuple(row.values()) for row in found] == [
        ("words-en-0-10k", 2, 0.5),
        ("words-en-10-20k", 1, 0.25),
    ]
    assert [row["words"] for row in count_words([], BUCKETS)] == [0, 0]


def test_buckets_are_the_registered_ones(plugins: object) -> None:
    limits = [b for entry in plugins.corpora if (b := bounds(entry.name))]
    assert limits == [(n, n + 10) for n in range(0, 100, 10)]
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
    assert found.at(15) == {
        "x": 15,
        "mean": pytest.approx(0.4),
        "sd": pytest.approx(statistics.stdev([0.3, 0.5])),
        "n": 2,
    }
    assert found.at(25)["mean"] is None
