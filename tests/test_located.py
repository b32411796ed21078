from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirrorbench.errors import UsageError
from mirrorbench.located import MAX_ALIASES, MAX_BYTES, MAX_DEPTH, Located, read_located


def plain(found: Located) -> Any:
    """The values without their lines."""
    if isinstance(found.value, tuple):
        return [plain(item) for item in found.value]
    if isinstance(found.value, dict):
        return {key: plain(value) for key, value in found.value.items()}
    return found.value


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(text: str | bytes) -> Located:
        path = tmp_path / "file.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_located(path)

    return read


def test_values_are_read_by_the_rules_of_specs(read: Any) -> None:
    text = """
numbers: [2e-5, .1, 0, -3, 1.0]
words: [on, no, yes, off, 12:30, 010x, "-4:", "2e-5", 2020-01-01, cls]
truth: [true, false]
nothing: [~, null, ""]
"""
    assert plain(read(text)) == {
        "numbers": [2e-5, 0.1, 0, -3, 1.0],
        "words": ["on", "no", "yes", "off", "12:30", "010x", "-4:", "2e-5", "2020-01-01", "cls"],
        "truth": [True, False],
        "nothing": [None, None, ""],
    }


def test_lines_are_counted_from_one(read: Any) -> None:
    found = read("a: 1\nb:\n  - x\n  - {c: 2}\n").value
    assert (found["a"].line, found["b"].line) == (1, 3)
    assert [item.line for item in found["b"].value] == [3, 4]


def test_a_byte_order_mark_and_few_aliases_are_fine(read: Any) -> None:
    assert plain(read("\ufeffa: &x [1, 2]\nb: *x\n".encode())) == {"a": [1, 2], "b": [1, 2]}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 5)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a: [1\n", "line 2: not valid YAML"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "line 2: the tag"),
        ("a: !mine 3\n", "line 1: the tag"),
        ("a: 1\na: 2\n", "line 2: the key 'a' stands twice"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", r"line 3: merge keys"),
        ("[1, 2]: 3\n", "line 1: a key must be a word"),
        ("a: 1\n---\nb: 2\n", "line 2: a second document"),
        ("a: *x\n", "line 1: not valid YAML"),
        ("x: &x [*x]\n", "aliases make this more than"),
        (BOMB, "aliases make this more than"),
        ("a: &a 1\nb: [" + "*a, " * (MAX_ALIASES + 1) + "]\n", f"more than {MAX_ALIASES} aliases"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested more than {MAX_DEPTH} deep"),
        (b"a: caf\xe9\n", "is not UTF-8: byte 6"),
        (b"a: \x00\n", "not valid YAML"),
        ("# " + "x" * MAX_BYTES, "at most"),
    ],
)
def test_what_is_refused(read: Any, text: str | bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read(text)
    assert "file.yaml" in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_located(tmp_path / "none.yaml")
