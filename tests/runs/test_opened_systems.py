"""Encoder systems between plan and run."""

from __future__ import annotations

from unittest.mock import Mock

from helpers.toy_plugin import ToyEncoder

from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.opened_systems import OpenedSystems

KEY = (parse_spec("toy"), None, "fp32")


def test_planned_system_is_opened_once_and_then_freed() -> None:
    systems = OpenedSystems()
    opening = Mock(side_effect=ToyEncoder)
    planned = systems.get(KEY, opening)
    assert systems.get(KEY, opening) is planned
    assert systems.take(KEY, opening) is planned
    assert opening.call_count == 1
    assert systems.take(KEY, opening) is not planned
    assert opening.call_count == 2
