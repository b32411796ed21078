"""A card of one's own data: its files are names, and lie beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cardfile import load_card
from mirrorbench.data.store import DataStore
from mirrorbench.tasks.kinds import as_task

CARD = """\
name: pets
kind: pair-similarity
level: sentence
metric: spearman
parser: table
options: {format: tsv, columns: {left: 0, right: 1, gold: 2}, scale: [0, 5]}
files: [pets.tsv]
"""


@pytest.fixture
def card(tmp_path: Path) -> Path:
    (tmp_path / "pets.tsv").write_text("a cat\tthe cat\t5\na cat\ta dog\t2\n")
    path = tmp_path / "pets.yaml"
    path.write_text(CARD)
    return path


def test_its_files_are_read_where_they_lie(card: Path, tmp_path: Path) -> None:
    task = as_task(load_card(card))
    store = DataStore(tmp_path / "store", offline=True)
    task.fetch(store)
    assert [pair.right for pair in task.load(store)] == ["the cat", "a dog"]
    assert not list((tmp_path / "store").rglob("*.tsv"))  # nothing is copied


def test_other_content_is_another_identity(card: Path, tmp_path: Path) -> None:
    before = as_task(load_card(card)).identity(DataStore(tmp_path / "store"))
    (tmp_path / "pets.tsv").write_text("a cat\tthe cat\t4\n")
    assert as_task(load_card(card)).identity(DataStore(tmp_path / "store")) != before


def test_what_is_not_said_is_said_so(card: Path) -> None:
    read = load_card(card)
    assert (read.title, read.licence, read.redistributable, read.version) == ("pets", "not stated", False, 1)
    card.write_text(CARD + "licence: CC0\nlanguages: [de]\n")
    assert (load_card(card).licence, load_card(card).languages) == ("CC0", ("de",))


@pytest.mark.parametrize("name", ["../pets.tsv", "/etc/passwd", "none.tsv", ".hidden"])
def test_only_what_lies_beside_it(card: Path, name: str) -> None:
    card.write_text(CARD.replace("pets.tsv", name))
    with pytest.raises(DataFormatError):
        load_card(card)


def test_a_card_for_everyone_says_everything(card: Path) -> None:
    card.write_text(CARD.replace("[pets.tsv]", "[{path: pets.tsv, unverified: true}]"))
    with pytest.raises(DataFormatError, match="is missing"):
        load_card(card)
