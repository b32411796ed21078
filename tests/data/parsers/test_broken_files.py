"""What breaks a format: a small change of a valid sample, and what the error says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.format_samples import CONCEPTS, SAMPLES
from helpers.parsed_files import PARSERS, on_disk, read_sample

from mirrorbench.core.errors import DataFormatError

JSON_LINE = '{"l": "null", "r": "c", "g": "2"}'
CHANGES = [
    ("lines", "one\n\nin two||words\n", "", r"a\.txt is empty"),
    ("sts", "4.5\n\n0\n", "4.5\n0\n", r"STS\.gs\.X\.txt has 2 lines instead of 3"),
    ("sts", "4.5", "high", r"STS\.gs\.X\.txt, line 1: 'high' is not a number"),
    ("sts", "4.5", "5.5", "outside the scale from 0 to 5"),
    ("sts", "\tA dog. ", "\t ", "column 'right' is missing, empty"),
    ("stsb", "\tmore", "", "line 2: 8 columns instead of 7 or 9"),
    ("stsb", "3.200", "", "column 'score' is missing, empty"),
    ("sick", "pair_ID", "ID", "the header is missing pair_ID"),
    ("sick", "3.3", "0.5", "outside the scale from 1 to 5"),
    ("qnli", "\tlabel", "", "the header is not index, question, sentence, label"),
    ("qnli", "\tHe.", "\t ", "line 2: column 'sentence' is missing, empty"),
    ("table-tsv", "\t2", "\t2\tx", "line 2: 4 columns instead of 3"),
    ("table-csv", "nan,2,j", "nan,2,i", "line 3: the id 'i' is already used in line 2"),
    ("table-csv", '"b, ""c"""', '"b', "line 2: unexpected end of data"),
    ("table-csv", '"b, ""c"""', '"b"x', "line 2: ',' expected"),
    ("table-csv", "null,nan,2,j", "", "line 3: an empty line"),
    ("table-jsonl", JSON_LINE, "[1]", "not a JSON object"),
    ("table-jsonl", JSON_LINE, "{", "not JSON"),
    ("table-jsonl", JSON_LINE, '{"0": "a"}', "is missing"),
    ("table-jsonl", JSON_LINE, '{"l": "a", "l": "b"}', "a key occurs twice"),
    ("table-jsonl", "null", "\\ud800", "half of a surrogate pair"),
    *(
        ("table-jsonl", "1.5", g, "line 1")
        for g in ("NaN", "Infinity", "true", "null", "[]", '"nan"', "6")
    ),
    ("usim", "\t1.5\tbright.a 12", "\t1.6\tbright.a 12", "lines 1 and 2: they are not a pair"),
    ("usim", "bright.a 12", "dim.a 12", "lines 1 and 2: they are not a pair"),
    ("usim", "\t2\t", "\t4\t", "line 1: there is no word 4"),
    ("usim", "bright light\t0\t1.5\tbright.a 12\n", "", "odd number of lines"),
    ("cosimlex", "stdev1\t", "", "the header is not"),
    ("cosimlex", "\tbanks\tShore", "\tbank\tShore", "context 2 does not mark 'bank' and 'Shore'"),
    ("cosimlex", "<strong>shore</strong>", "shore", "context 1 does not mark"),
    ("cosimlex", "\t2.5\t", "\t12.5\t", "'12.5' lies outside the scale"),
    ("am2ico", "label", "gold", "the header is not"),
    ("am2ico", "<word>大学</word>", "大学", "line 2: 0 targets instead of one"),
    ("am2ico", " null", " <word>null</word>", "line 2: 2 targets instead of one"),
    ("am2ico", "大学", " ", "line 2: 1 targets instead of one"),
    ("xlwic", "\tV\t1\t2", "\tV\t3\t5", "no target from '3-5'"),
    ("xlwic", "\tV\t1\t2", "\tV\t2\t2", "no target from '2-2'"),
    ("xlwic", "鬆\tV\t", "鬆\t", "no target from"),
    ("xlwic", "0\n1\n", "1\n", "1 lines instead of 2"),
    ("wic", "2-0", "0", "line 1: '0' is not of the form i-j"),
    ("wic", "2-0", "-1-0", "line 1: '-1-0' is not of the form i-j"),
    ("wic", "0-1", "0-2", "line 2: there is no word 2"),
    ("wic", "2-0\tRoom and", "1-0\tRoom ", "line 1: there is no word 1"),
    ("wic", "F\nT\n", "F\n", "1 lines instead of 2"),
    ("wic-tsv", "zero\t1", "zero\t7", "line 1: there is no word 7"),
    ("wic-tsv", "\nthe lower part", "", "1 lines instead of 2"),
    ("wic-tsv", "the lower part", " ", "line 2: an empty line"),
    ("wic-tsv", "T\nF\n", "T\n\n", "line 2: the label '' is none of T, F"),
    ("multisimlex", "2,6,4.7\n", "", "2 rows, scores.csv has 1"),
    ("multisimlex", "EST 2", "EST2", "the header is missing EST 2"),
    ("multisimlex", 'stop"', "stop", "line 3"),
    ("biosyn", "colorectal|", "colorectal| |", "line 1: an empty mention"),
    ("biosyn", "D001943|D015179", " ", "line 1: column 'ids' is missing, empty"),
    ("biosyn", "D001260||Ataxia\n", "D1|name\n", r"test_dictionary\.txt, line 1: not ids"),
    ("biosyn", "D001260||Ataxia\n", "D1||a\0\n", r"x/test_dictionary\.txt, line 1: a NUL byte"),
    ("biosyn", CONCEPTS["x/test_dictionary.txt"].decode(), "", r"or no test_dictionary\.txt"),
    (
        "cometa",
        "22253000||Pain\n386806002",
        "1",
        r"no id of a mention occurs in the dictionary.*\n.*one terminology",
    ),
    ("cometa", "General SNOMED ID", "id", "the header is missing General SNOMED ID"),
    ("cometa", "22253000", " ", "line 3: column 'General SNOMED ID' is missing, empty"),
    ("rescnn", '"train": [["acid", "D1"]], "dev": [], ', "", "no lists train, dev and test"),
    ("rescnn", "nan", "", r"data\.json, test, item 2: an empty mention"),
    ("rescnn", '["x|y", "D1"], ["nan", "D2"]', "", "no mention to link"),
    (
        "wsd",
        "two.d0.s0.t0 soon",
        "two.d0.s0.t0 soon%4:02:00::\nthree.d0.s0.t0 soon",
        r"keys of 'three\.d0\.s0\.t0'",
    ),
    (
        "wsd",
        '<wf lemma="the" pos="DET">The</wf>',
        "<wf><instance/></wf>",
        "not directly inside a sentence",
    ),
    (
        "wsd",
        "dog n 1 0 1 0 00000000",
        "dog n x 0 1 0 00000000",
        r"index\.noun: the line of 'dog' is not an entry",
    ),
    (
        "wsd",
        "dog n 1 0 1 0 00000000",
        "dog n 1 0 1 0 99999999",
        r"data\.noun: no entry at offset 99999999",
    ),
    ("wsd", "03 n 01 dog", "03 n zz dog", r"data\.noun: no entry of 'dog' at offset 0"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), CHANGES)
