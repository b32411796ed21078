from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.toy_plugin import ToyPlugin

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.card_files import (
    builtin_cards,
    builtin_suites,
    cards_folder,
    expand,
    load_card,
    load_cards,
    read_suites,
)
from mirrorbench.data.cards import (
    ArchiveSource,
    GithubSource,
    HuggingFaceSource,
    PackageSource,
    UrlSource,
)
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins
from mirrorbench.tasks.kinds import as_task

SHA = "0" * 64
PLUGINS = load_plugins(discover=False)
KINDS = PLUGINS.task_kinds
ROOT = Path(__file__).resolve().parents[2]
COMMIT = "a" * 40
CARD: dict[str, Any] = {
    "name": "toy",
    "kind": "pair-similarity",
    "title": "a toy",
    "level": "sentence",
    "languages": ["en"],
    "metric": "spearman",
    "parser": "sts",
    "licence": "CC0",
    "redistributable": True,
    "citation": "@misc{toy}",
    "homepage": "https://example.org",
    "version": 1,
    "files": [{"path": "a/b.txt", "sha256": SHA, "size": 3}],
}
OWN = """\
name: pets
kind: pair-similarity
level: sentence
metric: spearman
parser: table
options: {format: tsv, columns: {left: 0, right: 1, gold: 2}, scale: [0, 5]}
files: [pets.tsv]
"""


def write(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text(
        yaml.safe_dump({key: v for key, v in (CARD | changes).items() if v is not None})
    )
    return path


def file(**changes: Any) -> list[dict[str, Any]]:
    merged = {"path": "a.txt", "sha256": SHA, "size": 3} | changes
    return [{key: value for key, value in merged.items() if value is not None}]


def test_every_source_kind_is_read_from_cards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [
        {"from": "github", "repo": "o/r", "commit": COMMIT, "path": "d d/{path}"},
        {"from": "huggingface", "repo": "o/r", "revision": COMMIT, "path": "{path}"},
        {"from": "url", "url": "https://example.org/{path}"},
        {
            "from": "archive",
            "url": "https://example.org/a.zip",
            "member": "x/{path}",
            "sha256": SHA,
            "size": 9,
        },
    ]
    own = [{"from": "package", "path": "toy/a.txt"}]
    (got,) = load_card(
        write(tmp_path, sources=sources, files=file(sources=own, split="dev", optional=True))
    ).files
    assert (got.split, got.optional) == ("dev", True)
    github, hub = (
        GithubSource("o/r", COMMIT, "d d/a.txt"),
        HuggingFaceSource("o/r", COMMIT, "a.txt"),
    )
    url, archive = (
        UrlSource("https://example.org/a.txt"),
        ArchiveSource("https://example.org/a.zip", "x/a.txt", SHA, 9),
    )
    assert got.sources == (PackageSource("toy/a.txt"), github, hub, url, archive)
    assert github.describe() == f"https://raw.githubusercontent.com/o/r/{COMMIT}/d%20d/a.txt"
    assert hub.describe() == f"https://huggingface.co/datasets/o/r/resolve/{COMMIT}/a.txt"
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror/")
    assert hub.describe() == f"http://mirror/datasets/o/r/resolve/{COMMIT}/a.txt"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licnce": "x"}, "unknown key 'licnce'; did you mean 'licence'"),
        ({"licence": None}, "the key 'licence' is missing"),
        ({"licence": " "}, "'licence' is empty"),
        ({"version": "1"}, "version: must be of type int, not str"),
        ({"name": "Toy set"}, "lower-case"),
        (
            {"level": "document"},
            "level: 'document' is not one of the possible values; known: phrase, sentence, wic, word",
        ),
        ({"metric": None}, "a task names its metric"),
        ({"kind": "corpus"}, "a corpus has none"),
        ({"name": "x" * 101}, "at most 100"),
        (
            {"variants": {f"axis{n}": [{f"p{n}": i} for i in range(20)] for n in range(9)}},
            "more than 1000 cards",
        ),
        ({"variants": {"a": [{1: "x"}]}}, "must be words"),
        ({"options": {"split": "test"}}, "no file has the split 'test'"),
        ({"files": []}, "files: Expected `array` of length >= 1"),
        ({"files": ["a.txt"]}, "does not exist"),
        ({"files": [*file(), *file()]}, "two files have the same path"),
        ({"files": file(sha="x")}, "unknown key 'sha'; did you mean 'sha256'"),
        ({"files": file(sha256="0" * 63)}, "is not 64 hex digits"),
        ({"files": file(size=-1)}, "files[1].size: Expected `int` >= 0"),
        ({"files": file(size=None)}, "number of bytes"),
        ({"files": file(unverified=True)}, "either a checksum and a size, or 'unverified: true'"),
        ({"variants": [{"a": 1}]}, "mapping of axes"),
        ({"variants": {"x": [{"a": 1}, {"b": 2}]}}, "same placeholders"),
        ({"variants": {"x": [{"a": 1}], "y": [{"a": 2}]}}, "two axes name the placeholder 'a'"),
        ({"files": file(path="../a.txt")}, "without '..'"),
        *(
            ({"files": file(path=path)}, "plain relative path")
            for path in ("/etc/passwd", "C:/a.txt", "a\\b.txt")
        ),
        ({"files": file(path=".verified.json")}, "must not be hidden"),
        *(({"files": file(path=path)}, "cannot be a path") for path in ("a\0b", "a" * 300)),
        (
            {"sources": [{"from": "ftp", "url": "x"}]},
            "sources[1].from: 'ftp' is not one of the possible values; known: github, huggingface, url, archive, "
            "package",
        ),
        ({"sources": [{"from": "url", "url": "file:///etc/passwd"}]}, "http or https"),
        (
            {"sources": [{"from": "github", "repo": "o/r", "commit": "main", "path": "a"}]},
            "40 hex digits",
        ),
        (
            {"sources": [{"from": "github", "repo": "o/../r", "commit": COMMIT, "path": "a"}]},
            "owner/name",
        ),
        (
            {"sources": [{"from": "huggingface", "repo": "o/r", "revision": "main", "path": "a"}]},
            "40 hex digits",
        ),
        (
            {"sources": [{"from": "archive", "url": "https://x/a.zip", "member": "../a"}]},
            "without '..'",
        ),
        (
            {"converted": {"repo": "o/r", "revision": COMMIT, "path": "a", "rows": 1}},
            "converted: the key 'format' is missing",
        ),
        ({"converted": {"column": {}}}, "unknown key 'column'; did you mean 'columns'"),
    ],
)
def test_invalid_card_error_names_file_and_line(tmp_path: Path, changes: Any, message: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(
        DataFormatError, match=rf"{re.escape(str(path))}, line [0-9]+: .*{re.escape(message)}"
    ):
        load_card(path)


def test_card_must_be_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_text("- a\n")
    with pytest.raises(DataFormatError, match="must be a mapping"):
        load_card(tmp_path / "card.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\n", "line 1: must be of type mapping, not str"),
        ("a: [x]\n", "line 1: must be of type mapping, not list"),
        ("a: {measures: x, tasks: []}\n", "line 1: tasks: Expected `array` of length >= 1"),
        ("a: {measures: x, tasks: [x, x]}\n", "suite 'a' names a task twice"),
        ("a: {measures: x, tasks: [1]}\n", "line 1: tasks: must be of type str, not int"),
    ],
)
def test_invalid_suites_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "suites.yaml").write_text(text)
    with pytest.raises(DataFormatError, match=rf"suites\.yaml.*{message}"):
        read_suites(tmp_path / "suites.yaml")


