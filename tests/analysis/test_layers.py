"""Layers of a model against loops over words and sentences that hold everything in memory."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from helpers.naive_measures import cos, mean_of_pairs, naive_log

from mirrorbench.analysis import layers
from mirrorbench.analysis.layers import LayerSums, draw_samples, top_layer_means, words_in

SENTENCES = ("The cat sat.", "A well-known cat's toy", "Stop", "the THE cat")


def vectors_of(sentences: list[layers.Sentence], n_layers: int = 3, d: int = 5) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [
        rng.normal(0.4, 1, size=(n_layers, len(s.words), d)).astype(np.float32) for s in sentences
    ]


def summed(sentences: list[layers.Sentence], vectors: list[np.ndarray], seed: int = 0) -> LayerSums:
    sums = LayerSums(sentences, seed)
    for number in reversed(range(len(vectors))):  # in any order
        sums.add(number, vectors[number])
    return sums


def mean_of_forms(sentences: list[layers.Sentence], vectors: list[np.ndarray]) -> list[np.ndarray]:
    """Words of one layer (section 5.3): "the average of the word's contextual representations"."""
    forms = np.concatenate([sentence.forms for sentence in sentences])
    rows = np.concatenate(vectors).astype(np.float64)
    return [rows[forms == form].mean(axis=0) for form in np.unique(forms)]


def test_words_are_split_with_spans_and_forms() -> None:
    sentences = words_in(SENTENCES)
    words = []
    for sentence in sentences:
        words.append([item.text[slice(*item.spans[0])] for item in sentence.words])
    assert words == [
        ["The", "cat", "sat"],
        ["A", "well-known", "cat's", "toy"],
        ["the", "THE", "cat"],
    ]
    assert sentences[0].forms[0] == sentences[2].forms[0] == sentences[2].forms[1]
    assert sentences[0].forms[1] == sentences[2].forms[2]
    assert {form for sentence in sentences for form in sentence.forms.tolist()} == set(range(7))


def test_layer_measures_equal_explicit_loops() -> None:
    sentences = words_in(SENTENCES)
    vectors = vectors_of(sentences)
    samples = [np.array([0, 1]), np.array([1, 2])]
    rows = summed(sentences, vectors).measure(samples, [0.1, None, 0.3])
    assert [(row["layer"], row["score"]) for row in rows] == [(0, 0.1), (1, None), (2, 0.3)]
    for layer, row in enumerate(rows):
        layer_vectors = [array[layer].astype(np.float64) for array in vectors]
        # Footnote 8: "We compute the average word-in-context embeddings for all words in each sentence and then compute
        # the IS value. We repeat the process for five times".
        means = np.array([words.mean(axis=0) for words in layer_vectors])
        logs = [naive_log(means[sample]) for sample in samples]
        assert row["log_isotropy"] == pytest.approx(statistics.fmean(logs), abs=1e-5)
        assert row["log_isotropy_sd"] == pytest.approx(statistics.stdev(logs), abs=1e-5)
        random = mean_of_pairs(mean_of_forms(sentences, layer_vectors))
        assert row["random_similarity"] == pytest.approx(random)
        assert row["random_sd"] is None  # seven words: one sample
        similarities = []
        for words, mean in zip(layer_vectors, means, strict=True):
            similarities.append(statistics.fmean(cos(word, mean) for word in words))
        intra = statistics.fmean(similarities)
        assert row["intra_similarity"] == pytest.approx(intra)
        assert row["adjusted_intra_similarity"] == pytest.approx(intra - random)


def test_samples_are_distinct_and_reproducible() -> None:
    """Section 5.3: "five random samples of 200 random words"; footnote 8: 10k sentences, five times."""
    assert (layers.WORD_SAMPLES, layers.SAMPLE_SIZE) == (5, 200)
    assert [rows.tolist() for rows in draw_samples(4, 4, 5, seed=0)] == [[0, 1, 2, 3]]
    assert [rows.tolist() for rows in draw_samples(4, 0, 5, seed=0)] == [[0, 1, 2, 3]]
    samples = draw_samples(1000, 200, 5, seed=3)
    assert [len(set(rows.tolist())) for rows in samples] == [200] * 5
    assert len({tuple(rows.tolist()) for rows in samples}) == 5
    for rows, again in zip(samples, draw_samples(1000, 200, 5, seed=3), strict=True):
        assert np.array_equal(rows, again)
    assert not np.array_equal(samples[0], draw_samples(1000, 200, 5, seed=4)[0])


def test_random_similarity_is_averaged_over_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "SAMPLE_SIZE", 30)
    sentences = words_in(f"w{n} w{n + 1} w{n + 2}" for n in range(0, 100, 2))
    vectors = vectors_of(sentences, n_layers=1)
    (row,) = summed(sentences, vectors, seed=3).measure([np.arange(len(sentences))], [None])
    means = mean_of_forms(sentences, [array[0] for array in vectors])
    expected = []
    for forms in draw_samples(101, 30, 5, seed=3):
        expected.append(mean_of_pairs([means[form] for form in forms]))
    assert row["random_similarity"] == pytest.approx(statistics.fmean(expected))
    assert row["random_sd"] == pytest.approx(statistics.stdev(expected))


def test_unencoded_sentences_are_ignored() -> None:
    sentences = words_in((*SENTENCES, "too long a sentence"))
    vectors = vectors_of(sentences)[:3]
    sums = summed(sentences, vectors)
    sums_of_encoded = summed(sentences[:3], vectors)
    assert sums.n_words == sums_of_encoded.n_words == 10
    expected = sums_of_encoded.measure([np.arange(3)], [None] * 3)
    assert sums.measure([np.arange(4)], [None] * 3) == expected


def test_top_layer_means_average_last_four_layers() -> None:
    names = (
        "score",
        "log_isotropy",
        "random_similarity",
        "intra_similarity",
        "adjusted_intra_similarity",
    )
    rows = [dict.fromkeys(names, float(layer)) for layer in range(6)]
    assert top_layer_means(rows) == dict.fromkeys(names, (2 + 3 + 4 + 5) / 4)
    assert top_layer_means([*rows, dict.fromkeys(names)]) == dict.fromkeys(names)
