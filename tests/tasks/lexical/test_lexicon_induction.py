"""Bilingual lexicon induction against its definition by full matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from helpers.toy_plugin import STORE, scored
from scipy.linalg import orthogonal_procrustes, sqrtm
from scipy.stats import ortho_group

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, EncodingError
from mirrorbench.data.items import Lexicon
from mirrorbench.tasks import Scores
from mirrorbench.tasks.lexical import LexiconInduction
from mirrorbench.tasks.lexical.lexicon_induction import normalise, rotation, self_learn

Words = Mapping[tuple[str, str], np.ndarray]


def spaces(n: int = 60, d: int = 8, noise: float = 0.9) -> Words:
    """n words of ``xx`` (s0, s1, ...) and their noisy, rotated images in ``yy`` (t0, t1, ...)."""
    rng = np.random.default_rng(0)
    source = rng.normal(0.3, 1, size=(n, d))
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    target = source @ turn + rng.normal(scale=noise, size=(n, d))
    words = {("xx", f"s{i}"): source[i] for i in range(n)}
    words |= {("yy", f"t{i}"): target[i] for i in range(n)}
    return words


def score(lexicon: Lexicon, words: Words, **options: Any) -> Scores:
    task = LexiconInduction("xx-yy", lexicon, languages=("xx", "yy"), **options)
    return scored(task, lambda item: words[item.language, item.text])


LEXICON = Lexicon(
    train=tuple((f"s{i}", f"t{i}") for i in range(20)),
    test=(
        *((f"s{i}", f"t{i}") for i in range(20, 50)),
        ("s20", "t55"),
        ("s21", "t3"),
        ("s22", "t22"),
    ),
    source_words=tuple(f"s{i}" for i in range(60)),
    target_words=tuple(f"t{i}" for i in range(60)),
)


def lengths_one(rows: np.ndarray) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def mapped_orthogonal(
    x: np.ndarray, y: np.ndarray, left: list[int], right: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    return x @ orthogonal_procrustes(x[left], y[right])[0], y


def mapped_supervised(
    x: np.ndarray, y: np.ndarray, left: list[int], right: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The steps of vecmap's ``--supervised``, each as a matrix: whiten, rotate, re-weight by s ** .5, de-whiten."""
    white_x = np.linalg.inv(sqrtm(x[left].T @ x[left]).real)
    white_y = np.linalg.inv(sqrtm(y[right].T @ y[right]).real)
    u, s, vt = np.linalg.svd((x[left] @ white_x).T @ (y[right] @ white_y))
    weighted_x = x @ white_x @ u * s**0.5
    weighted_y = y @ white_y @ vt.T * s**0.5
    dewhiten_x = u.T @ np.linalg.inv(white_x) @ u
    dewhiten_y = vt @ np.linalg.inv(white_y) @ vt.T
    return weighted_x @ dewhiten_x, weighted_y @ dewhiten_y


