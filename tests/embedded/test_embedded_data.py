"""The data inside the package: whole, licensed, small, and kept apart from each other."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

from mirrorbench.data.card_files import builtin_cards, builtin_suites
from mirrorbench.data.cards import EMBEDDED_DATA, PackageSource
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins

LICENCES = EMBEDDED_DATA / "LICENCES.md"
SHIPPED = sorted(
    path.relative_to(EMBEDDED_DATA).as_posix()
    for path in EMBEDDED_DATA.rglob("*")
    if path.is_file() and path != LICENCES
)
QUICK = sorted(name for name in builtin_cards() if name.startswith("quick-"))


def letters_and_digits(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def test_embedded_files_match_cards_and_licences() -> None:
    assert len(SHIPPED) >= 5
    rows = [
        line for line in LICENCES.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
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
            (licence,) = (
                re.search(r"\| (CC BY(-SA)? \d\.\d) \|$", row) for row in rows if f"`{path}`" in row
            )
            assert licence is not None, path
            assert card.licence.startswith(licence[1])
    assert sorted(found) == SHIPPED


def test_embedded_data_stay_small() -> None:
    sizes: Counter[str] = Counter()
    for name in SHIPPED:
        sizes[name.split("/")[0]] += (EMBEDDED_DATA / name).stat().st_size
    assert max(sizes.values()) < 250_000
    assert sizes.total() < 600_000


def test_quick_tasks_share_no_text_with_tuning_sentences(
    tmp_path: Path,
) -> None:
    store = DataStore(tmp_path, offline=True)  # whatever it finds is in the package
    sentences, words = (
        read_corpus(name, store, builtin_cards()) for name in ("quick-sentences", "quick-words")
    )
    assert (len(sentences.texts), len(words.texts)) == (800, 1000)
    assert sentences.n_duplicates == words.n_duplicates == 0
    assert all(re.fullmatch("[a-z]{2,}", word) for word in words.texts)
    tuning = {letters_and_digits(text) for text in sentences.texts}
    tasks, sizes = load_plugins(discover=False).tasks, {}
    for task in (tasks[name] for name in builtin_suites()["quick"]):
        items = task.load(store)
        sizes[task.name] = len(items)
        assert task.corpus in QUICK
        assert task.languages == ("en",)
        assert {letters_and_digits(item.text) for item in task.inputs(items)}.isdisjoint(tuning)
    assert sizes == {"quick-sts": 250, "quick-simlex": 1888, "quick-wic": 989}
