"""``mirrorbench list``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorbench.data.card_files import builtin_cards, builtin_suites


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("methods", "mirror"),
        ("tasks", "stsb"),
        ("augmentations", "span_mask"),
        ("corpora", "sts-sentences"),
        ("suites", "sts"),
        ("backbones", "roberta"),
        ("renderers", "latex"),
        ("executors", "local"),
    ],
)
def test_names_are_listed_as_json_and_text(mirrorbench: Callable, kind: str, name: str) -> None:
    rows = {row["name"]: row for row in json.loads(mirrorbench("list", kind, "--json").out)}
    assert name in rows
    if kind not in ("suites", "backbones"):
        assert rows[name]["plugin"].startswith("mirrorbench.")
    plain = mirrorbench("list", kind).out.splitlines()
    assert [line.split("\t")[0] for line in plain[1:]] == list(rows)


def test_encoder_types_and_plugin_hooks_are_listed(mirrorbench: Callable, toys: Callable) -> None:
    kinds = {
        row["name"]: row["type"]
        for row in json.loads(mirrorbench("list", "encoders", "--json").out)
    }
    assert kinds.items() >= {"sbert": "system", "roberta": "backbone", "+mirror": "method"}.items()
    rows = {
        Path(row["name"]).name: row
        for row in json.loads(toys("plugins", "--json", command="list").out)
    }
    assert rows["letters_plugin.py"]["hooks"] == ["register_encoders", "register_tasks"]
    assert rows["mirrorbench.training.methods"]["distribution"] == "built in"


def test_tasks_are_filtered_by_suite_level_and_language(
    mirrorbench: Callable, tmp_path: Path
) -> None:
    def chosen(*options: str) -> list[str]:
        return [
            row["name"] for row in json.loads(mirrorbench("list", "tasks", "--json", *options).out)
        ]

    tasks = {card.name: card for card in builtin_cards().values() if card.kind != "corpus"}
    assert chosen() == list(tasks)
    assert set(chosen("--suite", "sts")) == set(builtin_suites()["sts"])
    assert chosen("--level", "wic", "--language", "de") == [
        name for name, card in tasks.items() if card.level == "wic" and "de" in card.languages
    ]
    inside = chosen("--here", "--data-dir", str(tmp_path))
    assert set(builtin_suites()["quick"]) <= set(inside) < set(tasks)
    mirrorbench("list", "tasks", "--level", "words").assert_fails(
        2, "unknown level 'words'", "Did you mean word"
    )
    mirrorbench("list", "suites", "--here").assert_fails(2, "choose tasks")
    (sts,) = (
        row
        for row in json.loads(mirrorbench("list", "suites", "--json").out)
        if row["name"] == "sts"
    )
    assert sts["measures"] == "similarity of two English sentences"
