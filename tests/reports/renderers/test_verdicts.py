"""Verdicts as sentences: what they say of the test, and of its limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorbench.reports.renderers.verdicts import Names, over_name, row_name, sentence
from mirrorbench.reports.table import Equality, Row, Unseen, Verdict

NAMES = Names("Mirror", "the untuned model", " on STS")
GAIN = Verdict("m+mirror", "m+base", "paper", "sts", 0.1, (0.08, 0.12), 0.01, 0.01, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "Mirror beats the untuned model on STS: +.100 [.080, .120], p = .010"),
        (
            {"difference": -0.1, "interval": (-0.12, -0.08)},
            "Mirror loses to the untuned model on STS: -.100 [-.120, -.080], p = .010",
        ),
        (
            {"n_tests": 3, "p": 0.0001, "corrected": 0.0003},
            "Mirror beats the untuned model on STS: +.100 [.080, .120], p < .001 (3 tests)",
        ),
        (
            {"n_tests": 3, "corrected": 0.03, "this_model": True},
            "Mirror beats the untuned model on STS: +.100 [.080, .120], p = .010 (3 tests: .030), this model",
        ),
        (
            {"separable": False, "corrected": 0.3, "n_tests": 30, "this_model": True},
            "No separable difference on STS: Mirror over the untuned model +.100 [.080, .120], p = .010 "
            "(30 tests: .30)",
        ),
        (
            {
                "difference": 0.0,
                "interval": (0.0, 0.0),
                "p": 1.0,
                "corrected": 1.0,
                "separable": False,
            },
            "No separable difference on STS: Mirror over the untuned model .000, the same on all items, p = 1.0",
        ),
        (
            {"two_seeds": True},
            "Mirror beats the untuned model on STS: +.100 [.080, .120], p = .010, two seeds",
        ),
        (
            {"unseen": Unseen(0.4, 0.009, (-0.006, 0.023), 0.21), "left_out": 2},
            "Mirror beats the untuned model on STS: +.100 [.080, .120], p = .010; "
            "without overlap +.009 [-.006, .023], p = .21; without 2 items that only one of them has",
        ),
        (
            {"separable": False, "equality": Equality(0.15, 0.01, "", 0.02, 2, True), "n_tests": 3},
            "Equal within .15 on STS: Mirror and the untuned model +.100 [.080, .120], p = .010 (2 tests: .020)",
        ),
        (
            {"equality": Equality(0.15, 0.01, "", 0.01, 1, True), "this_model": True},
            "Equal within .15 on STS: Mirror and the untuned model +.100 [.080, .120], p = .010, this model, "
            "though Mirror is better, p = .010",
        ),
        (
            {"equality": Equality(0.11, 0.2, "", 0.2)},
            "Mirror beats the untuned model on STS: +.100 [.080, .120], p = .010; "
            "not shown to be equal within .11, p = .20",
        ),
        (
            {"equality": Equality(0.02, 1.0, "", 1.0)},
            "Mirror beats the untuned model on STS: +.100 [.080, .120], p = .010; "
            "not shown to be equal within .02, p = 1.0",
        ),
        (
            {
                "separable": False,
                "equality": Equality(0.02, None, "these items cannot say: no item differs"),
            },
            "No separable difference on STS: Mirror over the untuned model +.100 [.080, .120], p = .010; "
            "whether equal within .02, these items cannot say: no item differs",
        ),
        (
            {"unseen": Unseen(1.0)},
            "Mirror beats the untuned model on STS: +.100 [.080, .120], p = .010; "
            "100% of the items hold a text that was tuned on",
        ),
        (
            {
                "interval": None,
                "p": None,
                "corrected": None,
                "why_not": "its error cannot be estimated",
            },
            "Not tested on STS: Mirror over the untuned model +.100 (its error cannot be estimated)",
        ),
    ],
)
def test_sentence_states_the_test_and_its_caveats(
    changes: dict[str, object], expected: str
) -> None:
    assert sentence(replace(GAIN, **changes), NAMES)[1] == expected  # type: ignore[arg-type]


def test_rows_are_called_by_what_tells_them_apart() -> None:
    def row(spec: str, label: str, tuned: bool = False) -> Row:
        return Row(label, spec, (), spec.partition("+")[0], protocol="paper", tuned=tuned)

    plain = row("bert+base:layers=:,pooling=mean", "BERT-mp (layers=:)")
    tuned, other = row("bert+mirror", "BERT + Mirror", True), row("e5+mirror", "e5 + Mirror", True)
    same = [plain, tuned]
    assert row_name(tuned, same) == "Mirror"
    assert row_name(plain, same) == "the untuned model (mp (layers=:))"
    assert over_name(plain, same, best=True) == "the best untuned row (mp (layers=:))"
    assert row_name(tuned, [*same, other]) == "BERT + Mirror"
    assert (
        over_name(plain, [*same, other], best=True) == "the best untuned row (BERT-mp (layers=:))"
    )
    typed = row("bert+mirror", "bert+mirror", True)
    assert row_name(typed, [typed, plain]) == "bert+mirror"