def naive(
    lexicon: Lexicon,
    words: Words,
    missing: frozenset[str] = frozenset(),
    mapping: Any = mapped_orthogonal,
) -> dict[str, float]:
    """The metrics by the full matrices of cosines and of CSLS."""

    def normalised_words(language: str) -> tuple[list[str], np.ndarray]:
        names = [name for code, name in words if code == language and name not in missing]
        rows = np.array([words[language, name] for name in names], np.float32)
        units = lengths_one(rows.astype(np.float64))
        return names, lengths_one(units - units.mean(0))

    def rows_of(pairs: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
        covered = [pair for pair in dict.fromkeys(pairs) if not missing.intersection(pair)]
        return [(sources.index(source), targets.index(target)) for source, target in covered]

    def ranks_of_pairs(scores: np.ndarray) -> dict[tuple[int, int], int]:
        ranks = {}
        for row, gold in pairs:
            n_ahead = int((scores[row] > scores[row, gold]).sum())
            ranks[row, gold] = 1 + n_ahead
        return ranks

    def by_word(pair_ranks: dict[tuple[int, int], int]) -> list[int]:
        best = []
        for word in dict(pairs):
            best.append(min(rank for (row, _), rank in pair_ranks.items() if row == word))
        return best

    sources, x = normalised_words("xx")
    targets, y = normalised_words("yy")
    left, right = zip(*rows_of(lexicon.train), strict=True)
    mapped_x, mapped_y = mapping(x, y, list(left), list(right))
    cosines = lengths_one(mapped_x) @ lengths_one(mapped_y).T
    crowding_x = np.sort(cosines, axis=1)[:, -10:].mean(axis=1)
    crowding_y = np.sort(cosines.T, axis=1)[:, -10:].mean(axis=1)
    csls = 2 * cosines - crowding_x[:, None] - crowding_y
    pairs = rows_of(lexicon.test)
    by_csls = ranks_of_pairs(csls)
    by_cosine = ranks_of_pairs(cosines)
    metrics: dict[str, Any] = {}
    for prefix, ranks in (
        ("", by_word(by_csls)),
        ("nn_", by_word(by_cosine)),
        ("pair_", [*by_csls.values()]),
    ):
        metrics |= {f"{prefix}accuracy@{k}": np.mean(np.array(ranks) <= k) for k in (1, 5)}
        metrics[f"{prefix}mrr"] = np.mean(1 / np.array(ranks))
    del metrics["pair_accuracy@5"]
    return metrics


@pytest.mark.parametrize("mapping", [mapped_orthogonal, mapped_supervised])
def test_metrics_equal_full_matrix_definition(mapping: Any) -> None:
    words = spaces()
    got = score(LEXICON, words, mapping=mapping.__name__.removeprefix("mapped_"))
    wanted = naive(LEXICON, words, mapping=mapping)
    assert got.metrics == {name: pytest.approx(value) for name, value in wanted.items()}
    assert 0 < wanted["accuracy@1"] < wanted["accuracy@5"] < 1
    assert wanted["nn_accuracy@1"] != wanted["accuracy@1"]
    assert wanted["pair_accuracy@1"] < wanted["accuracy@1"]
    assert got.ids == [f"s{i}" for i in range(20, 50)]
    assert got.scores.mean() == got.metrics["accuracy@1"]
    assert got.coverage == 1


def test_words_without_vectors_are_excluded() -> None:
    missing = frozenset({"s0", "t1", "s30", "t31", "t55", "t40", "s59", "t58"})
    words = {key: np.zeros(8) if key[1] in missing else vector for key, vector in spaces().items()}
    got = score(LEXICON, words)
    assert got.metrics == {
        name: pytest.approx(value) for name, value in naive(LEXICON, words, missing).items()
    }
    assert got.coverage == pytest.approx(
        27 / 30
    )  # s30, s31 and s40 have no covered pair; s20 keeps one of two
    assert "among 55 words, orthogonal mapping from 18 of 20 pairs" in got.notes[0]
    assert got.notes[0].endswith("(all-zero vector): 3 source, 5 target words")
    with pytest.raises(EncodingError, match="no vector for any of 60 words"):
        score(LEXICON, {key: np.zeros(8) for key in words})
    with pytest.raises(EncodingError, match="no vectors for any pair"):
        score(Lexicon((("s0", "t0"),), LEXICON.test, ("s1",), ("t2",)), words)


def test_vocabulary_includes_dictionary_words() -> None:
    lexicon = Lexicon(
        LEXICON.train, LEXICON.test, source_words=("s1", "null"), target_words=("null",)
    )
    task = LexiconInduction("t", lexicon, languages=("xx", "yy"))
    inputs = task.inputs(task.load(STORE))
    assert len(inputs) == len(set(inputs)) == 1 + 50 + 1 + 51
    assert inputs[:2] == [TextInput("s1", language="xx"), TextInput("null", language="xx")]
    assert TextInput("null", language="yy") in inputs
    assert task.texts(lexicon)["s20"] == ("s20", "t20", "t55")
    with pytest.raises(DataFormatError, match="no training pairs, or no test pairs"):
        LexiconInduction("t", Lexicon((), LEXICON.test), languages=("xx", "yy")).load(STORE)


def test_encoder_vocabulary_replaces_the_task_vocabulary() -> None:
    task = LexiconInduction("t", LEXICON, languages=("xx", "yy"))
    items = task.with_vocabulary(
        LEXICON, {"xx": ["s0", "s1", "s90"], "yy": ["t0", "t91"]}.__getitem__
    )
    assert (items.train, items.test) == (LEXICON.train, LEXICON.test)
    sources, targets = zip(*LEXICON.train, *LEXICON.test, ("s90", "t91"), strict=True)
    asked = {(item.language, item.text) for item in task.inputs(items)}
    assert asked == {("xx", word) for word in sources} | {("yy", word) for word in targets}
    assert LEXICON.source_words == tuple(f"s{i}" for i in range(60))


def test_words_differing_in_case_are_merged() -> None:
    """A capitalised gold word would tie with its lower-cased double, and lose."""
    words = spaces()
    cased = Lexicon(
        tuple((s, t.upper()) for s, t in LEXICON.train),
        tuple((s.upper(), t.upper()) for s, t in LEXICON.test),
        (*LEXICON.source_words, "S1"),
        ("T9", *LEXICON.target_words),
    )
    task = LexiconInduction("t", cased, languages=("xx", "yy"))
    asked = task.inputs(task.load(STORE))
    assert len(asked) == len(set(asked)) == 120
    assert {(item.language, item.text) for item in asked} == words.keys()
    assert score(cased, words).metrics == {
        name: pytest.approx(value) for name, value in naive(LEXICON, words).items()
    }
    own = task.with_vocabulary(LEXICON, {"xx": ["s1", "S1", "S70"], "yy": ["T1", "t1"]}.__getitem__)
    assert [item.text for item in task.inputs(own)][:2] == ["s1", "s70"]
    assert all(item.text.islower() for item in task.inputs(own))


def test_self_learning_ends_with_requested_mapping() -> None:
    """Vecmap's ``--semi_supervised``: orthogonal mappings while the dictionary grows, the supervised one at the end."""
    words = spaces(noise=0.15)
    source, target = (
        normalise(np.array([v for (code, _), v in words.items() if code == c]))
        for c in ("xx", "yy")
    )
    left, right = self_learn(source, target, np.stack([np.arange(20)] * 2), 2)
    learnt = Lexicon(
        tuple((f"s{i}", f"t{j}") for i, j in zip(left, right, strict=True)), LEXICON.test
    )
    got = score(LEXICON, words, self_learning=2, mapping="supervised")
    assert len(left) > 60
    assert got.metrics["mrr"] == pytest.approx(
        naive(learnt, words, mapping=mapped_supervised)["mrr"]
    )


def test_dead_dimensions_are_not_whitened() -> None:
    """Words in 8 of 11 dimensions have the same scores as in 8."""
    words, turn = spaces(), ortho_group.rvs(11, random_state=3)
    wider = {key: np.concatenate([vector, np.zeros(3)]) @ turn for key, vector in words.items()}
    wanted = naive(LEXICON, words, mapping=mapped_supervised)
    assert score(LEXICON, wider, mapping="supervised").metrics == {
        k: pytest.approx(v) for k, v in wanted.items()
    }


def test_self_learning_reduces_mapping_error() -> None:
    rng = np.random.default_rng(4)
    source, turn = normalise(rng.normal(size=(400, 12))), ortho_group.rvs(12, random_state=5)
    target = normalise(source @ turn + rng.normal(scale=0.03, size=source.shape))
    rows = np.stack(
        [np.arange(10)] * 2
    )  # fewer than dimensions: the mapping is not determined by them
    learnt = [self_learn(source, target, rows, rounds) for rounds in (0, 1, 5)]
    errors = [np.linalg.norm(rotation(source, target, pairs) - turn) for pairs in learnt]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.2
