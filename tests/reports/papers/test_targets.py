"""Analyses that a paper's table asks for."""

from __future__ import annotations

import msgspec
import pytest

from mirrorbench.reports.papers.targets import AskedAnalysis


def test_set_options_name_the_analysis() -> None:
    asked = msgspec.convert(
        {"kind": "isotropy", "value": "IS", "task": "stsb", "corpus": "wiki"}, AskedAnalysis
    )
    assert asked.options == {"task": "stsb", "corpus": "wiki"}
    assert asked.task_name == "isotropy:task=stsb,corpus=wiki"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": " "}, "matching regex"),
        ({"texts": 3}, "Expected `str`"),
        ({"layer": "2"}, "unknown field `layer`"),
    ],
)
def test_wrong_keys_of_an_analysis_are_refused(wrong: dict[str, object], message: str) -> None:
    valid = {"kind": "isotropy", "value": "IS", "task": "stsb"}
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(valid | wrong, AskedAnalysis)
