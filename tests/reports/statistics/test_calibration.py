"""A sample of ``benchmarks/calibration.py``: equal encoders, simulated, compared as ``run`` and ``compare`` do."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from helpers.documentation_pages import ROOT

SETS = 200
NAMES = (
    "Spearman, Multi-SimLex's pairs, with effects of each word",
    "Spearman, 8 groups of 25, with effects of each group",
    "AUC, 60 items",
    "accuracy, WiC-TSV's items, with effects of targets and contexts",
    "accuracy, 600 items, few answers differ",
    "accuracy, 100 groups of 6, 4% of the answers differ",
    "average over 8 tasks, 50% of the error shared",
    "three seeds, true scores spread by 0.025",
)


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("calibration")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_false_positive_rate_is_near_five_percent(name: str, calibration: Any) -> None:
    """Of 200 data sets 10 are expected, and 20 are 3 deviations more."""
    alarms, covered = calibration.calibrate(name, calibration.equal()[name], 0.0, SETS)
    assert alarms <= 20 / SETS
    assert covered >= 1 - 20 / SETS
    if "groups" not in name:
        assert alarms >= 1 / SETS  # it is no test that separates nothing


def test_ignoring_item_groups_raises_false_positive_rate(
    calibration: Any,
) -> None:
    """As if the items of groups were independent: the simulation would show it."""
    simulate = calibration.equal()["Spearman, 8 groups of 25, with effects of each group"]

    def blind(rng: Any) -> Any:
        made = simulate(rng).items()
        return {
            key: {0: calibration.items("spearman", own[0].values, own[0].gold)} for key, own in made
        }

    alarms, _ = calibration.calibrate("blind", blind, 0.0, 40)
    assert alarms > 0.2
