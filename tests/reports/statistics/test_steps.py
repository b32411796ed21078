"""Which rows are compared below a leaderboard."""

from __future__ import annotations

import pytest

from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.statistics.steps import row_below

CLS, MEAN, TUNED = "m+base:pooling=cls", "m+base:pooling=mean", "m+mirror"


@pytest.mark.parametrize(
    ("spec", "rows", "expected"),
    [
        # the untuned row that is read in the same way, whatever its place
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("mean", "-1:")}, MEAN),
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("cls", "-1:")}, CLS),
        (
            TUNED,
            {MEAN: ("mean", "-1:"), "m+base:layers=:": ("mean", ":"), TUNED: ("mean", ":")},
            "m+base:layers=:",
        ),
        # else the one with the same pooling, else mean pooling, else the target word, else any
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("cls", ":")}, CLS),
        (TUNED, {CLS: ("cls", "-1:"), MEAN: ("mean", "-1:"), TUNED: ("target", "-4:")}, MEAN),
        (
            TUNED,
            {CLS: ("cls", "-1:"), "m+base:pooling=target": ("target", "-4:"), TUNED: ("mean", ":")},
            "m+base:pooling=target",
        ),
        (TUNED, {CLS: ("cls", "-1:"), TUNED: ("mean", ":")}, CLS),
        # what only adds to another row's settings is a step above that one, the nearest
        (
            "m+mirror:lr=1,seed=2",
            {
                MEAN: ("mean", ""),
                TUNED: ("mean", ""),
                "m+mirror:lr=1": ("mean", ""),
                "m+mirror:lr=1,seed=2": ("mean", ""),
            },
            "m+mirror:lr=1",
        ),
        (
            f"{MEAN},post=w",
            {CLS: ("cls", ""), MEAN: ("mean", ""), f"{MEAN},post=w": ("mean", "")},
            MEAN,
        ),
        (
            "s:path=a,post=w",
            {"s:path=a": ("", ""), "s:path=b": ("", ""), "s:path=a,post=w": ("", "")},
            "s:path=a",
        ),
        (
            "m+static:layers=:",
            {
                MEAN: ("mean", "-1:"),
                f"{MEAN},layers=:": ("mean", ":"),
                CLS: ("cls", "-1:"),
                "m+static:layers=:": ("", ""),
            },
            f"{MEAN},layers=:",
        ),
        # but another readout or another model is none
        (
            "m+mirror:layers=:",
            {MEAN: ("mean", ""), TUNED: ("mean", ""), "m+mirror:layers=:": ("mean", ":")},
            MEAN,
        ),
        ("s:path=a", {"s": ("", ""), "s:path=a": ("", "")}, None),
        # an untuned row is a step above none, and another backbone or revision is no row to compare with
        (MEAN, {CLS: ("cls", ""), "m+base": ("mean", ""), MEAN: ("mean", "")}, None),
        (TUNED, {"n+base": ("mean", ""), "m@1+base": ("mean", ""), TUNED: ("mean", "")}, None),
        ("m+base:post=w", {TUNED: ("mean", ""), "m+base:post=w": ("mean", "")}, None),
        # of several that are alike the first by name, whatever the order of rows
        (TUNED, {"m+base:pooling=last": ("last", ""), CLS: ("cls", ""), TUNED: ("mean", "")}, CLS),
    ],
)
def test_nearest_simpler_row_is_chosen_for_comparison(
    spec: str, rows: dict[str, tuple[str, str]], expected: str | None
) -> None:
    found = row_below(parse_spec(spec), {parse_spec(row): readout for row, readout in rows.items()})
    assert found == (expected and parse_spec(expected))