def test_builtin_card_names_are_unique() -> None:
    names = [card.name for path in cards_folder().glob("*/*.yaml") for card in load_cards(path)]
    assert sorted(names) == list(builtin_cards())


def test_suites_follow_the_order_of_the_papers() -> None:
    cards, suites = builtin_cards(), builtin_suites()
    assert suites["sts"] == ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
    assert suites["sts-multilingual"] == (
        "sts17-es",
        "sts17-ar",
        "sts-ru",
    )  # sts-ru-mt is a substitute
    assert suites["simlex"] == tuple(
        f"multisimlex-{code}" for code in ("en", "fr", "et", "ar", "zh", "ru", "es", "pl")
    )
    assert [cards[name].label for name in suites["bli"]] == [
        "EN-FR",
        "EN-IT",
        "EN-RU",
        "EN-TR",
        "IT-FR",
        "RU-FR",
    ]
    assert [cards[name].label for name in suites["bel"]] == [
        "NCBI",
        "BC5-d",
        "BC5-c",
        "AskAPatient",
        "COMETA",
    ]
    for name, tasks in suites.items():
        assert name not in cards or tasks == (name,)
        assert all(cards[task].kind != "corpus" for task in tasks)


def test_builtin_cards_state_licence_citation_and_sources() -> None:
    cards = builtin_cards()
    for name, card in cards.items():
        assert card.citation.startswith("@")
        assert card.homepage.startswith("http")
        assert card.parser in PLUGINS.parsers
        assert (
            card.licence_url.startswith("http")
            or "None stated" in card.licence
            or "Mixed" in card.licence
        )
        assert all(file.sources for file in card.files) or name in (
            "wikimatrix-es",
            "umls-names",
            "umls-names-100k",
        )
    assert cards is builtin_cards()
    assert pickle.loads(pickle.dumps(cards["stsb"])) == cards["stsb"]


@pytest.mark.slow
def test_data_layer_imports_no_heavy_modules() -> None:
    modules = "mirrorbench.data.corpora, mirrorbench.data.importing, mirrorbench.data.sources, mirrorbench.cli.data"
    known = {"torch", "transformers", "scipy", "sklearn", "pooch", "requests", "yaml", "typer"}
    code = f"import sys, {modules}; print(sorted({known} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (
        done.stdout == "['typer']\n"
    )  # typer, of the command line, shows that the list is of what was imported


