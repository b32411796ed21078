"""Faults of data files that a mutation of bytes would hardly hit upon."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import read_sample as read
from samples import SAMPLES

from mirrorbench.core.errors import DataFormatError, MirrorbenchError
from mirrorbench.data.textfiles import unmark


def altered(name: str, file: str, old: bytes, new: bytes) -> dict[str, bytes]:
    """A file of a sample in which the first ``old`` is ``new``."""
    content = SAMPLES[name].files[file]
    assert old in content
    return {file: content.replace(old, new, 1)}


@pytest.mark.parametrize("name", ["sick", "qnli", "usim", "table-csv", "wsd"])
def test_an_id_that_stands_twice(name: str, tmp_path: Path) -> None:
    file = "ALL.gold.key.txt" if name == "wsd" else next(iter(SAMPLES[name].files))
    content = SAMPLES[name].files[file]
    rows = content.splitlines(keepends=True)
    with pytest.raises(DataFormatError, match=r"line \d+: the id .* stands already in line \d+"):
        read(name, tmp_path, {file: content + b"".join(rows[-2:] if name == "usim" else rows[-1:])})


SEPARATED = {  # every format with columns: its separator
    **dict.fromkeys(("sts", "sts-2016", "stsb", "sick", "table-tsv", "qnli", "usim", "cosimlex", "am2ico"), b"\t"),
    **dict.fromkeys(("wic", "wic-tsv", "xling-eval", "multisimlex-concepticon", "askapatient", "cometa"), b"\t"),
    **dict.fromkeys(("table-csv", "multisimlex"), b","),
    "biosyn": b"||",
}


@pytest.mark.parametrize("change", ["one more", "one less"])
@pytest.mark.parametrize("name", SEPARATED)
def test_a_wrong_number_of_columns(name: str, change: str, tmp_path: Path) -> None:
    file, content = next(iter(SAMPLES[name].files.items()))
    *rows, last = content.splitlines()
    columns = last.split(SEPARATED[name])
    columns = [*columns, b"x"] if change == "one more" else columns[:-1]
    with pytest.raises(DataFormatError, match=rf"{Path(file).name}, line {len(rows) + 1}: .*(column|not )"):
        read(name, tmp_path, {file: b"\n".join([*rows, SEPARATED[name].join(columns), b""])})


@pytest.mark.parametrize(("name", "file", "old"), [
    ("sts", "STS.input.X.txt", b"null"), ("stsb", "sts-dev.csv", b"nan"), ("sick", "SICK_train.txt", b"e\tf"),
    ("table-tsv", "t.tsv", b"null"), ("table-jsonl", "t.jsonl", b"null"), ("qnli", "dev.tsv", b"null"),
    ("xling-eval", "yacle.train.freq.5k.it-fr.tsv", b"null"), ("multisimlex", "translation.csv", b"null"),
    ("askapatient", "AskAPatient.fold-0.test.txt", b"My ACHE"), ("cometa", "test.csv", b"null"),
    ("rescnn", "data.json", b"nan"), ("wic-tsv", "dev_definitions.txt", b"a digit"),
])  # fmt: skip
def test_an_empty_text(name: str, file: str, old: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=file):
        read(name, tmp_path, altered(name, file, old, b""))


@pytest.mark.parametrize(("name", "file", "old", "new"), [
    ("qnli", "dev.tsv", b"\tentailment", b"\tperhaps"), ("am2ico", "zh/dev.tsv", b"\tT\n", b"\tX\n"),
    ("xlwic", "zh/valid.txt", b"\t1\n", b"\t2\n"), ("xlwic", "zh/zh_test_gold.txt", b"1\n", b"T\n"),
    ("wic", "dev.gold.txt", b"T", b"yes"), ("wic-tsv", "dev_labels.txt", b"T", b"1"),
    ("sick", "SICK_train.txt", b"ENTAILMENT", b"5\tTRAINING"),
])  # fmt: skip
def test_an_unknown_label(name: str, file: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=rf"{Path(file).name}, line \d+"):
        read(name, tmp_path, altered(name, file, old, new))


@pytest.mark.parametrize(("name", "more"), [
    ("sts", {"other/STS2.input.X.txt": b"a\tb\n", "other/STS2.gs.X.txt": b"1\n"}),
    ("stsb", {"other/sts-dev.csv": b"g\tf\ty\t1\t3\ta\tb\n"}),
    ("wic", {"other/dev.data.txt": b"a\tN\t0-0\ta\ta\n"}),
    ("am2ico", {"de/dev.tsv": b"context1\tcontext2\tlabel\n<word>a</word>\t<word>b</word>\tF\n"}),
    ("xlwic", {"zh/zh_valid.txt": b"a\tV\t0\t1\t0\t1\ta\ta\t1\n"}),
    ("xling-eval", {"other/yacle.test.freq.2k.it-fr.tsv": b"a\tb\n"}),
    ("askapatient", {"other/AskAPatient.fold-0.test.txt": b"1\ta\tb\n"}),
    ("biosyn", {"y/processed_test/9.concept": b"9||1|2||X||Ataxia||D001260\n"}),
    ("biosyn", {"y/test_dictionary.txt": b"D1||a\n"}),
    ("multisimlex-concepticon", {"W.tsv": b"x\n"}),
    ("rescnn", {"more.txt": b"D1\ta\n"}),
])  # fmt: skip
def test_two_files_for_one_part(name: str, more: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=r"second|one file is needed|are needed|stands already"):
        read(name, tmp_path, more)


@pytest.mark.parametrize(("name", "file", "content"), [
    ("biosyn", "x/test_dictionary.txt", b"X1||a\n"),
    ("cometa", "names.txt", b"1||Pain\n"),
    ("rescnn", "data.json", b'{"train": [], "dev": [], "test": [["x", "D9"]]}'),
])  # fmt: skip
def test_a_dictionary_without_matching_ids(name: str, file: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="no id of a mention occurs in the dictionary") as caught:
        read(name, tmp_path, {file: content})
    assert "one terminology" in caught.value.hint


@pytest.mark.parametrize(("name", "file", "content"), [
    ("table-jsonl", "t.jsonl", b'{"r": "b", "l": "\\ud800", "g": 1}\n'),
    ("table-jsonl", "t.jsonl", b'{"r": "b", "l": "a", "l": "c", "g": 1}\n'),
    ("rescnn", "data.json", b'{"train": [], "dev": [], "test": [["\\udfff", "D1"]]}'),
    ("rescnn", "data.json", b'{"train": [], "dev": [], "test": [["a", "D1"]], "test": []}'),
    ("rescnn", "data.json", b'{"train": [], "dev": [], "test": ["ab"]}'),
])  # fmt: skip
def test_json_that_holds_what_no_text_can(name: str, file: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=file):
        read(name, tmp_path, {file: content})


def test_long_lines_take_no_long_time(tmp_path: Path) -> None:
    """Each of these took hours by a method whose time grows with the square of the length, or faster."""
    assert unmark("<w>" * 300_000, "<w>", "</w>") == ("<w>" * 300_000, ())
    header = b"ID\tSIMLEX_IDS\tENGLISH\tENGLISH_IN_SOURCE\tENGLISH_SCORE\n"
    places, scores = b" ".join(b"%d:1" % n for n in range(100)), b" ".join([b"1"] * 100)
    for forms, words in ((b"a (a a)", b"a " * 150), (b" (" * 500_000, b"a"), (b"a", b"a " * 500_000)):
        row = b"\t".join([b"1", places, forms, words, scores])
        with pytest.raises(MirrorbenchError, match="cannot be cut"):
            read("multisimlex-concepticon", tmp_path, {"V.tsv": header + row})


@pytest.mark.parametrize(("file", "content"), [
    ("index.noun", b"dog n x 0 1 0 00000000\n"), ("index.noun", b"dog\n"),
    ("index.noun", b"dog n 0 0 1 0 00000000\n"), ("index.noun", b"dog n 1 0 1 0 -0000001\n"),
    ("index.noun", b"dog n 1 0 1 0 99999999\n"), ("data.noun", b"00000000 03 n 01 cat 0 000 | animal\n"),
    ("data.noun", b"00000000 03 q 01 dog 0 000 | animal\n"), ("data.noun", b"00000000 03 n zz dog 0 000 | animal\n"),
    ("data.noun", b"00000000 03 n 01\n"), ("data.noun", b"00000000 03 n 01 dog 0 000 | \xff\n"),
    ("data.noun", b"00000000 03 n 01 dog 0 000 | no line end"),
    ("data.noun", b"00000000 03 s 01 dog 0 000 | a satellite of nothing\n"),
])  # fmt: skip
def test_a_damaged_wordnet(file: str, content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=r"(index|data)\.noun|has no gold key|WordNet does not know"):
        read("wsd", tmp_path, {file: content})


@pytest.mark.parametrize(("file", "old", "new"), [
    ("ALL.data.xml", b'<wf lemma="the" pos="DET">The</wf>',
     b'<wf><instance id="x" lemma="a" pos="NOUN">a</instance></wf>'),
    ("ALL.gold.key.txt", b"two.d0.s0.t0 soon", b"two.d0.s0.t0 soon%4:02:00::\nthree.d0.s0.t0 soon"),
    ("ALL.data.xml", b'encoding="UTF-8"', b'encoding="UTF-7"'),
    ("ALL.data.xml", b"<corpus>", b'<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&c;">]><corpus>&b;'),
])  # fmt: skip
def test_instances_and_keys_must_go_together(file: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataFormatError):
        read("wsd", tmp_path, altered("wsd", file, old, new))
