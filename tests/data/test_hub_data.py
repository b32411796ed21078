"""Which data set of the hub a result was computed on."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.hub_data_set import CARD, REVISION

from mirrorbench.data.card_files import builtin_cards, load_card
from mirrorbench.data.cards import DatasetSource
from mirrorbench.data.hub_data import hub_split


def test_split_of_the_hub_is_known_by_its_card(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(CARD)
    card = load_card(path)
    files = {file.path: "unverified:ab" for file in card.files}
    assert hub_split(files, card) == DatasetSource("owner/toy", REVISION, "pairs", "test")
    assert hub_split(files) is None  # the name of the file alone says nothing


def test_converted_copy_counts_and_originals_do_not() -> None:
    card = builtin_cards()["stsb"]
    assert card.converted is not None
    copy = {card.converted.identity: "unverified:ab"}
    expected = DatasetSource("mteb/stsbenchmark-sts", card.converted.revision, "", "test")
    assert hub_split(copy, card) == expected
    originals = {file.path: file.sha256 for file in card.files}
    assert hub_split(originals, card) is None
    assert hub_split({**copy, "other.csv": "ab"}, card) is None


def test_converted_copies_are_told_apart() -> None:
    """Each is another data set, configuration or split; paths of MTEB's files are SPLIT or SPLIT/CONFIGURATION."""
    copies = [card.converted for card in builtin_cards().values() if card.converted]
    parts = {(copy.repo, copy.config, copy.split) for copy in copies}
    assert len(parts) == len(copies) == 10
    for copy in copies:
        stem = copy.path.removesuffix(".jsonl.gz")
        assert stem == "/".join(part for part in (copy.split, copy.config) if part)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hf:mteb/sts17/en-en/test", DatasetSource("mteb/sts17", REVISION, "en-en", "test")),
        (
            "hf:klue/klue/nli/default/validation",
            DatasetSource("klue/klue", REVISION, "nli", "validation"),
        ),
        ("hf:mteb/sts/default/test", DatasetSource("mteb/sts", REVISION, "", "test")),
        ("hf:mteb/sts/test", DatasetSource("mteb/sts", REVISION, "", "test")),
        ("hf:mteb", None),
        ("my_pairs.csv", None),
    ],
)
def test_other_libraries_name_the_split_and_the_commit(
    name: str, expected: DatasetSource | None
) -> None:
    assert hub_split({name: REVISION}) == expected
    assert hub_split({name: "ab" * 32}) is None
