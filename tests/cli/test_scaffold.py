"""``plugin new``: names that are refused; tests/test_plugins_page.py installs a package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def test_invalid_plugin_names_are_refused(mirrorbench: Callable, folder: Path) -> None:
    for name in ("My-Lab", "a b", "", "-x", "x--y", "../x", "1x", "a_b"):
        mirrorbench("plugin", "new", "--", name).assert_fails(2, "cannot be the name of a plugin")
    assert list(folder.iterdir()) == []
    mirrorbench("plugin", "new", "lab", "-o", "deep").assert_works()
    mirrorbench("plugin", "new", "mirrorbench-lab", "-o", "deep").assert_fails(2, "already exists")


def test_prefix_of_a_package_is_not_part_of_names(mirrorbench: Callable, folder: Path) -> None:
    said = mirrorbench("plugin", "new", "mirrorbench-lab").assert_works()
    assert "--encoder lab-letters --tasks lab-pets,lab-code" in said.out
