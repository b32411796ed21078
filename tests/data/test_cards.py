"""Ids of data sets of the hub, and the cards that are made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.hub_data_set import CARD, TOY

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.data.card_files import load_card
from mirrorbench.data.cards import hub_card
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.store import DataStore


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hf:owner/toy", "does not name a split"),
        ("hf:owner/toy@main/train", "'main', which is not a commit"),
        (f"{TOY}", "does not name a split"),
        (f"{TOY}/../train", "does not name a split"),
        (f"{TOY}/{'x' * 101}/train", "more than 100 characters"),
    ],
)
def test_unpinned_hub_ids_are_rejected(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        read_corpus(f"{text}#text", DataStore(tmp_path), {})
    (tmp_path / "card.yaml").write_text(CARD.replace(f"{TOY}/pairs/test", text))
    with pytest.raises(DataFormatError, match=message):
        load_card(tmp_path / "card.yaml")


def test_hub_card_and_corpus_share_stored_files(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(CARD)
    card, other = load_card(path), hub_card(f"{TOY}/pairs/test#one")
    assert (card.folder, card.files) == (other.folder, other.files)
    assert card.folder == "hub"
    path.write_text(CARD.replace("pairs/test", "pairs/test#one"))
    with pytest.raises(DataFormatError, match="leave the column out here"):
        load_card(path)
