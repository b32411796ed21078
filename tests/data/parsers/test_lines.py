"""Strings of text files and JSON lines, read as corpora."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from helpers.hub_data_set import TOY
from helpers.toy_cards import make_card, make_file

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.cards import Card, hub_file, parse_hub_id
from mirrorbench.data.corpora import GeneratedCorpus, read_corpus
from mirrorbench.data.parsers.lines import parse_lines
from mirrorbench.data.store import DataStore


@pytest.fixture
def store(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path / "store", offline=True)


@pytest.fixture
def stored(tmp_path: Path) -> DataStore:
    """A store into which a split was fetched before."""
    source, _ = parse_hub_id(f"{TOY}/train")
    path = tmp_path / "hub" / hub_file(source).path
    path.parent.mkdir(parents=True)
    path.write_text('{"text": "a cat", "n": 1}\n{"text": "a dog", "n": 2}\n')
    return DataStore(tmp_path, offline=True)


def test_hub_corpus_column_must_exist_and_hold_text(stored: DataStore) -> None:
    assert read_corpus(f"{TOY}/train#text", stored, {}).texts == ("a cat", "a dog")
    with pytest.raises(DataFormatError, match=r"line 1: there is no column 'txt'") as caught:
        read_corpus(f"{TOY}/train#txt", stored, {})
    assert caught.value.hint == "It has: text, n"
    with pytest.raises(DataFormatError, match=r"column 'n' holds '1', which is not a text"):
        read_corpus(f"{TOY}/train#n", stored, {})
    with pytest.raises(UsageError, match="needs a column") as usage:
        read_corpus(f"{TOY}/train", stored, {})
    assert f"{TOY}/train#text" in usage.value.hint


def test_corpus_card_selects_columns_and_first_rows(
    store: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"the 9\nof 8\nand 7\n"

    def card(**options: Any) -> dict[str, Card | GeneratedCorpus]:
        return {
            "toy": make_card(
                make_file(content), kind="corpus", metric="", parser="lines", options=options
            )
        }

    (store.root / "toy").mkdir(parents=True)
    (store.root / "toy" / "a.txt").write_bytes(content)
    (tmp_path / "toy").write_text("mine")
    monkeypatch.chdir(tmp_path)
    cards = card(separator=" ", column=0, take=2)
    corpus = read_corpus("toy", store, cards)  # a card goes before a file of its name
    assert (corpus.texts, corpus.source) == (("the", "of"), "toy/a.txt")
    assert read_corpus("./toy", store, cards).texts == ("mine",)
    for options, message in (
        ({"column": 3, "separator": " "}, "line 1: there is no column 3"),
        ({"colum": 1}, "colum"),
        ({"column": [0, 3], "separator": " "}, "line 1: there is no column 3"),
        ({"column": []}, "'column' must be"),
        ({"column": [0, -1]}, "'column' must be"),
        ({"column": 0, "separator": ""}, "'separator' must be"),
    ):
        with pytest.raises(DataFormatError, match=message):
            read_corpus("toy", store, card(**options))


def test_nli_corpus_holds_both_sentences_and_literal_quotes(store: DataStore) -> None:
    """The format of SBERT's edition: both sentences of each pair, quotes are text."""
    table = (
        "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"
        'train\tMNLI\tf\t"A man.\tA "cat".\tneutral\ndev\tSNLI\tg\t"A man.\tNobody.\tcontradiction\n'
    )
    path = store.root / "nli-sentences" / "AllNLI.tsv.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(table.encode()))
    assert read_corpus("nli-sentences", store, builtin_cards()).texts == (
        '"A man.',
        'A "cat".',
        "Nobody.",
    )
    path.write_bytes(gzip.compress(table.replace("sentence1", "premise").encode()))
    with pytest.raises(DataFormatError, match="line 1: there is no column 'sentence1' in 'split"):
        parse_lines({"a": path}, builtin_cards()["nli-sentences"].options)
