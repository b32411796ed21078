"""The choice of columns of a user's file, and their values as texts."""

from __future__ import annotations

from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.data.readers.columns import resolve_columns, text_of


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        (("other", "sentence", "text"), ["text"]),
        (("other", "sentence"), ["sentence"]),
        (("other",), ["other"]),
    ],
)
def test_unnamed_column_is_the_usual_or_only_one(texts: tuple[str, ...], chosen: list[str]) -> None:
    notes: list[str] = []
    assert list(resolve_columns((), ("n", *texts), texts, "a.csv", notes.append)) == chosen
    assert notes == [f"a.csv: texts are taken from the column {chosen[0]!r}"]
    for named, names in (((), texts[:1]), (texts[:1], ("n", *texts))):
        resolve_columns(named, names, texts[:1], "a.csv", notes.append)
    assert len(notes) == 1  # nothing was decided for the user


def test_unnamed_column_of_several_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"a\.csv has several columns, and none is named"
    ) as caught:
        resolve_columns((), ("one", "two"), ("one", "two"), "a.csv", print)
    assert "--column NAME" in caught.value.hint
    assert "one, two" in caught.value.hint
    with pytest.raises(UsageError, match="has no column of text, and none is named"):
        resolve_columns((), ("n",), (), "a.csv", print)


@pytest.mark.parametrize(("value", "kind"), [(None, r"empty \(null\)"), (3, "of type int")])
def test_value_that_is_no_text_names_its_line(value: Any, kind: str) -> None:
    assert text_of("", "a.jsonl", 7) == ""
    with pytest.raises(DataFormatError, match=rf"a\.jsonl, line 7: the value is {kind}"):
        text_of(value, "a.jsonl", 7)
