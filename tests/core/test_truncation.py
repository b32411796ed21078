"""Counts of texts that were cut, and the sentences on them."""

from __future__ import annotations

import pytest

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.truncation import Truncation, truncation_of


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (
            Truncation(1200, 3000, 256, 512),
            "1,200 of 3,000 texts are longer than 256 tokens and were cut (max_length=512 reads more)",
        ),
        (Truncation(1, 2, 512, 512), "1 of 2 texts is longer than 512 tokens and was cut"),
        (
            Truncation(1, 1, 64, 80),
            "the text is longer than 64 tokens and was cut (max_length=80 reads more)",
        ),
        (
            Truncation(2, 2, 512),
            "2 of 2 texts are longer than 512 tokens and were cut (max_length=1024 reads more)",
        ),
        (Truncation(0, 5, 64), ""),
        (Truncation(0, 5, 0, unknown=True), "it is unknown how many texts were cut"),
        (Truncation(2, 5, 0, unknown=True), "it is unknown how many texts were cut (2 at least)"),
    ],
)
def test_sentence_names_number_window_and_remedy(counts: Truncation, sentence: str) -> None:
    assert counts.sentence == sentence
    assert Truncation.of_json(counts.to_json()) == counts


def test_counts_of_groups_add_up() -> None:
    parts = [Truncation(1, 4, 64, 512), None, Truncation(2, 3, 40, 80)]
    assert Truncation.total(parts) == Truncation(3, 7, 40, 80)
    assert Truncation.total([None]) is None


def test_encoder_that_cuts_nothing_has_no_count() -> None:
    class Whole:
        fingerprint = "x"

        def encode(self, inputs: object) -> None: ...

    assert truncation_of(Whole(), [TextInput("a")]) is None  # type: ignore[arg-type]
