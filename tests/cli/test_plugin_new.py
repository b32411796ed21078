"""What ``plugin new`` refuses, and how small the least plugin is; tests/test_plugins_page.py installs a written one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
from pages import files
from scipy.stats import spearmanr

FILES = files(Path(__file__).resolve().parents[2] / "docs" / "plugins.md")


def test_the_least_of_each_is_small_and_works(
    mirrorbench: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    for name, most in (("pets.yaml", 12), ("letters.py", 10), ("word_drop.py", 6)):
        assert len(FILES[name].splitlines()) <= most, name
    for name, text in FILES.items():
        (folder / name).write_text(text)
    plugins = [part for name in ("pets", "letters", "word_drop") for part in ("--plugin", f"{name}.py")]
    (folder / "corpus.txt").write_text("".join(f"a text of number {n}\n" for n in range(12)))
    tuned = f"{random_model('bert')}+mirror:word_drop=0.3,corpus=corpus.txt"
    mirrorbench(
        "run", *plugins, "-e", "letters", "-e", tuned, "-t", "pets", "--device", "cpu", "--offline"
    ).assert_works()
    results = {r["cell"]["spec"]: r for r in (json.loads(p.read_text()) for p in folder.rglob("seed-0.json"))}
    rows = [line.split("\t") for line in FILES["pets.tsv"].splitlines()]
    count = [[np.array([text.count(c) for c in ascii_lowercase]) for text in row[:2]] for row in rows]
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in count]
    expected = spearmanr(cosines, [float(row[2]) for row in rows])[0]
    assert results["letters"]["main_score"] == pytest.approx(expected)
    (other,) = (result for spec, result in results.items() if spec != "letters")
    assert other["cell"]["recipe"]["augment"]["word_drop"] == 0.3


def test_what_is_refused(mirrorbench: Callable, folder: Path) -> None:
    for name in ("My-Lab", "a b", "", "-x", "x--y", "../x", "1x", "a_b"):
        mirrorbench("plugin", "new", "--", name).assert_fails(2, "no name for a plugin")
    assert list(folder.iterdir()) == []
    mirrorbench("plugin", "new", "lab", "-o", "deep").assert_works()
    mirrorbench("plugin", "new", "mirrorbench-lab", "-o", "deep").assert_fails(2, "there already")
