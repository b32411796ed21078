from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.data.catalogue import builtin_cards
from mirrorbench.data.importing import import_folder
from mirrorbench.data.pairs import Pair
from mirrorbench.data.parsers import PARSERS, parse
from mirrorbench.data.store import DataStore, ResolvedData
from mirrorbench.errors import DataFormatError, MirrorbenchError, UnknownNameError

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def run(parser: str, tmp_path: Path, files: dict[str, str | bytes], **options: Any) -> list[Pair]:
    paths = {}
    for name, content in files.items():
        paths[name] = tmp_path / name
        paths[name].write_bytes(content.encode() if isinstance(content, str) else content)
    return PARSERS[parser](paths, options)


def simple(pairs: list[Pair]) -> list[tuple[str, str, str, float, str]]:
    return [(pair.id, pair.left, pair.right, pair.gold, pair.subset) for pair in pairs]


class TestSts:
    def test_two_columns_and_unscored_lines(self, tmp_path: Path) -> None:
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

    def test_four_columns_of_2016(self, tmp_path: Path) -> None:
        files = {"STS2016.input.X.txt": "a\tb\tsource 1\tsource 2\n", "STS2016.gs.X.txt": "1\n"}
        assert simple(run("sts", tmp_path, files, columns=4)) == [("X/1", "a", "b", 1.0, "X")]

    @pytest.mark.parametrize(
        ("inputs", "golds", "message"),
        [
            ("a\tb\nc\n", "1\n2\n", r"STS\.input\.X\.txt, line 2: 1 columns instead of 2"),
            ("a\tb\tc\n", "1\n", "line 1: 3 columns instead of 2"),
            ("a\tb\nc\td\n", "1\n", r"2 lines, .*STS\.gs\.X\.txt has 1"),
            ("a\tb\n", "1\n2\n", r"1 lines, .* has 2"),
            ("a\tb\n", "high\n", r"STS\.gs\.X\.txt, line 1: 'high' is not a number"),
            ("a\tb\n", "nan\n", "not a number"),
            ("a\tb\n", "5.5\n", "outside the scale from 0 to 5"),
            ("a\tb\n", "1\t2\n", "not a number"),
            ("a\t \n", "1\n", "empty sentence"),
            (b"a\t\xff\n", "1\n", "line 1: byte 0xff is not valid UTF-8"),
            (b"a\tb\nc\t\0\n", "1\n2\n", "line 2: a NUL byte"),
        ],
    )
    def test_what_breaks_the_format(self, tmp_path: Path, inputs: Any, golds: str, message: str) -> None:
        with pytest.raises(DataFormatError, match=message):
            run("sts", tmp_path, {"STS.input.X.txt": inputs, "STS.gs.X.txt": golds})

    def test_files_must_go_together(self, tmp_path: Path) -> None:
        with pytest.raises(DataFormatError, match="without counterpart: X, Y"):
            run("sts", tmp_path, {"STS.input.X.txt": "a\tb\n", "STS.gs.Y.txt": "1\n"})
        with pytest.raises(DataFormatError, match="neither"):
            run("sts", tmp_path, {"readme.txt": ""})


class TestStsBenchmark:
    ROW = "main-captions\tMSRvid\t2012test\t0001\t3.200\t{}\t{}"

    def test_seven_or_nine_columns_and_quotes_as_text(self, tmp_path: Path) -> None:
        rows = [self.ROW.format('"A cat', "A dog"), self.ROW.format("x", 'y"') + "\tlicence\tmore"]
        got = run("stsb", tmp_path, {"sts-test.csv": "\n".join(rows) + "\n"})
        assert simple(got) == [
            ("sts-test/1", '"A cat', "A dog", 3.2, ""),
            ("sts-test/2", "x", 'y"', 3.2, ""),
        ]

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (ROW.format("a", "b") + "\tx", "line 1: 8 columns"),
            ("a\tb", "line 1: 2 columns"),
            ("", "line 1: 1 columns"),
            (ROW.format("", "b"), "empty sentence"),
            (ROW.format("a", "b").replace("3.200", "6"), "outside the scale"),
            (ROW.format("a", "b").replace("3.200", ""), "not a number"),
        ],
    )
    def test_what_breaks_the_format(self, tmp_path: Path, row: str, message: str) -> None:
        with pytest.raises(DataFormatError, match=message):
            run("stsb", tmp_path, {"sts-dev.csv": row + "\n"})


