from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from parsing import run

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.catalogue import builtin_cards, builtin_suites
from mirrorbench.data.formats import parse
from mirrorbench.data.items import Lexicon
from mirrorbench.data.store import DataStore

FILES = {
    "yacle.test.freq.2k.it-fr.tsv": "dedicazione\tdévouement\ndesideri\tdésirs\ndesideri\tsouhaits\n",
    "yacle.train.freq.5k.it-fr.tsv": "null\tNA\nnan\tnul\n",
    "yacle.train.freq.1k.it-fr.tsv": "null\tNA\n",
}


def read(tmp_path: Path, files: dict[str, str], train: str = "5k") -> Lexicon:
    (lexicon,) = run("xling-eval", tmp_path, files, train=train)
    return lexicon


def test_pairs_in_file_order_of_the_size_asked_for(tmp_path: Path) -> None:
    test = (("dedicazione", "dévouement"), ("desideri", "désirs"), ("desideri", "souhaits"))
    assert read(tmp_path, FILES) == Lexicon((("null", "NA"), ("nan", "nul")), test)
    assert read(tmp_path, FILES, "1k") == Lexicon((("null", "NA"),), test)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"yacle.test.freq.2k.it-fr.tsv": "a b\n"}, "line 1: 1 columns instead of 2"),
        ({"yacle.test.freq.2k.it-fr.tsv": "a\t\n"}, "line 1"),
        ({"yacle.train.freq.3k.ru-fr.tsv": "a\tb\n"}, "files of ru-fr .* lack test"),
        ({"words.tsv": "a\tb\n"}, "does not follow yacle"),
    ],
)
def test_what_breaks_the_format(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        read(tmp_path, FILES | changes)


def test_a_size_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="lack train\.freq\.3k"):
        read(tmp_path, FILES, "3k")


def test_the_original_files_have_the_published_sizes(originals: Callable[..., DataStore]) -> None:
    store = originals("bli")
    cards = {name: card for name, card in builtin_cards().items() if name.startswith("bli-")}
    assert len(cards) == 28 * 3
    for name, card in cards.items():
        (lexicon,) = parse(store.resolve(card))
        assert len(lexicon.train) == {"1k": 1000, "3k": 3000}.get(name.split("-")[-1], 5000)
        assert len(lexicon.test) == 2000
    italian = parse(store.resolve(cards["bli-it-fr"]))[0].test
    assert len({source for source, _ in italian}) == 1936
    assert len(list(store.root.glob("bli-*"))) == 28  # the three sizes of a pair share their files


def test_the_suite_is_that_of_the_paper() -> None:
    labels = [builtin_cards()[name].label for name in builtin_suites()["bli"]]
    assert labels == ["EN-FR", "EN-IT", "EN-RU", "EN-TR", "IT-FR", "RU-FR"]
