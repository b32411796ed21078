"""The number of threads, which moves the last bits of products, moves no score."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from mirrorbench.data.store import DataStore
from mirrorbench.runs.results import Result, read_results

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL"),
]
LANGUAGES = ("ar", "cy", "en", "es", "et", "fi", "fr", "he", "pl", "ru", "yue", "zh")
WORDS = (*(f"multisimlex-{code}" for code in LANGUAGES), "bli-en-it")


def run(encoder: str, tasks: tuple[str, ...], data: Path, folder: Path, threads: int) -> dict[str, Result]:
    command = (sys.executable, "-m", "mirrorbench", "run", "-e", encoder, "-t", ",".join(tasks), "--offline")
    places = ("--data-dir", str(data), "--output", str(folder / "results"))
    settings = {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "MIRRORBENCH_CACHE": str(folder / "cache"),
    }
    subprocess.run([*command, *places], env=os.environ | settings, check=True, capture_output=True)
    return {result.task: result for result in read_results(folder / "results")}


@pytest.fixture
def data(originals: Callable[..., DataStore]) -> Path:
    return originals("sts/sts12", "wordsim", "bli/xling-eval/en-it", "train").root


def test_words_have_one_number_with_one_thread_and_two(data: Path, tmp_path: Path) -> None:
    one, two = (run("tiny+base:pooling=mean", WORDS, data, tmp_path / str(n), n) for n in (1, 2))
    assert one.keys() == two.keys() == set(WORDS)
    for task, result in one.items():
        assert result.metrics == two[task].metrics, task


def test_pairs_of_equal_texts_give_the_official_figures(data: Path, minilm: Path, tmp_path: Path) -> None:
    """STS12's SMTeuroparl has 65 of 459 pairs of cosine 1, Multi-SimLex's Chinese 581 of 1,888."""
    tasks = ("sts12", "multisimlex-zh")
    one, two = (run(f"{minilm}+base:pooling=mean", tasks, data, tmp_path / str(n), n) for n in (1, 2))
    assert {task: one[task].metrics for task in tasks} == {task: two[task].metrics for task in tasks}
    (path,) = (tmp_path / "1" / "results").rglob("sts12/seed-0.npz")
    with np.load(path) as stored:
        part = np.char.startswith(stored["ids"], "SMTeuroparl/")
        found = spearmanr(stored["scores"][part], stored["gold"][part]).statistic
    assert (part.sum(), round(100 * found, 2)) == (459, 63.75)
    assert round(100 * (one["multisimlex-zh"].main_score or 0), 2) == 11.40
