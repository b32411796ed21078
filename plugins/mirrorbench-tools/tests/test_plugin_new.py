"""``plugin new``: refused names, and the size of the smallest plugins; tests/test_plugins_page.py installs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pages import files


def test_the_smallest_plugins_are_small() -> None:
    shown = files(Path(__file__).resolve().parents[3] / "docs" / "plugins.md")
    for name, most in (("pets.yaml", 12), ("letters.py", 10), ("word_drop.py", 6)):
        assert len(shown[name].splitlines()) <= most, name


def test_wrong_names_are_refused(mirrorbench: Callable, folder: Path) -> None:
    for name in ("My-Lab", "a b", "", "-x", "x--y", "../x", "1x", "a_b"):
        mirrorbench("plugin", "new", "--", name).assert_fails(2, "no name for a plugin")
    assert list(folder.iterdir()) == []
    mirrorbench("plugin", "new", "lab", "-o", "deep").assert_works()
    mirrorbench("plugin", "new", "mirrorbench-lab", "-o", "deep").assert_fails(2, "there already")