class TestSick:
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_the_three_file_release(self, tmp_path: Path, end: str) -> None:
        content = (SICK_HEADER + "6\ta b\tc d\t3.3\tNEUTRAL\n7\te\tf\t5\tENTAILMENT\n").replace("\n", end)
        assert simple(run("sick", tmp_path, {"SICK_train.txt": content})) == [
            ("6", "a b", "c d", 3.3, ""),
            ("7", "e", "f", 5.0, ""),
        ]

    def test_the_single_file_release(self, tmp_path: Path) -> None:
        header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
        rows = "1\ta\tb\tNEUTRAL\t4.5\tTRAIN\n2\tc\td\tNEUTRAL\t1\tTEST\n3\te\tf\tNEUTRAL\t2\tTRIAL\n"
        for split, identity in (("train", "1"), ("test", "2"), ("dev", "3")):
            (pair,) = run("sick", tmp_path, {"SICK.txt": header + rows}, semeval_set=split)
            assert pair.id == identity
        with pytest.raises(DataFormatError, match="semeval_set must be one of"):
            run("sick", tmp_path, {"SICK.txt": header + rows})
        with pytest.raises(DataFormatError, match="line 2: 'X' is no SemEval_set"):
            run("sick", tmp_path, {"SICK.txt": header + rows.replace("TRAIN", "X")}, semeval_set="test")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "the header lacks pair_ID"),
            ("1\ta\tb\t3\tNEUTRAL\n", "the header lacks"),
            (SICK_HEADER + "1\ta\tb\t3\n", "line 2: 4 columns instead of 5"),
            (SICK_HEADER + "1\ta\tb\t0.5\tNEUTRAL\n", "outside the scale from 1 to 5"),
            (SICK_HEADER + "1\t\tb\t3\tNEUTRAL\n", "line 2: an empty column"),
            (SICK_HEADER + "\n", "line 2: 1 columns"),
        ],
    )
    def test_what_breaks_the_format(self, tmp_path: Path, content: str, message: str) -> None:
        with pytest.raises(DataFormatError, match=message):
            run("sick", tmp_path, {"SICK_trial.txt": content})


class TestTable:
    COLUMNS = {"left": 0, "right": 1, "gold": 2}

    def test_quoted_csv(self, tmp_path: Path) -> None:
        content = 'Пёс.,x,2.5\r\n"Кот, ""да"".",y,0\r\n'
        got = run(
            "table",
            tmp_path,
            {"ru.csv": content},
            format="csv",
            columns=self.COLUMNS,
            scale=[0, 5],
        )
        assert simple(got) == [("ru/1", "Пёс.", "x", 2.5, ""), ("ru/2", 'Кот, "да".', "y", 0.0, "")]

    def test_names_ids_and_subsets(self, tmp_path: Path) -> None:
        content = 'id\ta\tb\tg\tpart\nx1\tnull\t"NA\t0.5\tnoun\n'
        columns = {"left": "a", "right": "b", "gold": "g", "id": "id", "subset": "part"}
        got = run("table", tmp_path, {"t.tsv": content}, format="tsv", header=True, columns=columns, scale=[0, 1])
        assert simple(got) == [("x1", "null", '"NA', 0.5, "noun")]

    def test_json_lines_compressed(self, tmp_path: Path) -> None:
        rows = [{"s": "a", "t": "b\n", "n": 1}, {"s": "c", "t": "d", "n": "2.5", "more": []}]
        content = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
        columns = {"left": "s", "right": "t", "gold": "n"}
        got = run("table", tmp_path, {"t.jsonl.gz": content}, format="jsonl", columns=columns, scale=[0, 5])
        assert simple(got) == [("t/1", "a", "b\n", 1.0, ""), ("t/2", "c", "d", 2.5, "")]

    @pytest.mark.parametrize(
        ("form", "content", "message"),
        [
            ("csv", '"a,b,1\nc,d,2\n', "line 1: unexpected end of data"),
            ("csv", "a,b,1\nc,d\n", "line 2: 2 columns instead of 3"),
            ("csv", "a,b,1\n\n", "line 2: an empty line"),
            ("csv", '"a"x,b,1\n', "line 1: ',' expected"),
            ("tsv", "a\tb\t1\t9\nc\td\t2\n", "line 2: 3 columns instead of 4"),
            ("tsv", "a\tb\n", "column 2 .gold. is missing"),
            ("tsv", "a\t\t1\n", "column 1 .right. is missing or empty"),
            ("tsv", "a\tb\t9\n", "outside the scale"),
            ("jsonl", "[1]\n", "not a JSON object"),
            ("jsonl", "{\n", "not JSON"),
            ("jsonl", '{"0": "a"}\n', "is missing"),
            ("jsonl", "[" * 100_000 + "\n", "not JSON"),
        ],
    )
    def test_what_breaks_the_format(self, tmp_path: Path, form: str, content: str, message: str) -> None:
        with pytest.raises(DataFormatError, match=message):
            run("table", tmp_path, {"t": content}, format=form, columns=self.COLUMNS, scale=[0, 5])

    @pytest.mark.parametrize("gold", ["NaN", "Infinity", "true", "null", "[]", '"nan"', "6"])
    def test_gold_in_json_that_is_no_score(self, tmp_path: Path, gold: str) -> None:
        columns = {"left": "l", "right": "r", "gold": "g"}
        content = f'{{"l": "a", "r": "b", "g": {gold}}}\n'
        with pytest.raises(DataFormatError, match="line 1"):
            run("table", tmp_path, {"t": content}, format="jsonl", columns=columns, scale=[0, 5])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"format": "xls"}, "none of tsv, csv, jsonl"),
            ({"columns": {"left": 0}}, "'columns' must say"),
            ({"scale": 5}, "'scale' must be"),
            ({"seperator": ";"}, "unknown options seperator"),
        ],
    )
    def test_wrong_options(self, tmp_path: Path, options: dict[str, Any], message: str) -> None:
        given = {"format": "tsv", "columns": self.COLUMNS, "scale": [0, 5]} | options
        with pytest.raises(DataFormatError, match=message):
            run("table", tmp_path, {"t": ""}, **given)


