"""The data inside the package: whole, licensed, small, and kept apart from each other."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from mirrorbench.data.cardfile import builtin_cards, builtin_suites
from mirrorbench.data.cards import EMBEDDED_DATA, PackageSource
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


def letters_and_digits(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def quick_tasks() -> list[Task]:
    tasks = load_plugins(discover=False).tasks
    return [tasks[name] for name in builtin_suites()["quick"]]


def test_each_file_belongs_to_one_card_and_has_its_licence() -> None:
    assert len(SHIPPED) >= 5
    rows = [line for line in LICENCES.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`([^`]+)`", "\n".join(rows))) == SHIPPED
    found = []
    for name in QUICK:
        card = builtin_cards()[name]
        assert card.redistributable
        for file in card.files:
            (path,) = (source.path for source in file.sources if isinstance(source, PackageSource))
            found.append(path)
            data = (EMBEDDED_DATA / path).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (file.size, file.sha256)
            (licence,) = (re.search(r"\| (CC BY(-SA)? \d\.\d) \|$", row) for row in rows if f"`{path}`" in row)
            assert licence is not None, path
            assert card.licence.startswith(licence[1])
    assert sorted(found) == SHIPPED


def test_a_few_hundred_kilobytes() -> None:
    folders: dict[str, int] = {}
    for name in SHIPPED:
        folders[name.split("/")[0]] = folders.get(name.split("/")[0], 0) + (EMBEDDED_DATA / name).stat().st_size
    assert max(folders.values()) < 250_000
    assert sum(folders.values()) < 600_000


def corpus_texts(name: str, store: DataStore) -> tuple[str, ...]:
    corpus = read_corpus(name, store, builtin_cards())
    assert corpus.n_duplicates == 0
    return corpus.texts


def test_tasks_have_their_sizes_and_share_no_text_with_the_sentences_to_tune_on(store: DataStore) -> None:
    tuning = {letters_and_digits(text) for text in corpus_texts("quick-sentences", store)}
    sizes = {}
    for task in quick_tasks():
        items = task.load(store)
        sizes[task.name] = len(items)
        assert task.corpus in QUICK
        assert task.languages == ("en",)
        assert {letters_and_digits(item.text) for item in task.inputs(items)}.isdisjoint(tuning)
    assert sizes == {"quick-sts": 250, "quick-simlex": 1888, "quick-wic": 989}


def test_sentences_are_of_moderate_length_and_words_are_words(store: DataStore) -> None:
    texts = corpus_texts("quick-sentences", store)
    assert len(texts) == 800
    assert all(30 <= len(text) <= 70 for text in texts)
    words = corpus_texts("quick-words", store)
    assert len(words) == 1_000
    assert all(re.fullmatch("[a-z]{2,}", word) for word in words)


def test_multisimlex_equals_the_derived_table(shared_data: Path, store: DataStore) -> None:
    """An independent derivation from the same list of concepts."""
    derived = shared_data / "wordsim" / "multisimlex" / "derived"
    words = [line.split(",")[:4] for line in (derived / "translation.csv").read_text(encoding="utf-8").splitlines()[1:]]
    scores = [line.split(",")[:3] for line in (derived / "scores.csv").read_text(encoding="utf-8").splitlines()[1:]]
    expected = [(row[0], row[2], row[3], float(score[2])) for row, score in zip(words, scores, strict=True)]
    task = load_plugins(discover=False).tasks["quick-simlex"]
    assert [(pair.id, pair.left, pair.right, pair.gold) for pair in task.load(store)] == expected
