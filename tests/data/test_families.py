from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirrorbench import hookimpl
from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cardfile import cards_folder, expand, load_card, load_cards
from mirrorbench.runs.builtin import load_plugins


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


def test_a_family_gives_many_cards_where_one_would_be_too_few() -> None:
    path = cards_folder() / "clws" / "clws.yaml"
    cards = load_cards(path)
    assert len(cards) == 66
    assert len({card.name for card in cards}) == 66
    assert {card.folder for card in cards} == {"multisimlex"}
    with pytest.raises(DataFormatError, match="holds 66 cards where one is expected"):
        load_card(path)


def test_a_plugin_registers_a_family_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "family.yaml"
    text = (cards_folder() / "clws" / "clws.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("name: clws-", "name: my-"), encoding="utf-8")

    class Plugin:
        @hookimpl
        def register_tasks(self, register: Any) -> None:
            register(path)

    plugins = load_plugins(discover=False)
    plugins.add(Plugin(), "mine")
    assert plugins.tasks["my-zh-he"].title == "ZH-HE"
    assert plugins.tasks.entry("my-en-fr").origin == "mine"
