"""Files that a task can do without: fetched where they can be had, taken over by an import, missed by nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toy_cards import make_card, make_file

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.data.cardfile import load_card
from mirrorbench.data.cards import Card, DataFile, UrlSource
from mirrorbench.data.importing import import_folder
from mirrorbench.data.store import DataStore


@pytest.fixture
def card(server: Any) -> Card:
    server.pages["/data"] = b"data"
    data = make_file(b"data", UrlSource(f"{server.url}/data"))
    gold = DataFile("gold.txt", "", None, sources=(UrlSource(f"{server.url}/gold"),), unverified=True, optional=True)
    return make_card(data, gold)


def test_it_is_fetched_where_it_can_be(card: Card, server: Any, tmp_path: Path) -> None:
    server.pages["/gold"] = b"gold"
    store = DataStore(tmp_path)
    assert set(store.resolve(card).files) == {"a.txt", "gold.txt"}
    assert set(store.checksums(card)) == {"a.txt", "gold.txt"}


def test_its_absence_is_no_error_and_is_asked_for_once(card: Card, server: Any, tmp_path: Path) -> None:
    store = DataStore(tmp_path)
    for _ in range(2):
        resolved = store.resolve(card)
        assert set(resolved.files) == set(resolved.checksums) == {"a.txt"}
    assert store.status(card) == {"a.txt": "present", "gold.txt": "missing"}
    asked = server.asked.count("/gold")
    store.resolve(card)
    assert server.asked.count("/gold") == asked > 0
    offline = DataStore(tmp_path, offline=True)
    assert set(offline.resolve(card).files) == {"a.txt"}


def test_the_others_are_needed_as_ever(card: Card, tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match=r"missing: a\.txt\."):
        DataStore(tmp_path, offline=True).resolve(card)


def test_an_import_brings_it_in_and_changes_the_identity(card: Card, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"data")
    store = DataStore(tmp_path / "store", offline=True)
    assert import_folder(folder, store, {"toy": card}).cards["toy"].state == "complete"
    before = store.checksums(card)
    (folder / "gold.txt").write_bytes(b"gold")
    assert import_folder(folder, store, {"toy": card}).cards["toy"].imported == ("gold.txt",)
    assert store.checksums(card).keys() - before.keys() == {"gold.txt"}


def test_a_card_says_so_with_true_or_false(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    text = (
        "{name: a, kind: corpus, title: a, level: word, languages: [en], parser: lines, licence: a, citation: a,"
        " redistributable: true, homepage: a, version: 1, files: [{path: a, unverified: true, optional: VALUE}]}"
    )
    path.write_text(text.replace("VALUE", "true"))
    assert load_card(path).files[0].optional
    path.write_text(text.replace("VALUE", "maybe"))
    with pytest.raises(DataFormatError, match="optional: must be of type bool"):
        load_card(path)
