"""Plugins that are wrong: a clear message, the rest goes on, and nothing of them is stored."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.toy_plugin import CATS, ToyEncoder, ToyPlugin

from mirrorbench.core.errors import PluginError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.plan import Request
from mirrorbench.runs.run import execute_plan, make_plan
from mirrorbench.runs.workspace import Settings, Workspace
from mirrorbench.tasks import PairSimilarity, Scores, Task
from mirrorbench.tasks.kinds import as_task

HOOK = "import mirrorbench\n@mirrorbench.hookimpl\ndef "


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('boom')", "failed: RuntimeError: boom"),
        ("import sys; sys.exit(0)", "failed: SystemExit: 0"),
        ("syntax error", "SyntaxError"),
        ("x = 1", "has no hook"),
        (
            HOOK + "register_task(register): ...",
            r"unknown hook 'register_task'.*\n.*register_tasks",
        ),
        (HOOK + "register_tasks(registr): ...", "'registr'"),
    ],
)
def test_unloadable_plugin_is_reported_and_not_registered(
    plugins: Plugins, tmp_path: Path, source: str, message: str
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(source)
    with pytest.raises(PluginError, match=message):
        plugins.add_file(file)
    assert str(file) not in [row["name"] for row in plugins.listing()]
    file.write_text(HOOK + "register_metrics(register): register('good', max)")
    plugins.add_file(file)  # mended, it can be loaded
    assert "good" in plugins.metrics


@pytest.mark.parametrize(
    ("hook", "body", "message"),
    [
        (
            "register_encoders(register)",
            "register('a', max); raise KeyError('half')",
            "KeyError: 'half'",
        ),
        ("register_encoders(register)", "register('a', max); import sys; sys.exit()", "SystemExit"),
        ("register_encoders()", "...", "takes 0 positional arguments"),
        ("register_encoders(register)", "yield", "returned a generator"),
        ("register_encoders(register)", "register('a')", "missing 1 required positional argument"),
        ("register_encoders(register)", "register('a', max, 5)", "by a int"),
        ("register_encoders(register)", "register('sbert', max)", "registered twice"),
        *(
            (
                "register_encoders(register)",
                f"register({name!r}, max)",
                f"registers the encoder {name!r}",
            )
            for name in (5, "", "a b")
        ),
        *(
            (f"register_{kind}(register)", "register('a', 5)", "is a int, not a function")
            for kind in ("encoders", "renderers", "executors")
        ),
        ("register_methods(register)", "register('a', max)", "the method 'a'"),
        ("register_metrics(register)", "register('a', None)", "is a NoneType"),
        ("register_augmentations(register)", "register('a', max, on='image')", "on='image'"),
        ("register_tasks(register)", "register(5)", "got a int"),
        ("register_tasks(register)", "register('no-such-card.yaml')", "cannot be read"),
        ("register_corpora(register)", "register('no-such-card.yaml')", "cannot be read"),
    ],
)
def test_invalid_plugin_registration_is_reported(
    plugins: Plugins, tmp_path: Path, hook: str, body: str, message: str
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(f"{HOOK}{hook}: {body}")
    plugins.add_file(file)
    with pytest.raises(PluginError, match=message):
        plugins.registry(hook.partition("(")[0])


def test_failing_encoder_fails_only_its_cells(plugins: Plugins, tmp_path: Path) -> None:
    wrong = {
        "raises": ZeroDivisionError("division by zero"),
        "rows": np.zeros((1, 3)),
        "words": "five texts",
    }
    encoders: dict[str, Any] = {
        kind: ToyEncoder(kind, broken=broken) for kind, broken in wrong.items()
    }
    encoders |= {
        "unopened": Mock(side_effect=KeyError("x")),
        "five": lambda: 5,
        "exits": ToyEncoder("exits"),
    }
    encoders["exits"].encode = Mock(side_effect=SystemExit(3))
    plugins.add(
        ToyPlugin({**encoders, "good": ToyEncoder()}, [PairSimilarity("cats", CATS)]), "toys"
    )
    data, results, cache = (tmp_path / name for name in ("data", "results", "cache"))
    workspace = Workspace(Settings(results, data, cache, "cpu"), plugins)
    request = Request(tuple(map(parse_spec, [*encoders, "good"])), ("cats",))
    outcome = execute_plan(workspace, make_plan(workspace, request))
    assert {failure.spec.backbone for failure in outcome.failures} == set(encoders)
    assert [result.spec for result in outcome.results] == ["good"]
    assert {path.relative_to(results).parts[0] for path in results.rglob("seed-*")} == {"good"}
    assert len(list((cache / "embeddings").iterdir())) == 1


@pytest.mark.parametrize(
    ("metrics", "ids", "message"),
    [
        ({"m": float("nan")}, ["1"], "the metric 'm' is nan"),
        ({"m": "high"}, ["1"], "the metric 'm' is 'high'"),
        ({"m": [1.0]}, ["1"], "the metric 'm'"),
        ({"m": 0.5}, ["1"], "1 ids, 2 scores and 2 references"),
        ({}, ["1", "1"], "equal ids"),
        ({}, ["1", "2"], "scores that are no finite numbers"),
    ],
)
def test_invalid_task_scores_are_rejected(metrics: Any, ids: Iterable[str], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        Scores(metrics, list(ids), np.array([0, np.nan]), np.zeros(2))
    plain = Scores({"m": np.float32(0.5)}, [], np.zeros(0), np.zeros(0)).metrics["m"]  # type: ignore[dict-item]
    assert type(plain) is float


class Norm(Task):
    """A task that has all that is required."""

    name, level, main_metric = "norm", "word", "spearman"
    identity = load = inputs = score = lambda *_: {}  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"name": ""}, r"the task '' \(Norm\) has no name"),
        ({"level": None}, r"the task 'norm' \(Norm\) has no level"),
        ({"main_metric": ""}, "has no main_metric"),
        ({"languages": ()}, "has no languages"),
        ({"languages": "en"}, "has languages = 'en', which is no tuple"),
        ({"version": "2"}, "has version = '2', which is no int"),
        ({"level": "letter"}, "'norm' has the level 'letter'"),
    ],
)
def test_invalid_task_attribute_is_named(
    plugins: Plugins, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(PluginError, match=message):
        as_task(type("Norm", (Norm,), attributes)(), plugins.task_kinds)
    assert as_task(Norm(), plugins.task_kinds).title == "norm"
    bare = type(
        "Bare", (Task,), {name: lambda *_: None for name in ("identity", "load", "inputs", "score")}
    )
    with pytest.raises(PluginError, match=r"the task '' \(Bare\) has no name"):
        as_task(bare(), plugins.task_kinds)