def test_an_unknown_parser_is_named() -> None:
    with pytest.raises(UnknownNameError, match="nope"):
        parse(ResolvedData({}, "nope", {}, {}, True))


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


@given(st.sampled_from(["stsb", "sick", "table-tsv", "table-csv", "table-jsonl"]), st.data())
def test_a_parser_reads_all_rows_or_raises(
    tmp_path_factory: pytest.TempPathFactory, parser: str, data: st.DataObject
) -> None:
    cell = st.sampled_from(["a", "b c", "1", "2.5", '"', '"x"', "", "\ufeff", "TEST", "{}", '{"0": "a"}', "é"])
    width = st.sampled_from([1, 3, 5, 5, 7, 7, 9])
    separator = {"table-csv": ",", "table-jsonl": " "}.get(parser, "\t")
    row = width.flatmap(lambda n: st.lists(cell, min_size=n, max_size=n)).map(separator.join)
    rows = data.draw(st.lists(row, max_size=6))
    if parser == "sick":
        rows.insert(0, SICK_HEADER.rstrip())
    options: dict[str, Any] = {}
    if parser.startswith("table"):
        parser, form = parser.split("-")
        options = {"format": form, "columns": {"left": 0, "right": 1, "gold": 2}, "scale": [0, 5]}
    body = "".join(line + "\n" for line in rows)
    try:
        pairs = run(parser, tmp_path_factory.mktemp("any"), {"a.csv": body}, **options)
    except MirrorbenchError:
        return
    assert len(pairs) == len(rows) - (parser == "sick")


@pytest.fixture(scope="module")
def real_store(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> DataStore:
    store = DataStore(tmp_path_factory.mktemp("store"), offline=True)
    import_folder(shared_data / "sts", store, builtin_cards())
    return store


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("sts12", 3108),
        ("sts13", 1500),
        ("sts14", 3750),
        ("sts15", 3000),
        ("sts16", 1186),
        ("stsb", 1379),
        ("stsb-dev", 1500),
        ("sickr", 4927),
        ("sts17-es", 250),
        ("sts17-ar", 250),
        ("sts17-en", 250),
        ("sts-ru-mt", 1379),
    ],
)
def test_the_original_files_have_the_published_sizes(real_store: DataStore, name: str, published: int) -> None:
    card = builtin_cards()[name]
    data = real_store.resolve(card)
    pairs = parse(data)
    assert len(pairs) == published
    assert len({pair.id for pair in pairs}) == published
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
    assert len(PARSERS[card.parser](real_store.files(card, split), {})) == published


def test_texts_are_those_of_a_reader_of_a_few_lines(real_store: DataStore) -> None:
    card = builtin_cards()["sts14"]
    files = real_store.files(card)
    wanted = []
    for name in ("OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"):
        with open(files[f"STS.input.{name}.txt"], encoding="utf-8", newline="\n") as stream:
            wanted += [tuple(line.rstrip("\n").split("\t")) for line in stream]
    assert [(pair.left, pair.right) for pair in parse(real_store.resolve(card))] == wanted