def test_card_variants_expand_to_every_combination() -> None:
    raw: dict[str, Any] = {
        "name": "t-{pair}{suffix}",
        "files": [{"path": "{pair}.tsv", "size": "{size}"}],
        "sources": [{"path": "data/{pair}/{path}"}],
        "citation": "@misc{pair}",
        "variants": {
            "pair": [{"pair": "a-b", "size": 3}, {"pair": "c-d", "size": 4}],
            "dictionary": [{"suffix": ""}, {"suffix": "-1k"}],
        },
    }
    cards = list(expand(raw))
    assert [card["name"] for card in cards] == ["t-a-b", "t-a-b-1k", "t-c-d", "t-c-d-1k"]
    third = {"name": "t-c-d", "files": [{"path": "c-d.tsv", "size": 4}], "citation": "@misc{pair}"}
    assert cards[2] == third | {
        "sources": [{"path": "data/c-d/{path}"}]
    }  # {path} belongs to the sources
    plain = {"name": "a", "notes": "{name}"}
    assert list(expand(plain)) == [plain]  # a family of one


def test_plugin_registers_a_card_family_by_path(
    tmp_path: Path,
) -> None:
    path = tmp_path / "family.yaml"
    text = (cards_folder() / "clws" / "clws.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("name: clws-", "name: my-"), encoding="utf-8")
    assert len({card.name for card in load_cards(path)}) == len(load_cards(path)) == 66
    assert {card.folder for card in load_cards(path)} == {"multisimlex"}
    with pytest.raises(DataFormatError, match="holds 66 cards where one is expected"):
        load_card(path)
    plugins = load_plugins(discover=False)
    plugins.add(ToyPlugin(tasks=[path]), "mine")  # type: ignore[list-item]
    assert plugins.tasks["my-zh-he"].title == "ZH-HE"
    assert plugins.tasks.entry("my-en-fr").origin == "mine"


@pytest.fixture
def own_card(tmp_path: Path) -> Path:
    (tmp_path / "pets.tsv").write_text("a cat\tthe cat\t5\na cat\ta dog\t2\n")
    path = tmp_path / "pets.yaml"
    path.write_text(OWN)
    return path


def test_user_files_are_read_without_copying(own_card: Path, tmp_path: Path) -> None:
    task = as_task(load_card(own_card), KINDS)
    store = DataStore(tmp_path / "store", offline=True)
    task.fetch(store)
    assert [pair.right for pair in task.load(store)] == ["the cat", "a dog"]
    assert not list((tmp_path / "store").rglob("*.tsv"))  # nothing is copied
    before = task.identity(store)
    own_card.write_text(
        OWN.replace("gold: 2", "gold: 1")
    )  # a mistake that is mended is no result of before
    assert as_task(load_card(own_card), KINDS).identity(DataStore(tmp_path / "store")) != before
    own_card.write_text(OWN)
    (tmp_path / "pets.tsv").write_text("a cat\tthe cat\t4\n")
    assert as_task(load_card(own_card), KINDS).identity(DataStore(tmp_path / "store")) != before


def test_omitted_user_card_keys_have_defaults(own_card: Path) -> None:
    read = load_card(own_card)
    assert (read.title, read.licence, read.redistributable, read.version) == (
        "pets",
        "not stated",
        False,
        1,
    )
    own_card.write_text(OWN + "licence: CC0\nlanguages: [de]\n")
    assert (load_card(own_card).licence, load_card(own_card).languages) == ("CC0", ("de",))
    own_card.write_text(OWN.replace("[pets.tsv]", "[{path: pets.tsv, unverified: true}]"))
    with pytest.raises(DataFormatError, match="is missing"):  # a card for everyone says everything
        load_card(own_card)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../pets.tsv", r"'\.\./pets\.tsv' must be a plain relative path"),
        ("/etc/passwd", "'/etc/passwd' must be a plain relative path"),
        ("none.tsv", r"files: .*none\.tsv does not exist"),
        (".hidden", r"'\.hidden' must not be hidden"),
    ],
)
def test_user_files_must_lie_beside_the_card(own_card: Path, name: str, message: str) -> None:
    own_card.write_text(OWN.replace("pets.tsv", name))
    with pytest.raises(DataFormatError, match=message):
        load_card(own_card)


def test_files_without_checksum_are_fetched_by_https() -> None:
    """What the first fetch brings is held to, so nobody on the way may have changed it."""
    files = [file for card in builtin_cards().values() for file in card.files]
    unverified = [file for file in files if not file.sha256]
    assert (len(unverified), len(files)) == (89, 718)
    assert f"{len(unverified)} of the {len(files)} files" in (
        ROOT / "docs" / "faults.md"
    ).read_text(encoding="utf-8")
    for file in unverified:
        assert all(source.describe().startswith("https://") for source in file.sources), file.path
