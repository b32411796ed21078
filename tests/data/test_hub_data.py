"""Which data set of the hub a result was computed on."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.hub_data_set import CARD, REVISION

from mirrorbench.data.card_files import builtin_cards, load_card
from mirrorbench.data.hub_data import HubData, hub_data


def test_split_of_the_hub_is_known_by_its_card(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(CARD)
    card = load_card(path)
    files = {file.path: "unverified:ab" for file in card.files}
    assert hub_data(files, card) == HubData("owner/toy", REVISION, "pairs", "test")
    assert hub_data(files) is None  # the name of the file alone says nothing


def test_converted_copy_counts_and_originals_do_not() -> None:
    card = builtin_cards()["stsb"]
    assert card.converted is not None
    copy = {card.converted.identity: "unverified:ab"}
    expected = HubData("mteb/stsbenchmark-sts", card.converted.revision, split="test")
    assert hub_data(copy, card) == expected
    originals = {file.path: file.sha256 for file in card.files}
    assert hub_data(originals, card) is None
    assert hub_data({**copy, "other.csv": "ab"}, card) is None


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
        ("hf:mteb/sts17/en-en/test", HubData("mteb/sts17", REVISION, "en-en", "test")),
        (
            "hf:klue/klue/nli/default/validation",
            HubData("klue/klue", REVISION, "nli", "validation"),
        ),
        ("hf:mteb/sts/default/test", HubData("mteb/sts", REVISION, "", "test")),
        ("hf:mteb/sts/test", HubData("mteb/sts", REVISION, "", "test")),
        ("hf:mteb", None),
        ("my_pairs.csv", None),
    ],
)
def test_other_libraries_name_the_split_and_the_commit(name: str, expected: HubData | None) -> None:
    assert hub_data({name: REVISION}) == expected
    assert hub_data({name: "ab" * 32}) is None
