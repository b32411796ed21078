from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.schema import read


class Url(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="kind", tag="url"):
    url: str


class Github(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="kind", tag="github"):
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


def write(folder: Path, text: str) -> Path:
    path = folder / "card.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_right_is_read(tmp_path: Path) -> None:
    text = "name: a\nsources:\n- {kind: url, url: x}\n- {kind: github, repository: o/r, commit: c}\noptions: {k: 1}\n"
    assert read(write(tmp_path, text), Card) == Card("a", [Url("x"), Github("o/r", "c")], options={"k": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nlevle: word\n", "card.yaml, line 2: unknown key 'levle'; did you mean 'level'?"),
        ("name: a\nxyzzy: 1\n", "line 2: unknown key 'xyzzy'; known: level, name, options, size, sources"),
        ("level: word\n", "line 1: the key 'name' is missing"),
        ("name: a\nsize: big\n", "line 2: size: must be of type int or nothing, not str"),
        ("name: a\nlevel: phrases\n", "line 2: level: 'phrases' is none of the possible values; known: sentence, word"),
        (
            "name: a\nsources:\n- {kind: url, url: x}\n-\n  kind: github\n  repositry: o\n",
            "line 6: sources[2]: unknown key 'repositry'; did you mean 'repository'?",
        ),
        ("name: a\nsources: [{kind: ftp}]\n", "line 2: sources[1].kind: 'ftp' is none of the possible values"),
        ("name: a\nsources: {}\n", "line 2: sources: must be of type list, not mapping"),
        ("name: a\noptions:\n  k: x\n", "line 3: options: must be of type int, not str"),
        ("name: bad\n", "line 1: the name 'bad' is taken"),
        ("- a\n", "line 1: must be of type mapping, not list"),
        ("name: &x a\n", "line 1: anchors and aliases are not allowed"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataFormatError) as raised:
        read(write(tmp_path, text), Card)
    assert said in raised.value.message
