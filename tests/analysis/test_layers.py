from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mirrorbench.analysis.geometry import (
    SAMPLE_SIZE,
    SAMPLES,
    group_means,
    intra_sentence_similarity,
    log_isotropy,
    measure_layer,
    random_word_similarity,
    words_in,
)

SENTENCES = ("The cat sat.", "A well-known cat's toy", "Stop", "the THE cat")


def cos(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def vectors_of(n: int, d: int = 5, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.4, 1, size=(n, d)).astype(np.float32)


def test_words_have_spans_sentences_and_forms() -> None:
    words = words_in(SENTENCES)
    found = [item.text[slice(*item.spans[0])] for item in words.inputs]
    assert found == ["The", "cat", "sat", "A", "well-known", "cat's", "toy", "the", "THE", "cat"]
    assert words.sentence.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]  # "Stop" has no context
    forms = dict(zip(found, words.form.tolist(), strict=True))
    assert forms["The"] == forms["the"] == forms["THE"]
    assert len(set(words.form.tolist())) == 7
    assert set(words.form.tolist()) == set(range(7))


def test_intra_sentence_similarity_of_loops() -> None:
    words = words_in(SENTENCES)
    vectors = vectors_of(len(words.inputs)).astype(np.float64)
    expected = []
    for sentence in range(3):
        own = [v for v, s in zip(vectors, words.sentence, strict=True) if s == sentence]
        context = sum(own) / len(own)
        expected.append(sum(cos(v, context) for v in own) / len(own))
    assert intra_sentence_similarity(vectors, words.sentence) == pytest.approx(expected)


def test_means_of_groups_in_any_order() -> None:
    group = np.array([2, 0, 1, 0, 2, 2])
    vectors = vectors_of(6)
    expected = [np.mean([v for v, g in zip(vectors, group, strict=True) if g == k], axis=0) for k in range(3)]
    np.testing.assert_allclose(group_means(vectors, group), expected, rtol=1e-6)


def test_random_words_are_all_pairs_where_they_are_few() -> None:
    means = vectors_of(9)
    pairs = [cos(a, b) for a, b in combinations(means.astype(np.float64), 2)]
    assert random_word_similarity(means) == pytest.approx([sum(pairs) / len(pairs)])


def test_random_words_are_samples_where_they_are_many() -> None:
    means = vectors_of(1000)
    found = random_word_similarity(means, seed=3)
    assert found.shape == (SAMPLES,)
    assert len(set(found.tolist())) == SAMPLES
    np.testing.assert_array_equal(found, random_word_similarity(means, seed=3))
    rng = np.random.default_rng(3)
    first = means[rng.choice(1000, SAMPLE_SIZE, replace=False)].astype(np.float64)
    pairs = [cos(a, b) for a, b in combinations(first, 2)]
    assert found[0] == pytest.approx(sum(pairs) / len(pairs))


def test_a_layer_joins_its_measures() -> None:
    words = words_in(SENTENCES)
    vectors = vectors_of(len(words.inputs))
    layer = measure_layer(2, vectors, words, score=0.5)
    assert (layer["layer"], layer["score"], layer["random_sd"]) == (2, 0.5, None)
    assert layer["adjusted_intra_similarity"] == pytest.approx(layer["intra_similarity"] - layer["random_similarity"])
    sentences = [vectors[words.sentence == s].astype(np.float64).mean(0) for s in range(3)]
    assert layer["log_isotropy"] == pytest.approx(log_isotropy(np.array(sentences)))
    by_form = [vectors[words.form == f].astype(np.float64).mean(0) for f in range(7)]
    pairs = [cos(a, b) for a, b in combinations(by_form, 2)]
    assert layer["random_similarity"] == pytest.approx(np.mean(pairs))
