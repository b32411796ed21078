from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.schema import MAX_BYTES, MAX_DEPTH, read, read_yaml


class Url(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="from", tag="url"):
    url: str


class Github(
    msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="from", tag="github"
):
    repository: str
    commit: str


class Card(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    sources: list[Url | Github] = []
    level: Literal["word", "sentence"] = "word"
    size: int | None = None
    options: dict[str, int] = {}

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise ValueError("the name 'bad' is taken")


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "card.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_valid_file_is_read_into_struct(tmp_path: Path) -> None:
    text = "name: a\nsources:\n- {from: url, url: x}\n- {from: github, repository: o/r, commit: c}\noptions: {k: 1}\n"
    assert read(write(tmp_path, text), Card) == Card(
        "a", [Url("x"), Github("o/r", "c")], options={"k": 1}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nlevle: word\n", "card.yaml, line 2: unknown key 'levle'; did you mean 'level'?"),
        (
            "name: a\nxyzzy: 1\n",
            "line 2: unknown key 'xyzzy'; known: level, name, options, size, sources",
        ),
        ("level: word\n", "line 1: the key 'name' is missing"),
        ("name: a\nsize: big\n", "line 2: size: must be of type int or nothing, not str"),
        (
            "name: a\nlevel: phrases\n",
            "line 2: level: 'phrases' is not one of the possible values; known: sentence, word",
        ),
        (
            "name: a\nsources:\n- {from: url, url: x}\n-\n  from: github\n  repositry: o\n",
            "line 6: sources[2]: unknown key 'repositry'; did you mean 'repository'?",
        ),
        (
            "name: a\nsources: [{from: ftp}]\n",
            "line 2: sources[1].from: 'ftp' is not one of the possible values",
        ),
        ("name: a\nsources: {}\n", "line 2: sources: must be of type list, not mapping"),
        ("name: a\noptions:\n  k: x\n", "line 3: options: must be of type int, not str"),
        ("name: bad\n", "line 1: the name 'bad' is taken"),
        ("- a\n", "line 1: must be of type mapping, not list"),
    ],
)
def test_schema_errors_report_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataFormatError) as raised:
        read(write(tmp_path, text), Card)
    assert said in raised.value.message


def test_yaml_scalars_follow_the_spec_rules(tmp_path: Path) -> None:
    text = """
numbers: [2e-5, .1, 0, -3, 1.0]
words: [on, no, yes, off, 12:30, 010x, "-4:", "2e-5", 2020-01-01, cls]
truth: [true, false]
nothing: [~, null, ""]
"""
    assert read_yaml(write(tmp_path, text)).bare() == {
        "numbers": [2e-5, 0.1, 0, -3, 1.0],
        "words": ["on", "no", "yes", "off", "12:30", "010x", "-4:", "2e-5", "2020-01-01", "cls"],
        "truth": [True, False],
        "nothing": [None, None, ""],
    }
    path = write(tmp_path, "numbers: [.790, 57.10, +0.9, 1e5]\nnothing: [null, ~, ]\nempty:\n")
    found = read_yaml(path, plain=str).bare()  # as they are written
    assert found == {
        "numbers": [".790", "57.10", "+0.9", "1e5"],
        "nothing": ["null", "~"],
        "empty": "",
    }


def test_yaml_special_characters_and_line_numbers_are_read(tmp_path: Path) -> None:
    text = '\ufeffa: Bed & Breakfast\nb: "* &x !y"\nc: |\n  @misc{x, note = {&x !important *}}\nd:\n- x!\n- 5*\n'
    found: Any = read_yaml(write(tmp_path, text))  # a byte order mark is fine
    assert found.bare() == {
        "a": "Bed & Breakfast",
        "b": "* &x !y",
        "c": "@misc{x, note = {&x !important *}}\n",
        "d": ["x!", "5*"],
    }
    assert [found.value[key].line for key in "abcd"] == [1, 2, 3, 6]
    assert [item.line for item in found.value["d"].value] == [6, 7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a: [1\n", "line 2: not valid YAML"),
        (b"a: \x00\n", "not valid YAML"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "line 2: the tag"),
        ("a: !mine 3\n", "line 1: the tag '!mine'"),
        ("a: 1\na: 2\n", "line 2: the key 'a' occurs twice"),
        ("a: {b: 1, c: 2, b: 3}\n", "line 1: the key 'b' occurs twice"),
        ("a: 1\nb:\n  <<: {c: 1}\n", "line 3: merge keys"),
        ("[1, 2]: 3\n", "line 1: a key must be a word"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document"),
        ("a: *x\n", "line 1: anchors and aliases are not allowed"),
        ("x: &x [*x]\n", "line 1: anchors and aliases are not allowed"),
        ('{"a":&x 1}', "line 1: anchors and aliases are not allowed"),
        ("\n\u2028&x {a: 1}", "anchors and aliases are not allowed"),
        (
            "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
            f"line 1: nested more than {MAX_DEPTH} levels deep",
        ),
        ("a: " + "[" * 300_000, f"nested more than {MAX_DEPTH} levels deep"),
        ("- " * 300_000, f"nested more than {MAX_DEPTH} levels deep"),
        ("a: 1\nb: " + "9" * 5000, "line 2: the number 9+... has 5000 digits"),
        ("a: 1e999", "line 1: the number 1e999 is too large"),
        (b"a: 1\nb: caf\xe9\n", "line 2: byte 0xe9 is not valid UTF-8"),
        ("# " + "x" * MAX_BYTES, "at most"),
    ],
)
def test_unsafe_or_malformed_yaml_is_rejected(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(DataFormatError, match=message) as caught:
        read_yaml(write(tmp_path, text))
    assert "card.yaml" in caught.value.message
    with pytest.raises(DataFormatError, match="cannot be read"):
        read_yaml(tmp_path / "none.yaml")
