from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import archive
from toy_cards import make_card, make_file

from mirrorbench.core.errors import UsageError
from mirrorbench.data import importing
from mirrorbench.data.cardfile import builtin_cards, builtin_suites
from mirrorbench.data.cards import Card, DataFile
from mirrorbench.data.importing import import_folder
from mirrorbench.data.store import DataStore

CONTENT = b"one\ttwo\n"
Cards = dict[str, Card]


@pytest.fixture
def cards() -> Cards:
    unverified = DataFile("Toy/secret.txt", "", None, unverified=True)
    return {
        "toy": make_card(make_file(CONTENT), make_file(b"b", path="sub/b.txt")),
        "twin": make_card(make_file(CONTENT, path="same.txt"), name="twin"),
        "open": make_card(unverified, name="open"),
    }


@pytest.fixture
def store(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path / "store", offline=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "deep" / "down").mkdir(parents=True)
    (folder / "deep" / "down" / "renamed.dat").write_bytes(CONTENT)
    (folder / "decoy.txt").write_bytes(CONTENT.upper())
    return folder


def test_files_are_recognised_by_content_wherever_they_lie(folder: Path, store: DataStore, cards: Cards) -> None:
    report = import_folder(folder, store, cards)
    assert (store.root / "toy" / "a.txt").read_bytes() == CONTENT
    assert (store.root / "twin" / "same.txt").read_bytes() == CONTENT
    assert (report.n_files, report.n_recognised, report.n_imported) == (2, 1, 2)
    assert report.cards["toy"].state == "incomplete"
    assert report.cards["toy"].missing == ("sub/b.txt",)
    assert report.cards["twin"].state == "complete"
    assert report.cards["open"].state == "absent"
    assert import_folder(folder, store, cards).n_imported == 0


@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_archives_are_looked_into(folder: Path, store: DataStore, cards: Cards, kind: str) -> None:
    members = {"x/y.txt": b"b", "x/z.txt": b"c"}
    if kind == "zip":
        with zipfile.ZipFile(folder / "any.zip", "w") as packed:
            for name, content in members.items():
                packed.writestr(name, content)
    else:
        (folder / "any.tgz").write_bytes(archive(members))
    report = import_folder(folder, store, cards)
    assert report.cards["toy"].state == "complete"
    assert (store.root / "toy" / "sub" / "b.txt").read_bytes() == b"b"
    assert report.n_recognised == 2


def test_a_damaged_archive_is_a_remark_and_stops_nothing(folder: Path, store: DataStore, cards: Cards) -> None:
    (folder / "a.zip").write_bytes(b"PK\x03\x04 nonsense")
    report = import_folder(folder, store, cards)
    assert report.n_imported == 2
    assert len(report.problems) == 1
    assert "a.zip" in report.problems[0]


def test_a_large_archive_that_no_card_knows_is_left_alone(
    folder: Path, store: DataStore, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "ARCHIVE_LIMIT", 10)
    with zipfile.ZipFile(folder / "any.zip", "w") as packed:
        packed.writestr("y.txt", b"b")
    report = import_folder(folder, store, cards)
    assert "larger than" in report.problems[0]
    assert report.cards["toy"].state == "incomplete"


def test_an_altered_file_in_the_store_is_reported_and_left(folder: Path, store: DataStore, cards: Cards) -> None:
    mine = store.root / "toy" / "a.txt"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    report = import_folder(folder, store, cards)
    assert mine.read_bytes() == b"mine"
    assert report.cards["toy"].altered == ("a.txt",)
    assert report.cards["toy"].state == "incomplete"


def test_a_file_of_unknown_checksum_needs_its_whole_path(folder: Path, store: DataStore, cards: Cards) -> None:
    (folder / "secret.txt").write_bytes(b"elsewhere")
    assert import_folder(folder, store, cards).cards["open"].state == "absent"
    (folder / "Toy").mkdir()
    (folder / "Toy" / "secret.txt").write_bytes(b"here")
    assert import_folder(folder, store, cards).cards["open"].state == "complete"
    assert (store.root / "open" / "Toy" / "secret.txt").read_bytes() == b"here"
    assert store.checksums(cards["open"])["Toy/secret.txt"].startswith("unverified:")


def test_a_known_file_under_the_name_of_an_unknown_one_is_the_known_one(
    folder: Path, store: DataStore, cards: Cards
) -> None:
    (folder / "Toy").mkdir()
    (folder / "Toy" / "secret.txt").write_bytes(CONTENT)
    assert import_folder(folder, store, cards).cards["open"].state == "absent"


def test_the_store_inside_the_folder_is_not_searched(folder: Path, cards: Cards) -> None:
    store = DataStore(folder / "deep", offline=True)
    assert import_folder(folder, store, cards).n_files == 1


def test_no_such_folder(store: DataStore, cards: Cards, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        import_folder(tmp_path / "none", store, cards)


def test_the_original_data_are_recognised(originals: Callable[..., DataStore], shared_data: Path) -> None:
    store = originals(*sorted(path.name for path in shared_data.iterdir() if path.is_dir()))
    lacking = {name for name, card in builtin_cards().items() if set(store.status(card).values()) != {"present"}}
    open_checksums = {name for name, card in builtin_cards().items() if any(file.unverified for file in card.files)}
    assert lacking <= {"wikimatrix-es", "wsd", *open_checksums}  # WordNet lies where its Debian package puts it
    assert not lacking & set(builtin_suites()["sts"])


def test_the_official_archives_alone_suffice(shared_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "archives"
    folder.mkdir()
    names = ("official_tgz/sts2012-test.tgz", "official_tgz/sts2013-test.tgz", "stsb/Stsbenchmark.tar.gz")
    for name in (*names, "sts17/Sts2017.eval.v1.1.zip", "sts17/Sts2017.gs.zip"):
        path = shared_data / "sts" / name
        (folder / path.name).write_bytes(path.read_bytes())
    report = import_folder(folder, DataStore(tmp_path / "store", offline=True), builtin_cards())
    complete = {n for n, card in report.cards.items() if card.state == "complete" and not n.startswith("quick-")}
    assert complete == {"sts12", "sts13", "stsb", "stsb-dev", "sts17-ar", "sts17-en", "sts17-es"}
    assert report.n_recognised == 5
