"""Formats of sentence pairs on made-up files, and on the original ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing import SICK_HEADER, run, simple

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UnknownNameError
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.formats import parse, parser_of
from mirrorbench.data.store import DataStore, ResolvedData

STSB = "main-captions\tMSRvid\t2012test\t0001\t3.200\t{}\t{}"
QNLI_HEADER = "index\tquestion\tsentence\tlabel\n"
QNLI = '0\tWho said "no?\tHe did.\tentailment\n7\tWhen?\t"Never", null\tnot_entailment\n'
COLUMNS = {"left": 0, "right": 1, "gold": 2}


def test_sts_has_two_columns_and_unscored_lines(tmp_path: Path) -> None:
    files = {
        "STS.input.belief.txt": 'A "cat".\tA dog. \nnot\tscored\n  x\ty\u2028z\n',
        "STS.gs.belief.txt": "4.5\n\n0\n",
        "STS.input.surprise.OnWN.txt": "\ufeffa\tb\r\n",
        "STS.gs.surprise.OnWN.txt": "5.000\r\n",
    }
    assert simple(run("sts", tmp_path, files)) == [
        ("belief/1", 'A "cat".', "A dog. ", 4.5, "belief"),
        ("belief/3", "  x", "y\u2028z", 0.0, "belief"),
        ("surprise.OnWN/1", "a", "b", 5.0, "surprise.OnWN"),
    ]


def test_sts_has_four_columns_in_2016(tmp_path: Path) -> None:
    files = {"STS2016.input.X.txt": "a\tb\tsource 1\tsource 2\n", "STS2016.gs.X.txt": "1\n"}
    assert simple(run("sts", tmp_path, files, columns=4)) == [("X/1", "a", "b", 1.0, "X")]


def test_stsb_has_seven_or_nine_columns_and_quotes_are_text(tmp_path: Path) -> None:
    rows = [STSB.format('"A cat', "A dog"), STSB.format("x", 'y"') + "\tlicence\tmore"]
    got = run("stsb", tmp_path, {"sts-test.csv": "\n".join(rows) + "\n"})
    assert simple(got) == [("sts-test/1", '"A cat', "A dog", 3.2, ""), ("sts-test/2", "x", 'y"', 3.2, "")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sick_in_three_files(tmp_path: Path, end: str) -> None:
    content = (SICK_HEADER + "6\ta b\tc d\t3.3\tNEUTRAL\n7\te\tf\t5\tENTAILMENT\n").replace("\n", end)
    got = simple(run("sick", tmp_path, {"SICK_train.txt": content}))
    assert got == [("6", "a b", "c d", 3.3, ""), ("7", "e", "f", 5.0, "")]


def test_sick_in_a_single_file(tmp_path: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
    rows = "1\ta\tb\tNEUTRAL\t4.5\tTRAIN\n2\tc\td\tNEUTRAL\t1\tTEST\n3\te\tf\tNEUTRAL\t2\tTRIAL\n"
    for split, identity in (("train", "1"), ("test", "2"), ("dev", "3")):
        (pair,) = run("sick", tmp_path, {"SICK.txt": header + rows}, semeval_set=split)
        assert pair.id == identity
    with pytest.raises(DataFormatError, match="semeval_set must be one of"):
        run("sick", tmp_path, {"SICK.txt": header + rows})
    with pytest.raises(DataFormatError, match="line 2: the label 'X' is none of TRAIN"):
        run("sick", tmp_path, {"SICK.txt": header + rows.replace("TRAIN", "X")}, semeval_set="test")


def test_quotes_of_qnli_are_text(tmp_path: Path) -> None:
    assert simple(run("qnli", tmp_path, {"dev.tsv": QNLI_HEADER + QNLI})) == [
        ("0", 'Who said "no?', "He did.", 1.0, ""),
        ("7", "When?", '"Never", null', 0.0, ""),
    ]


def test_the_sentences_of_qnli_to_tune_on(tmp_path: Path) -> None:
    cards = builtin_cards()
    store = DataStore(tmp_path, offline=True)
    with pytest.raises(DataUnavailableError, match="QNLIv2"):
        read_corpus(str(cards["qnli"].options["corpus"]), store, cards)
    path = tmp_path / "qnli-sentences" / "QNLI" / "train.tsv"
    path.parent.mkdir(parents=True)
    path.write_text(QNLI_HEADER + QNLI)
    assert read_corpus("qnli-sentences", store, cards).texts == ("He did.", '"Never", null')


def table(folder: Path, form: str, content: str | bytes, name: str = "t", **options: Any) -> list[Any]:
    return run("table", folder, {name: content}, **({"format": form, "columns": COLUMNS, "scale": [0, 5]} | options))


def test_a_table_in_csv_has_quotes(tmp_path: Path) -> None:
    got = table(tmp_path, "csv", 'Пёс.,x,2.5\r\n"Кот, ""да"".",y,0\r\n', "ru.csv")
    assert simple(got) == [("ru/1", "Пёс.", "x", 2.5, ""), ("ru/2", 'Кот, "да".', "y", 0.0, "")]


def test_a_table_with_names_ids_and_subsets(tmp_path: Path) -> None:
    columns = {"left": "a", "right": "b", "gold": "g", "id": "id", "subset": "part"}
    got = table(tmp_path, "tsv", 'id\ta\tb\tg\tpart\nx1\tnull\t"NA\t0.5\tnoun\n', header=True, columns=columns)
    assert simple(got) == [("x1", "null", '"NA', 0.5, "noun")]


def test_a_table_of_json_lines_compressed(tmp_path: Path) -> None:
    rows = [{"s": "a", "t": "b\n", "n": 1}, {"s": "c", "t": "d", "n": "2.5", "more": []}]
    content = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    got = table(tmp_path, "jsonl", content, "t.jsonl.gz", columns={"left": "s", "right": "t", "gold": "n"})
    assert simple(got) == [("t/1", "a", "b\n", 1.0, ""), ("t/2", "c", "d", 2.5, "")]


TEXT = st.text(st.characters(exclude_characters="\n\r\0\t", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
GOLD = st.one_of(st.just(""), st.floats(0, 5).map(repr))


@given(st.lists(st.tuples(TEXT, TEXT, GOLD), min_size=1, max_size=20))
def test_sts_gives_every_scored_row_exactly(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    rows = [(left.lstrip("\ufeff") or "x", right, gold) for left, right, gold in rows]
    files: dict[str, str | bytes] = {
        "STS.input.X.txt": "".join(f"{left}\t{right}\n" for left, right, _ in rows),
        "STS.gs.X.txt": "".join(f"{gold}\n" for _, _, gold in rows),
    }
    got = run("sts", tmp_path_factory.mktemp("sts"), files)
    wanted = [(left, right, float(gold)) for left, right, gold in rows if gold]
    assert [(pair.left, pair.right, pair.gold) for pair in got] == wanted
    assert len({pair.id for pair in got}) == len(got)


def test_an_unknown_parser_is_named() -> None:
    with pytest.raises(UnknownNameError, match="nope"):
        parse(ResolvedData({}, "nope", {}, {}, True))


PUBLISHED = {
    "sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186, "stsb": 1379, "stsb-dev": 1500,
    "sickr": 4927, "sts17-es": 250, "sts17-ar": 250, "sts17-en": 250, "sts-ru-mt": 1379,
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_original_files_have_the_published_sizes(real_store: DataStore, name: str) -> None:
    card = builtin_cards()[name]
    data = real_store.resolve(card)
    pairs = parse(data)
    assert len(pairs) == len({pair.id for pair in pairs}) == PUBLISHED[name]
    assert data.verified
    assert data.checksums == real_store.checksums(card)
    assert set(data.checksums.values()) == {file.sha256 for file in card.files_of(card.split)}


@pytest.mark.parametrize(
    ("name", "split", "published"),
    [("stsb", "train", 5749), ("stsb", "dev", 1500), ("sickr", "train", 4500), ("sickr", "dev", 500)],
)
def test_the_other_splits_have_the_published_sizes(
    real_store: DataStore, name: str, split: str, published: int
) -> None:
    card = builtin_cards()[name]
    assert len(parser_of(card.parser)(real_store.files(card, split), {})) == published


def test_the_original_qnli_has_the_published_size(originals: Callable[..., DataStore]) -> None:
    pairs = parse(originals("qnli").resolve(builtin_cards()["qnli"]))
    assert len(pairs) == len({pair.id for pair in pairs}) == 5463
    assert sum(pair.gold for pair in pairs) == 2702


def test_texts_are_those_of_a_reader_of_a_few_lines(real_store: DataStore) -> None:
    card = builtin_cards()["sts14"]
    files = real_store.files(card)
    wanted = []
    for name in ("OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"):
        with open(files[f"STS.input.{name}.txt"], encoding="utf-8", newline="\n") as stream:
            wanted += [tuple(line.rstrip("\n").split("\t")) for line in stream]
    assert [(pair.left, pair.right) for pair in parse(real_store.resolve(card))] == wanted
