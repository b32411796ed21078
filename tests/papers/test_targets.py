"""Measures of the cells of a paper's table, and the analyses that they ask for."""

from __future__ import annotations

import msgspec
import pytest

from mirrorbench.core.specs import parse_spec
from mirrorbench.papers.targets import AskedAnalysis, Target


def test_set_options_name_the_analysis() -> None:
    asked = msgspec.convert(
        {"kind": "isotropy", "value": "IS", "task": "stsb", "corpus": "wiki"}, AskedAnalysis
    )
    assert asked.options == {"task": "stsb", "corpus": "wiki"}
    assert asked.task_name == "isotropy:task=stsb,corpus=wiki"
    target = Target(parse_spec("bert"), (asked.task_name,), asked.value, analysis=asked)
    assert target.statistic == "score"


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
