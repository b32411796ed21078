from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from parsing import run

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.data.catalogue import builtin_cards
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.formats import parse
from mirrorbench.data.store import DataStore

HEADER = "index\tquestion\tsentence\tlabel\n"
ROWS = '0\tWho said "no?\tHe did.\tentailment\n7\tWhen?\t"Never", null\tnot_entailment\n'


def test_quotes_are_text(tmp_path: Path) -> None:
    pairs = run("qnli", tmp_path, {"dev.tsv": HEADER + ROWS})
    assert [(p.id, p.left, p.right, p.gold) for p in pairs] == [
        ("0", 'Who said "no?', "He did.", 1.0),
        ("7", "When?", '"Never", null', 0.0),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the header is not index, question, sentence, label"),
        ("index\tquestion\tsentence\n0\ta\tb\n", "the header is not"),
        (HEADER + "0\ta\tb\n", "line 2: 3 columns instead of 4"),
        (HEADER + "0\ta\tb\tmaybe\n", "line 2: the label 'maybe'"),
        (HEADER + "0\ta\t \tentailment\n", "line 2: column 'sentence' is missing, empty"),
    ],
)
def test_what_breaks_the_format(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("qnli", tmp_path, {"dev.tsv": content})


def test_the_original_file_has_the_published_size(originals: Callable[..., DataStore]) -> None:
    pairs = parse(originals("qnli").resolve(builtin_cards()["qnli"]))
    assert len(pairs) == len({pair.id for pair in pairs}) == 5463
    assert sum(pair.gold for pair in pairs) == 2702


def test_the_sentences_to_tune_on(tmp_path: Path) -> None:
    cards = builtin_cards()
    store = DataStore(tmp_path, offline=True)
    with pytest.raises(DataUnavailableError, match="QNLIv2"):
        read_corpus(str(cards["qnli"].options["corpus"]), store, cards)
    path = tmp_path / "qnli-sentences" / "QNLI" / "train.tsv"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER + ROWS)
    assert read_corpus("qnli-sentences", store, cards).texts == ("He did.", '"Never", null')
