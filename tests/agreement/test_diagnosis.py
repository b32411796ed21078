"""Causes of differences between two encoders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirrorbench.agreement.diagnosis import Cause, Side, diagnose
from mirrorbench.agreement.measures import Agreement
from mirrorbench.agreement.readings import ModelReader, Reading, token_edits


def own_vectors(reader: ModelReader, texts: list[str]) -> np.ndarray:
    return reader.vectors(texts, [reader.own])[0]


def cause_between(texts: list[str], first: Side, second: Side) -> Cause | None:
    agreement = Agreement.of(first.vectors, second.vectors)
    return diagnose(texts, first, second, agreement, 0.9999)


def cause_of(reader: ModelReader, texts: list[str], vectors: np.ndarray) -> tuple[str, str]:
    """Return kind and sentence of the cause of other vectors, with the model as the first encoder."""
    first = Side("A", own_vectors(reader, texts), reader)
    cause = cause_between(texts, first, Side("B", vectors))
    assert cause is not None
    return cause.kind, cause.sentence


def test_same_vectors_have_no_cause(reader: ModelReader, texts: list[str]) -> None:
    vectors = own_vectors(reader, texts)
    assert cause_between(texts, Side("A", vectors, reader), Side("B", vectors)) is None


@pytest.mark.parametrize(
    ("change", "kind", "sentence"),
    [
        (lambda v: v[:, :8], "dimensions", "B has the first 8 of the 32 dimensions of A"),
        (lambda v: 3 * v, "length", "B is A times 3"),
        (
            lambda v: v / np.linalg.norm(v, axis=1, keepdims=True),
            "length",
            "B is A scaled to length 1",
        ),
        (lambda v: np.roll(v, 1, axis=0), "rows", "B has the vectors of A 1 row later"),
        (lambda v: v[::-1], "rows", "B has the vectors of A in another order of rows"),
        (lambda v: v - v.mean(axis=0), "numbers", "B is A with each dimension shifted or scaled"),
        (lambda v: np.sign(v), "numbers", "B is A with its signs alone"),
        (
            lambda v: np.round(v / np.abs(v).max(axis=0) * 127),
            "numbers",
            "B is A with its numbers rounded to integers from -127 to 127, each dimension on its own scale",
        ),
    ],
)
def test_changed_numbers_are_named(
    reader: ModelReader, texts: list[str], change: object, kind: str, sentence: str
) -> None:
    vectors = change(own_vectors(reader, texts))  # type: ignore[operator]
    assert cause_of(reader, texts, vectors.astype(np.float32)) == (kind, sentence)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("mean", "without [SEP]"),
        ("mean", "with [CLS] twice"),
        ("last", ""),
        ("last", "without [SEP]"),
        ("cls", "with [CLS] twice"),
    ],
)
def test_readings_are_named(reader: ModelReader, texts: list[str], mode: str, words: str) -> None:
    edits = {edit.words: edit for edit in token_edits(reader.transformer)}
    pooling = replace(reader.own.pooling, mode=mode)
    (vectors,) = reader.vectors(texts, [Reading(pooling, edits.get(words))])
    kind, sentence = cause_of(reader, texts, vectors)
    assert kind == "reading"
    mode_words = {"mean": "", "last": "at its last token", "cls": "at its first token"}[mode]
    assert sentence == "B is A read " + ", ".join(filter(None, [mode_words, words]))


def test_model_may_be_the_second_encoder(reader: ModelReader, texts: list[str]) -> None:
    pooling = replace(reader.own.pooling, mode="max")
    (vectors,) = reader.vectors(texts, [Reading(pooling)])
    second = Side("B", own_vectors(reader, texts), reader)
    cause = cause_between(texts, Side("A", vectors), second)
    assert cause is not None
    assert cause.sentence == "A is B read by the maximum of its tokens"


@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_window_is_named_with_and_without_another_pooling(
    reader: ModelReader, texts: list[str], mode: str
) -> None:
    long = [*texts, *[f"{text} {texts[0]} boats crossed the lake at night" for text in texts[:8]]]
    pooling = replace(reader.own.pooling, mode=mode, max_length=24)
    (vectors,) = reader.vectors(long, [Reading(pooling)])
    _, sentence = cause_of(reader, long, vectors)
    words = {"mean": "", "cls": "at its first token, "}[mode]
    assert sentence == f"B is A read {words}in a window of 24 tokens (its own: 60)"


def test_other_vectors_are_of_unknown_cause(reader: ModelReader, texts: list[str]) -> None:
    vectors = own_vectors(reader, texts)
    has_cat = ["cat" in text for text in texts]
    other = np.random.default_rng(0).normal(size=vectors.shape)
    vectors = np.where(np.array(has_cat)[:, None], other, vectors).astype(np.float32)
    kind, sentence = cause_of(reader, texts, vectors)
    assert kind == "unknown"
    assert sentence == "what the difference comes from is unknown"


def test_vectors_that_depend_on_company_are_reported(texts: list[str]) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(texts), 6)).astype(np.float32)
    together = vectors + np.random.default_rng(1).normal(size=vectors.shape).astype(np.float32)
    second = Side("B", together, encode_alone=lambda text: vectors[texts.index(text)])
    cause = cause_between(texts, Side("A", vectors), second)
    assert cause is not None
    assert cause.details[-1] == (
        "the vectors of B depend on the texts beside one in a batch; alone, they are those of A"
    )
