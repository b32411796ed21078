from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.format_samples import SAMPLES, archive
from helpers.toy_cards import make_card, make_file

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Registry
from mirrorbench.data import importing
from mirrorbench.data.card_files import builtin_cards, builtin_suites
from mirrorbench.data.cards import Card, DataFile
from mirrorbench.data.importing import import_folder
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins

CONTENT = b"one\ttwo\n"
Cards = dict[str, Card]


@pytest.fixture
def cards() -> Cards:
    unverified = DataFile("Toy/secret.txt", "", None, unverified=True)
    return {
        "toy": make_card(make_file(CONTENT), make_file(b"b", path="sub/b.txt")),
        "twin": make_card(make_file(CONTENT, path="same.txt"), name="twin"),
        "open": make_card(unverified, name="open", kind="corpus", metric="", parser="lines"),
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


def test_files_are_recognised_by_checksum_in_any_folder(
    folder: Path, store: DataStore, cards: Cards
) -> None:
    report = import_folder(folder, store, cards)
    assert (store.root / "toy" / "a.txt").read_bytes() == CONTENT
    assert (store.root / "twin" / "same.txt").read_bytes() == CONTENT
    assert (report.n_files, report.n_imported) == (2, 2)
    states = {name: card.state for name, card in report.cards.items()}
    assert states == {"toy": "incomplete", "twin": "complete", "open": "absent"}
    assert report.cards["toy"].missing == ("sub/b.txt",)
    assert import_folder(folder, store, cards).n_imported == 0


@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_import_searches_zip_and_tar_archives(
    folder: Path, store: DataStore, cards: Cards, kind: str
) -> None:
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


def test_damaged_archive_does_not_stop_the_import(
    folder: Path, store: DataStore, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.zip").write_bytes(b"PK\x03\x04 nonsense")
    report = import_folder(folder, store, cards)
    (problem,) = report.problems
    assert ("a.zip" in problem, report.n_imported) == (True, 2)
    monkeypatch.setattr(
        importing, "ARCHIVE_LIMIT", 10
    )  # larger ones that no card knows are left alone
    with zipfile.ZipFile(folder / "a.zip", "w") as packed:
        packed.writestr("y.txt", b"b")
    report = import_folder(folder, store, cards)
    assert "larger than" in report.problems[0]
    assert report.cards["toy"].state == "incomplete"


def test_altered_stored_file_is_reported_not_overwritten(
    folder: Path, store: DataStore, cards: Cards
) -> None:
    mine = store.root / "toy" / "a.txt"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    report = import_folder(folder, store, cards)
    assert mine.read_bytes() == b"mine"
    assert report.cards["toy"].altered == ("a.txt",)
    assert report.cards["toy"].state == "incomplete"


def test_file_without_checksum_must_match_its_path(
    folder: Path, store: DataStore, cards: Cards
) -> None:
    (folder / "secret.txt").write_bytes(b"elsewhere")
    assert import_folder(folder, store, cards).cards["open"].state == "absent"
    (folder / "Toy").mkdir()
    (folder / "Toy" / "secret.txt").write_bytes(
        CONTENT
    )  # a known file under the name of an unknown one
    assert import_folder(folder, store, cards).cards["open"].state == "absent"
    (folder / "Toy" / "secret.txt").write_bytes(b"here")
    outcome = import_folder(folder, store, cards).cards["open"]
    assert (outcome.state, outcome.unverified) == ("unverified", ("Toy/secret.txt",))
    assert (store.root / "open" / "Toy" / "secret.txt").read_bytes() == b"here"
    assert store.checksums(cards["open"])["Toy/secret.txt"].startswith("unverified:")


def am2ico(n: int, label: str = "T") -> str:
    """A file of AM2iCo with ``n`` items."""
    return (
        "context1\tcontext2\tlabel\n" + f"die <word>Bank</word>\ta <word>bank</word>\t{label}\n" * n
    )


def in_folder(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.fixture
def german() -> Cards:
    return {"am2ico-de": builtin_cards()["am2ico-de"]}


@pytest.mark.parametrize("place", ["AM2iCo-DE", "AM2iCo/data/de", "x/am2ico-de/de"])
def test_matching_folder_identifies_files_without_checksum(
    tmp_path: Path, store: DataStore, german: Cards, place: str
) -> None:
    folder = in_folder(
        tmp_path / "mine", {f"{place}/dev.tsv": am2ico(500), f"{place}/test.tsv": am2ico(1000)}
    )
    report = import_folder(folder, store, german)
    outcome = report.cards["am2ico-de"]
    assert (outcome.state, outcome.imported) == ("unverified", ("de/dev.tsv", "de/test.tsv"))
    assert outcome.unverified == outcome.imported
    assert report.problems == ()
    assert import_folder(folder, store, german).n_imported == 0


def test_plugin_parser_recognises_files_of_its_cards(tmp_path: Path, german: Cards) -> None:
    def parse_capitals(files: dict[str, Path], options: dict[str, Any]) -> list[str]:
        texts = [path.read_text() for path in files.values()]
        return [text for text in texts if text.isupper()]

    parsers: Registry[Any] = Registry("parser")
    parsers.add("capitals", parse_capitals, "me")
    card = msgspec.structs.replace(
        german["am2ico-de"], parser="capitals", files=(DataFile("a", unverified=True),)
    )
    store = DataStore(tmp_path / "store", offline=True, parsers=parsers)
    files = {"lower/am2ico-de/a": "text", "upper/am2ico-de/a": "TEXT"}
    import_folder(in_folder(tmp_path / "mine", files), store, {"am2ico-de": card})
    assert store.items(card) == ["TEXT"]


def test_file_with_wrong_item_count_is_refused(
    tmp_path: Path, store: DataStore, german: Cards
) -> None:
    short = import_folder(in_folder(tmp_path / "1", {"de/dev.tsv": am2ico(499)}), store, german)
    (problem,) = short.problems
    assert problem.endswith(
        "de/dev.tsv: not taken as de/dev.tsv of am2ico-de: 499 items, not the published 500"
    )
    both = {
        "a/de/dev.tsv": "foreign",
        "b/de/dev.tsv": am2ico(500),
        "c/de/dev.tsv": am2ico(500, "F"),
    }
    right = import_folder(in_folder(tmp_path / "2", both), store, german)
    assert right.cards["am2ico-de"].imported == ("de/dev.tsv",)
    assert len(right.problems) == 1  # of the foreign one
    stored = store.root / "am2ico" / "de" / "dev.tsv"
    assert stored.read_text() == am2ico(500)
    import_folder(in_folder(tmp_path / "3", {"de/dev.tsv": am2ico(500, "F")}), store, german)
    assert stored.read_text() == am2ico(500)


def test_labels_without_matching_items_are_refused(folder: Path, store: DataStore) -> None:
    items = b"board\tN\t0-0\tboard\tboard\n" * 2
    gold = DataFile("test.gold.txt", split="test", unverified=True, optional=True)
    card = make_card(
        make_file(items, path="test.data.txt"), gold, parser="wic", kind="word-in-context"
    )
    (folder / "test.gold.txt").write_bytes(b"T\n")
    alone = import_folder(folder, store, {"toy": card})
    assert "are missing data" in alone.problems[0]
    (folder / "test.data.txt").write_bytes(items)
    wrong = import_folder(folder, store, {"toy": card})
    assert wrong.cards["toy"].imported == ("test.data.txt",)
    assert "1 lines instead of 2" in wrong.problems[0]
    with zipfile.ZipFile(folder / "labels.zip", "w") as packed:
        packed.writestr("WiC/test.gold.txt", b"T\nF\n")
    right = import_folder(folder, store, {"toy": card})
    assert right.cards["toy"].imported == ("test.gold.txt",)


def test_data_and_labels_come_from_one_folder(tmp_path: Path, store: DataStore) -> None:
    items = b"board\tN\t0-0\tboard\tboard\n" * 2
    gold = DataFile("d/test.gold.txt", split="test", unverified=True)
    data = DataFile("d/test.data.txt", split="test", unverified=True)
    card = make_card(data, gold, parser="wic", kind="word-in-context")
    right = {"b/d/test.data.txt": items.decode(), "b/d/test.gold.txt": "T\nF\n"}
    report = import_folder(
        in_folder(tmp_path / "1", {"a/d/test.gold.txt": "T\n", **right}), store, {"toy": card}
    )
    assert report.cards["toy"].imported == ("d/test.data.txt", "d/test.gold.txt")


def test_word_list_must_have_enough_words(tmp_path: Path, store: DataStore) -> None:
    cards = {"words-fi": builtin_cards()["words-fi"]}
    page = import_folder(
        in_folder(tmp_path / "1", {"fi_50k.txt": "<html>\nNot found\n</html>\n"}), store, cards
    )
    assert (page.cards["words-fi"].state, "3 items, not 10000" in page.problems[0]) == (
        "absent",
        True,
    )
    words = "".join(f"sana{n} {n}\n" for n in range(10_000))
    assert (
        import_folder(in_folder(tmp_path / "2", {"fi_50k.txt": words}), store, cards).n_imported
        == 1
    )


def test_file_shared_by_two_cards_is_imported(tmp_path: Path) -> None:
    store = DataStore(tmp_path / "store", True, load_plugins(discover=False).parsers)
    cards = {name: builtin_cards()[name] for name in ("cometa-sg", "cometa-zg")}
    sample = SAMPLES["cometa"].files
    files = {"cometa/splits/zeroshot_general/test.csv": sample["test.csv"].decode()}
    files["cometa/COMETA_id_sf_dictionary.txt"] = sample["names.txt"].decode()
    report = import_folder(in_folder(tmp_path / "mine", files), store, cards)
    assert (report.n_imported, report.problems) == (2, ())
    assert report.cards["cometa-zg"].state == "unverified"
    assert report.cards["cometa-sg"].missing == ("cometa/splits/stratified_general/test.csv",)


def test_import_searches_debian_packages(tmp_path: Path, store: DataStore) -> None:
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg-deb, which builds the package")
    control = "Package: w\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: d\n"
    tree = in_folder(
        tmp_path / "tree", {"usr/share/words/list.txt": "word\n", "DEBIAN/control": control}
    )
    (tmp_path / "mine").mkdir()
    build = ["dpkg-deb", "-Zxz", "--build", str(tree), str(tmp_path / "mine" / "words_1_all.deb")]
    subprocess.run(build, check=True, capture_output=True)
    report = import_folder(tmp_path / "mine", store, {"toy": make_card(make_file(b"word\n"))})
    assert report.cards["toy"].state == "complete"


def test_import_skips_the_store_inside_the_folder(
    folder: Path, store: DataStore, cards: Cards, tmp_path: Path
) -> None:
    assert (
        import_folder(folder, DataStore(folder / "deep", offline=True), cards).n_files == 1
    )  # the store inside
    with pytest.raises(UsageError, match="no such folder"):
        import_folder(tmp_path / "none", store, cards)


@pytest.mark.full
def test_original_data_are_recognised_by_import(
    originals: Callable[..., DataStore], shared_data: Path
) -> None:
    store = originals(*sorted(path.name for path in shared_data.iterdir() if path.is_dir()))
    incomplete = set()
    unverified = set()
    for name, card in builtin_cards().items():
        if set(store.status(card).values()) != {"present"}:
            incomplete.add(name)
        if any(file.unverified for file in card.files):
            unverified.add(name)
    # The WordNet of wsd lies where its Debian package puts it.
    assert incomplete <= {"wikimatrix-es", "wsd", *unverified}
    assert not incomplete & set(builtin_suites()["sts"])
