"""The number of items that an answer needs, and scores that are not tested for equality."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

import mirrorbench
from mirrorbench.own_data.evaluation import items_needed
from mirrorbench.reports.table import Verdict


@pytest.mark.parametrize("n_tests", [1, 5])
def test_items_needed_gives_eighty_percent_power(n_tests: int) -> None:
    """After Bonferroni's correction, the strictest step of Holm's."""
    error, n, difference = 0.02, 100, 0.03
    verdict = Verdict("a", "b", "paper", "t", difference, error=error, n=n, n_tests=n_tests)
    needed = items_needed(verdict)
    assert needed is not None
    drawn = difference + error * np.sqrt(n / needed) * np.random.default_rng(0).normal(size=100_000)
    assert np.mean(
        drawn / (error * np.sqrt(n / needed)) > t.ppf(1 - 0.025 / n_tests, needed - 1)
    ) == pytest.approx(0.8, abs=0.01)


def test_equality_by_fitted_thresholds_is_not_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["sentence1,sentence2,label"]
    lines += [f"a cat {n},a kitten {n},1\na dog {n},the bus {n + 40},0" for n in range(40)]
    Path("pairs.csv").write_text("\n".join(lines))
    reasons = {}
    for metric in ("accuracy", "cosine_ap"):
        data = f"./pairs.csv:metric={metric}"
        encoders = ["tiny", "tiny+base:pooling=cls"]
        board = mirrorbench.evaluate(encoders, data, margin=0.5, device="cpu")
        (verdict,) = board.table.verdicts
        assert verdict.equality is not None
        reasons[metric] = verdict.equality.why_not
    assert reasons["accuracy"] == "is not tested for this score"
    assert "not tested" not in reasons["cosine_ap"]
