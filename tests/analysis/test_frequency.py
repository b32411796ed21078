from __future__ import annotations

import pytest
from analysed_results import result

from mirrorbench.analysis.curves import bounds, count_words, curves_over_buckets

BUCKETS = [("words-en-0-10k", ["the", "Cat", "dog"]), ("words-en-10-20k", ["zebra", "yak"])]


def test_words_are_counted_once_and_without_case() -> None:
    found = count_words(["cat", "CAT", "dog", "yak", "xylophone"], BUCKETS)
    assert [(b.corpus, b.start, b.end, b.words, b.share) for b in found] == [
        ("words-en-0-10k", 0, 10, 2, 0.5),
        ("words-en-10-20k", 10, 20, 1, 0.25),
    ]
    assert [b.words for b in count_words([], BUCKETS)] == [0, 0]


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
    (found,) = curves_over_buckets(stored)
    assert str(found.spec) == "b+mirror"
    first, second = count_words(["cat"], BUCKETS)
    assert first.point(found).mean == 0.6
    assert second.point(found).mean == pytest.approx(0.4)
    assert second.point(found).n == 2
    assert count_words([], [("words-en-20-30k", [])])[0].point(found) is None
