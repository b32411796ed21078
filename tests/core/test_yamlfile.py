from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.yamlfile import MAX_BYTES, MAX_DEPTH, Located, read_yaml


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(text: str | bytes) -> Located:
        path = tmp_path / "file.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_yaml(path)

    return read


def test_values_are_read_by_the_rules_of_specs(read: Any) -> None:
    text = """
numbers: [2e-5, .1, 0, -3, 1.0]
words: [on, no, yes, off, 12:30, 010x, "-4:", "2e-5", 2020-01-01, cls]
truth: [true, false]
nothing: [~, null, ""]
"""
    assert read(text).bare() == {
        "numbers": [2e-5, 0.1, 0, -3, 1.0],
        "words": ["on", "no", "yes", "off", "12:30", "010x", "-4:", "2e-5", "2020-01-01", "cls"],
        "truth": [True, False],
        "nothing": [None, None, ""],
    }


def test_lines_are_counted_from_one(read: Any) -> None:
    found = read("a: 1\nb:\n  - x\n  - {c: 2}\n").value
    assert (found["a"].line, found["b"].line) == (1, 3)
    assert [item.line for item in found["b"].value] == [3, 4]


def test_a_byte_order_mark_is_fine(read: Any) -> None:
    assert read("\ufeffa: 1\n".encode()).bare() == {"a": 1}


def test_values_can_be_left_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text("numbers: [.790, 57.10, +0.9, 1e5]\nnothing: [null, ~, ]\nempty:\n")
    found = read_yaml(tmp_path / "file.yaml", plain=str).bare()
    assert found == {"numbers": [".790", "57.10", "+0.9", "1e5"], "nothing": ["null", "~"], "empty": ""}


def test_prose_may_hold_the_signs_of_anchors_and_tags(read: Any) -> None:
    text = 'a: Rubenstein & Goodenough\nb: "* &x !y"\nc: |\n  @misc{x, note = {&x !important *}}\nd: [x!, 5*]\n'
    assert read(text).bare() == {
        "a": "Rubenstein & Goodenough",
        "b": "* &x !y",
        "c": "@misc{x, note = {&x !important *}}\n",
        "d": ["x!", "5*"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a: [1\n", "line 2: not valid YAML"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "line 2: the tag"),
        ("a: !mine 3\n", "line 1: the tag '!mine'"),
        ("a: [1,!!int 3]\n", "line 1: the tag"),
        ("a: 1\na: 2\n", "line 2: the key 'a' stands twice"),
        ("a: {b: 1, c: 2, b: 3}\n", "line 1: the key 'b' stands twice"),
        ("a: 1\nb:\n  <<: {c: 1}\n", "line 3: merge keys"),
        ("[1, 2]: 3\n", "line 1: a key must be a word"),
        ("{[1]: b}\n", "line 1: a key must be a word"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document"),
        ("a: *x\n", "line 1: anchors and aliases are not allowed"),
        ("x: &x [*x]\n", "line 1: anchors and aliases are not allowed"),
        ('{"a":&x 1}', "line 1: anchors and aliases are not allowed"),
        ("\n\u2028&x {a: 1}", "anchors and aliases are not allowed"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"line 1: nested more than {MAX_DEPTH} levels deep"),
        ("a: " + "[" * 300_000, f"nested more than {MAX_DEPTH} levels deep"),
        ("{a: " * 250_000, f"nested more than {MAX_DEPTH} levels deep"),
        ("- " * 300_000, f"nested more than {MAX_DEPTH} levels deep"),
        ("a: 1\nb: " + "9" * 5000, "line 2: the number 9+... has 5000 digits"),
        ("a: 1e999", "line 1: the number 1e999 is too large"),
        (b"a: 1\nb: caf\xe9\n", "line 2: byte 0xe9 is not valid UTF-8"),
        (b"a: \x00\n", "not valid YAML"),
        ("# " + "x" * MAX_BYTES, "at most"),
    ],
)
def test_what_is_refused(read: Any, text: str | bytes, message: str) -> None:
    with pytest.raises(DataFormatError, match=message) as caught:
        read(text)
    assert "file.yaml" in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="cannot be read"):
        read_yaml(tmp_path / "none.yaml")
