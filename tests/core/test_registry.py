from __future__ import annotations

import pytest

from mirrorbench.core.errors import PluginError, UnknownNameError
from mirrorbench.core.registry import Registry, unknown_name


def test_entries_keep_their_order_and_origin() -> None:
    registry: Registry[int] = Registry("task")
    registry.add("b", 1, "one", "first")
    registry.add("a", 2, "two")
    assert registry.names() == ["b", "a"]
    assert [entry.origin for entry in registry] == ["one", "two"]
    assert registry["a"] == 2
    assert registry.entry("b").description == "first"
    assert "a" in registry
    assert "c" not in registry
    assert len(registry) == 2


def test_a_duplicate_names_both_origins_and_keeps_the_first() -> None:
    registry: Registry[int] = Registry("task")
    registry.add("stsb", 1, "mirrorbench")
    with pytest.raises(PluginError, match=r"'stsb'.*by mirrorbench and by intruder") as caught:
        registry.add("stsb", 2, "intruder")
    assert "MIRRORBENCH_DISABLE_PLUGINS" in caught.value.hint
    assert registry["stsb"] == 1


def test_an_unknown_name_suggests_the_nearest() -> None:
    registry: Registry[int] = Registry("task")
    for name in ("stsb", "sts12", "wic"):
        registry.add(name, 0, "x")
    with pytest.raises(UnknownNameError, match=r"unknown task 'sstb'") as caught:
        registry["sstb"]
    assert "stsb" in caught.value.hint
    assert "wic" not in caught.value.hint


def test_a_name_like_no_other_lists_all() -> None:
    assert unknown_name("task", "zzz", ["stsb", "wic"]).hint == "Known: stsb, wic"
    assert unknown_name("task", "zzz", []).hint == "Known: none"


def test_of_many_names_the_hint_says_what_lists_them() -> None:
    registry: Registry[int] = Registry("task")
    for number in range(250):
        registry.add(f"task-{number}", 0, "x")
    with pytest.raises(UnknownNameError) as caught:
        registry["qqq"]
    assert caught.value.hint == "The 250 known names are listed by: mirrorbench list tasks"
    with pytest.raises(UnknownNameError, match="Did you mean task-24"):
        registry["tsk-24"]
