from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from toys import CATS, DOGS, ToyEncoder

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import Pair
from mirrorbench.data.store import DataStore
from mirrorbench.models.wordvectors import StaticEncoder
from mirrorbench.tasks import PairSimilarity, Scores, Vectors


@pytest.fixture
def store(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path, offline=True)


def score(pairs: tuple[Pair, ...], store: DataStore, encoder: ToyEncoder | None = None, **options: str) -> Scores:
    task = PairSimilarity("toy", pairs, **options)  # type: ignore[arg-type]
    items = task.load(store)
    inputs = list(dict.fromkeys(task.inputs(items)))
    return task.score(items, Vectors(inputs, (encoder or ToyEncoder()).encode(inputs).astype(np.float32)))


def letter_cosine(left: str, right: str) -> float:
    letters = sorted(set(left + right) - {" "})
    x, y = [left.count(c) for c in letters], [right.count(c) for c in letters]
    return sum(a * b for a, b in zip(x, y, strict=True)) / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


def test_scores_are_cosines_and_their_correlations(store: DataStore) -> None:
    found = score(CATS, store)
    expected = [letter_cosine(pair.left, pair.right) for pair in CATS]
    gold = [pair.gold for pair in CATS]
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert found.gold.tolist() == gold
    assert found.ids == ["1", "2", "3", "4"]
    assert found.metrics == {
        "spearman": pytest.approx(stats.spearmanr(expected, gold).statistic),
        "pearson": pytest.approx(stats.pearsonr(expected, gold).statistic, abs=1e-6),
    }
    assert found.coverage == 1
    assert found.notes == ()


def test_subsets_add_their_two_means(store: DataStore) -> None:
    pairs = tuple(replace(p, subset="cats") for p in CATS)
    pairs += tuple(replace(p, id=f"d{p.id}", subset="dogs") for p in DOGS)
    metrics = score(pairs, store).metrics
    parts = [score(CATS, store).metrics["spearman"], score(DOGS, store).metrics["spearman"]]
    assert metrics["spearman_mean"] == pytest.approx(sum(parts) / 2)
    assert metrics["spearman_wmean"] == pytest.approx((4 * parts[0] + 3 * parts[1]) / 7)
    assert metrics["spearman"] not in (metrics["spearman_mean"], metrics["spearman_wmean"])


def test_constant_similarities_are_undefined_and_said_so(store: DataStore) -> None:
    class Constant(ToyEncoder):
        def encode(self, inputs):
            return np.ones((len(inputs), 3))

    found = score(CATS, store, Constant())
    assert found.metrics == {"spearman": None, "pearson": None}
    assert "undefined" in found.notes[0]


def test_each_text_is_asked_for(store: DataStore) -> None:
    task = PairSimilarity("toy", CATS)
    assert {item.text for item in task.inputs(task.load(store))} == {
        "a cat", "the cat", "a dog", "quick zebras jump", "the dog"
    }  # fmt: skip


def test_across_languages_each_text_is_read_in_its_own(store: DataStore, tmp_path: Path) -> None:
    """A gift is a present in English and poison in German: one file of vectors for each language keeps them apart."""
    for language, rows in {"en": "gift 3 1\npoison 0 1\npresent 1 0\n", "de": "gift 0 1\ngeschenk 1 0\n"}.items():
        (tmp_path / f"wiki.{language}.vec").write_text(rows)
    pairs = (Pair("1", "poison", "gift", 5.0), Pair("2", "gift", "geschenk", 4.0), Pair("3", "present", "gift", 0.0))
    task = PairSimilarity("toy", pairs, level="word", languages=("en", "de"))
    items = task.load(store)
    inputs = list(dict.fromkeys(task.inputs(items)))
    vectors = StaticEncoder(tmp_path / "wiki.{lang}.vec", language="en").encode(inputs)
    found = task.score(items, Vectors(inputs, vectors))
    np.testing.assert_allclose(found.scores, [1, 3 / math.sqrt(10), 0], atol=1e-6)
    assert found.metrics["spearman"] == 1


@pytest.mark.parametrize(
    ("pairs", "message"), [((), "holds no items"), ((CATS[0], replace(CATS[1], id="1")), "item ids repeat")]
)
def test_what_is_no_data_set(pairs: tuple[Pair, ...], message: str, store: DataStore) -> None:
    with pytest.raises(DataFormatError, match=f"task toy: .*{message}"):
        PairSimilarity("toy", pairs).load(store)


def test_the_identity_follows_the_pairs(store: DataStore) -> None:
    identities = {
        PairSimilarity("toy", pairs).identity(store)["pairs"]
        for pairs in (CATS, DOGS, CATS[::-1], (replace(CATS[0], gold=4.9), *CATS[1:]))
    }
    assert len(identities) == 4
    assert PairSimilarity("a", CATS).identity(store) == PairSimilarity("b", lambda data: CATS).identity(store)


def test_vectors_are_looked_up_by_input() -> None:
    task = PairSimilarity("toy", CATS)
    inputs = list(dict.fromkeys(task.inputs(CATS)))
    array = np.arange(len(inputs) * 2, dtype=np.float32).reshape(-1, 2)
    vectors = Vectors(inputs, array)
    assert vectors(inputs[::-1]).tolist() == array[::-1].tolist()
    assert vectors([inputs[1], inputs[1]]).tolist() == [array[1].tolist()] * 2
