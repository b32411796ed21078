"""What is found out of models before a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from helpers.toy_plugin import ToyEncoder
from helpers.workspace_parts import parts

from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace


@pytest.fixture
def maker(registered: Plugins, tmp_path: Path) -> PlanMaker:
    settings = Settings(
        data_dir=tmp_path / "data", cache=tmp_path / "cache", device="cpu", offline=True
    )
    return PlanMaker(*parts(Workspace(settings, registered)))


def examine(maker: PlanMaker, *encoders: str) -> Any:
    request = Request(tuple(map(parse_spec, encoders)), ("cats", "dogs"))
    tasks = [maker.plugins.tasks[name] for name in request.tasks]
    return maker.examiner.examine(request, tasks), [Purpose.of(task) for task in tasks]


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3)])
def test_a_system_that_fails_is_opened_once(
    maker: PlanMaker, registered: Plugins, error: BaseException
) -> None:
    opening = Mock(side_effect=error)
    registered.encoders.add("failing", opening, "test")
    examined, purposes = examine(maker, "failing", "toy")
    for purpose in purposes:
        with pytest.raises(type(error)):
            examined.model(parse_spec("failing"), purpose, "en")
    assert opening.call_count == 1
    toy = examined.model(parse_spec("toy"), purposes[0], "en")
    assert (toy.untuned.fingerprint, toy.pooling, toy.recipe) == ("letters-1", None, None)


def test_each_row_has_its_readout_and_recipe(maker: PlanMaker) -> None:
    examined, (purpose, _) = examine(maker, "tiny")
    found = {str(row): examined.model(row, purpose, "en") for row in examined.rows}
    assert [model.pooling.mode for model in found.values()] == ["cls", "mean", "mean", "mean"]
    assert [model.recipe is not None for model in found.values()] == [False, False, False, True]
    assert len({model.untuned.fingerprint for model in found.values()}) == 1


def test_missing_directory_fails_only_its_row(maker: PlanMaker) -> None:
    examined, (purpose, _) = examine(maker, "./nothing+base:pooling=mean", "tiny+base:pooling=mean")
    missing, tiny = examined.rows
    with pytest.raises(ModelUnavailableError, match="nothing"):
        examined.model(missing, purpose, "en")
    assert examined.model(tiny, purpose, "en").untuned.path.is_dir()


def test_wrong_row_stops_before_next_model_opens(maker: PlanMaker, registered: Plugins) -> None:
    opening = Mock(side_effect=ToyEncoder)
    registered.encoders.add("next", opening, "test")
    with pytest.raises(UsageError, match="foo"):
        examine(maker, "tiny+mirror:foo=1", "next")
    assert not opening.called
