from __future__ import annotations

from typing import Any

import pytest

from mirrorbench.data.families import expand
from mirrorbench.errors import DataFormatError


def test_a_plain_card_is_a_family_of_one() -> None:
    raw = {"name": "a", "notes": "{name}"}
    assert list(expand(raw)) == [raw]


def test_every_combination_is_a_card_and_whole_values_keep_their_type() -> None:
    raw: dict[str, Any] = {
        "name": "t-{pair}{suffix}",
        "files": [{"path": "{pair}.tsv", "size": "{size}"}],
        "sources": [{"path": "data/{pair}/{path}"}],
        "citation": "@misc{pair}",
        "redistributable": True,
        "variants": {
            "pair": [{"pair": "a-b", "size": 3}, {"pair": "c-d", "size": 4}],
            "dictionary": [{"suffix": ""}, {"suffix": "-1k"}],
        },
    }
    cards = list(expand(raw))
    assert [card["name"] for card in cards] == ["t-a-b", "t-a-b-1k", "t-c-d", "t-c-d-1k"]
    assert cards[2]["files"] == [{"path": "c-d.tsv", "size": 4}]
    assert cards[2]["sources"] == [{"path": "data/c-d/{path}"}]  # {path} belongs to the sources
    assert cards[0]["citation"] == "@misc{pair}"
    assert "variants" not in cards[0]


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ([{"a": 1}], "mapping of axes"),
        ({}, "mapping of axes"),
        ({"x": []}, "'x' must be a list"),
        ({"x": ["a"]}, "'x' must be a list"),
        ({"x": [{"a": 1}, {"b": 2}]}, "same placeholders"),
        ({"x": [{"a": 1}], "y": [{"a": 2}]}, "two axes name the placeholder 'a'"),
    ],
)
def test_malformed_families_are_refused(variants: Any, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        list(expand({"name": "{a}", "variants": variants}))
