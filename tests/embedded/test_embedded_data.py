"""The data inside the package: whole, licensed, small, and kept apart from each other."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from mirrorbench.data.cardfile import builtin_cards, builtin_suites
from mirrorbench.data.cards import EMBEDDED_DATA, Card, PackageSource
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.tasks import Task

LICENCES = EMBEDDED_DATA / "LICENCES.md"
SHIPPED = sorted(
    path.relative_to(EMBEDDED_DATA).as_posix()
    for path in EMBEDDED_DATA.rglob("*")
    if path.is_file() and path != LICENCES
)
QUICK = sorted(name for name in builtin_cards() if name.startswith("quick-"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> DataStore:
    """An empty store that opens no socket: whatever it finds is in the package."""
    return DataStore(tmp_path_factory.mktemp("store"), offline=True)


def package_paths(card: Card) -> list[str]:
    return [source.path for file in card.files for source in file.sources if isinstance(source, PackageSource)]


def letters_and_digits(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def quick_tasks() -> list[Task]:
    tasks = load_plugins(discover=False).tasks
    return [tasks[name] for name in builtin_suites()["quick"]]


def test_something_ships() -> None:
    assert len(SHIPPED) >= 5


@pytest.mark.parametrize("name", SHIPPED)
def test_each_file_is_named_with_its_licence(name: str) -> None:
    rows = [line for line in LICENCES.read_text(encoding="utf-8").splitlines() if f"`{name}`" in line]
    assert len(rows) == 1
    assert re.search(r"\| CC BY(-SA)? \d\.\d \|$", rows[0])


def test_the_licences_name_no_file_that_is_not_there() -> None:
    table = "\n".join(line for line in LICENCES.read_text(encoding="utf-8").splitlines() if line.startswith("| `"))
    assert sorted(re.findall(r"`([^`]+)`", table)) == SHIPPED


def test_each_file_belongs_to_a_card() -> None:
    assert sorted(path for name in QUICK for path in package_paths(builtin_cards()[name])) == SHIPPED


@pytest.mark.parametrize("name", QUICK)
def test_files_are_those_of_the_card(name: str) -> None:
    card = builtin_cards()[name]
    assert card.redistributable
    for file, path in zip(card.files, package_paths(card), strict=True):
        data = (EMBEDDED_DATA / path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.size, file.sha256)


@pytest.mark.parametrize("name", QUICK)
def test_card_and_licence_file_agree(name: str) -> None:
    card = builtin_cards()[name]
    for path in package_paths(card):
        row = next(line for line in LICENCES.read_text(encoding="utf-8").splitlines() if f"`{path}`" in line)
        assert card.licence.startswith(row.rstrip(" |").rpartition("| ")[2])


def test_a_few_hundred_kilobytes() -> None:
    folders: dict[str, int] = {}
    for name in SHIPPED:
        folders[name.split("/")[0]] = folders.get(name.split("/")[0], 0) + (EMBEDDED_DATA / name).stat().st_size
    assert max(folders.values()) < 250_000
    assert sum(folders.values()) < 600_000


def test_sizes_of_the_sets(store: DataStore) -> None:
    sizes = {task.name: len(task.load(store)) for task in quick_tasks()}
    assert sizes == {"quick-sts": 250, "quick-simlex": 1888, "quick-wic": 989}


def test_tasks_name_embedded_corpora(store: DataStore) -> None:
    for task in quick_tasks():
        assert task.corpus in QUICK
        assert task.languages == ("en",)


def corpus_texts(name: str, store: DataStore) -> tuple[str, ...]:
    corpus = read_corpus(name, store, builtin_cards())
    assert corpus.n_duplicates == 0
    return corpus.texts


def test_no_tuning_sentence_is_in_an_evaluation_text(store: DataStore) -> None:
    tuning = {letters_and_digits(text) for text in corpus_texts("quick-sentences", store)}
    for task in quick_tasks():
        texts = {letters_and_digits(item.text) for item in task.inputs(task.load(store))}
        assert texts.isdisjoint(tuning)


def test_sentences_are_of_moderate_length(store: DataStore) -> None:
    texts = corpus_texts("quick-sentences", store)
    assert len(texts) == 800
    assert all(30 <= len(text) <= 70 for text in texts)


def test_words_are_words(store: DataStore) -> None:
    texts = corpus_texts("quick-words", store)
    assert len(texts) == 1_000
    assert all(re.fullmatch("[a-z]{2,}", text) for text in texts)


def test_multisimlex_equals_the_derived_table(shared_data: Path, store: DataStore) -> None:
    """An independent derivation from the same list of concepts."""
    derived = shared_data / "wordsim" / "multisimlex" / "derived"
    words = [line.split(",")[:4] for line in (derived / "translation.csv").read_text(encoding="utf-8").splitlines()[1:]]
    scores = [line.split(",")[:3] for line in (derived / "scores.csv").read_text(encoding="utf-8").splitlines()[1:]]
    expected = [(row[0], row[2], row[3], float(score[2])) for row, score in zip(words, scores, strict=True)]
    task = load_plugins(discover=False).tasks["quick-simlex"]
    assert [(pair.id, pair.left, pair.right, pair.gold) for pair in task.load(store)] == expected