def test_malformed_data_file_is_refused(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    """The change is made wherever the first file that has the old text has it."""
    files = SAMPLES[name].files
    changed = next(file for file, content in files.items() if old.encode() in content)
    with pytest.raises(DataFormatError, match=message):
        read_sample(name, tmp_path, {changed: files[changed].replace(old.encode(), new.encode())})


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("sts", "STS.gs.Y.txt", "files of Y .* are missing input"),
        ("sts", "readme.txt", "does not follow STS.input.X.txt"),
        ("xlwic", "dev.txt", r"the name does not follow \[XX_\]valid\.txt"),
        ("wic", "train.gold.txt", "files of train .* are missing data"),
        ("wic", "other/dev.data.txt", "a second file of dev, data"),
        ("biosyn", "y/test_dictionary.txt", r"a second file test_dictionary\.txt"),
        ("multisimlex-concepticon", "W.tsv", "reads one file"),
        ("xling-eval", "yacle.train.freq.3k.ru-fr.tsv", "files of ru-fr .* are missing test"),
        ("askapatient", "a.txt", "the name does not follow"),
    ],
)
def test_unexpected_data_file_is_refused(
    tmp_path: Path, name: str, more: str, message: str
) -> None:
    with pytest.raises(DataFormatError, match=message):
        read_sample(name, tmp_path, {more: b"1\n"})


@pytest.mark.parametrize(
    ("name", "absent", "message"),
    [
        (
            "askapatient",
            "AskAPatient.fold-0.validation.txt",
            "files of 0 .* are missing validation",
        ),
        ("cometa", "names.txt", r"one \.csv"),
        ("multisimlex", "scores.csv", r"no file named scores\.csv"),
        ("wsd", "verb.exc", r"is missing the files verb\.exc"),
    ],
)
def test_missing_data_file_is_refused(tmp_path: Path, name: str, absent: str, message: str) -> None:
    sample = SAMPLES[name]
    paths = on_disk(
        tmp_path, {file: content for file, content in sample.files.items() if file != absent}
    )
    with pytest.raises(DataFormatError, match=message):
        PARSERS[sample.parser](paths, sample.options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("table-tsv", {"format": "xls"}, "format: 'xls' is not one of .* csv, jsonl, tsv"),
        ("table-tsv", {"columns": {"left": 0}}, "'columns' must say"),
        ("table-tsv", {"scale": 5}, "scale: must be of type list"),
        ("table-tsv", {"seperator": ";"}, "unknown key 'seperator'"),
        ("am2ico", {"language": None}, "'language' must be a text"),
        ("wic-tsv", {"subtask": 4}, "the subtask must be 1, 2 or 3, not 4"),
        ("multisimlex", {"languages": "ENG"}, "one or two columns"),
        ("xling-eval", {"train": "3k"}, r"are missing train\.freq\.3k"),
    ],
)
def test_invalid_parser_option_is_refused(
    tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataFormatError, match=message):
        read_sample(name, tmp_path, {}, **options)
