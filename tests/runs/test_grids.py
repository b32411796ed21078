"""Grid files: lists, ranges, defaults, errors with file and line, and the papers' own sweeps."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from helpers.suite_marks import few
from helpers.workspace_parts import parts

from mirrorbench.core.errors import ModelUnavailableError, PluginError, UsageError
from mirrorbench.core.hooks import hookimpl
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.papers.table_files import PaperTable, paper_tables
from mirrorbench.runs.grids import GridFile, find_grid, grids_folder, plan_grid, read_grid
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.runs.requests import Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.session import Session
from mirrorbench.workspace_functions import make_plan

Read = Callable[..., GridFile]
PlanOf = Callable[[GridFile], Plan]


@pytest.fixture
def read(registered: Plugins, tmp_path: Path) -> Read:
    def read(text: str, **overrides: Any) -> GridFile:
        path = tmp_path / "grid.yaml"
        path.write_text(text)
        return read_grid(path, registered, **overrides)

    return read


@pytest.fixture
def plan(registered: Plugins, tmp_path: Path) -> PlanOf:
    workspace = Workspace(
        Settings(data_dir=tmp_path / "data", device="cpu", offline=True), registered
    )
    return lambda grid: plan_grid(grid, *parts(workspace))


def specs(grid: GridFile) -> list[list[str]]:
    return [[str(spec) for spec in request.encoders] for _, request in grid.requests]


def test_lists_and_ranges_expand_encoder_specs(read: Read) -> None:
    grid = read("""
tasks: [cats, sts]
encoders:
  - tiny+base
  - encoder: [tiny+mirror, "bert@v1+mirror:lr=1e-5"]
    dropout: [0, {from: 0.1, to: 0.3, step: 0.1}]
    layers: ["-1:", "-4:"]
""")
    swept = [
        f"{head}dropout={dropout},layers={layers}{tail}"
        for head, tail in (("tiny+mirror:", ""), ("bert@v1+mirror:", ",lr=1e-05"))
        for dropout in ("0", "0.1", "0.2", "0.3")
        for layers in ("-1:", "-4:")
    ]
    assert specs(grid) == [["tiny+base", *swept]]
    assert grid.requests[0][1].tasks == (
        "cats",
        "sts12",
        "sts13",
        "sts14",
        "sts15",
        "sts16",
        "stsb",
        "sickr",
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{from: 0, to: 0.6, step: 0.1}", ["0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]),
        ("{from: 1e-5, to: 3e-5, step: 1e-5}", ["1e-05", "2e-05", "3e-05"]),
        ("{from: 1, to: 2, step: 0.4}", ["1.0", "1.4", "1.8"]),
        ("{from: 3, to: 3}", ["3"]),
        ("7", ["7"]),
    ],
)
def test_ranges_include_both_ends_without_rounding_errors(
    read: Read, written: str, expected: list[str]
) -> None:
    key = "lr" if "e-" in written else "span_mask"
    grid = read(f"{{tasks: cats, encoders: tiny+mirror, sweep: {{{key}: {written}}}}}")
    values = [text.partition("=")[2] for text in specs(grid)[0]]
    assert [float(value) for value in values] == [float(value) for value in expected]
    assert (
        values == expected or expected[0] == "0"
    )  # a range of fractions starts with 0.0, the same spec as 0


def test_top_level_keys_are_block_defaults(read: Read) -> None:
    grid = read("""
title: Two blocks
tasks: cats
encoders: tiny+mirror
seeds: 3
corpus: words-en
blocks:
  - sweep: {dropout: [0.1, 0.2]}
  - {encoders: toy, tasks: [dogs], seeds: [5, 2], protocol: [paper, released], precision: bf16, eval_precision: fp16}
""")
    names = ("tasks", "seeds", "corpus", "protocol", "precision", "eval_precision")
    assert (grid.title, [line for line, _ in grid.requests]) == ("Two blocks", [8, 9, 9])
    assert specs(grid) == [["tiny+mirror:dropout=0.1", "tiny+mirror:dropout=0.2"], ["toy"], ["toy"]]
    assert [tuple(getattr(request, name) for name in names) for _, request in grid.requests] == [
        (("cats",), (0, 1, 2), "words-en", "paper", "auto", "auto"),
        *(
            (("dogs",), (5, 2), "words-en", protocol, "bf16", "fp16")
            for protocol in ("paper", "released")
        ),
    ]


def test_baselines_follow_block_or_command_line(read: Read) -> None:
    text = "tasks: cats\nseeds: 2\nblocks:\n  - {encoders: tiny, baselines: true}\n  - encoders: roberta+base\n"
    assert [request.baselines for _, request in read(text).requests] == [True, False]
    assert [request.baselines for _, request in read(text, baselines=True).requests] == [True, True]


def test_command_line_overrides_grid_file(read: Read) -> None:
    given = {
        "tasks": ("cats",),
        "seeds": (0,),
        "corpus": "words-fr",
        "protocol": "paper",
        "precision": "bf16",
        "eval_precision": "fp32",
    }
    text = "{tasks: sts, encoders: [bert@v1+mirror, roberta+mirror, toy, bert], seeds: 3, protocol: released}"
    grid = read(text, backbones=(parse_spec("tiny"), parse_spec("./mine")), **given)
    ((_, request),) = grid.requests
    assert specs(grid) == [["tiny+mirror", "./mine+mirror", "toy", "tiny", "./mine"]]
    assert {name: getattr(request, name) for name in given} == given


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("tasks: cats\nencoders: toy\nsede: 3\n", 3, "unknown key 'sede'; did you mean", ""),
        (
            "tasks: cats\nblocks:\n  - encoders: toy\n    sweeep: {lr: 1}\n",
            4,
            "unknown key 'sweeep'; did you",
            "",
        ),
        (
            "tasks: cats\nencoders: tiny+mirror\nsweep:\n  dropot: [1]\n",
            4,
            "spec key 'dropot'",
            "dropout",
        ),
        (
            "tasks: cats\nencoders: tiny\nsweep: {dropout: 1}\n",
            3,
            "dropout belongs to a tuning",
            r"tiny\+mirror",
        ),
        ("tasks:\n  - cats\n  - cts\nencoders: toy\n", 3, "unknown task or suite 'cts'", "cats"),
        (
            "tasks: cats\nencoders: [5]\n",
            2,
            r"encoders\[1\]: must be of type str or mapping, not int",
            "",
        ),
        ("tasks: cats\nencoders: [{dropout: 1}]\n", 2, "no key 'encoder'", ""),
        (
            "tasks: cats\nencoders: [{encoder: tiny+mirror, lr: 1}]\nsweep: {lr: 1}\n",
            2,
            "'lr' is in this encoder",
            "",
        ),
        ("tasks: cats\nencoders: 'tiny+mirror:lr=1'\nsweep: {lr: 1}\n", 3, "is in .* already", ""),
        ("encoders: toy\n", 1, "names no tasks", "tasks:"),
        ("tasks: cats\nencoders: toy\nseeds: 0\n", 3, "seeds must be", ""),
        (
            "tasks: cats\nencoders: toy\nprotocol: papr\n",
            3,
            "'papr' is not one of .*; did you mean 'paper'",
            "",
        ),
        ("tasks: cats\nencoders: toy\nprecision: [fp32, bf16]\n", 3, "one precision", ""),
        ("tasks: cats\nencoders: tiny+mirror\nsweep: {lr: []}\n", 3, "an empty list", ""),
        ("tasks: []\nencoders: toy\n", 1, "tasks: an empty list", ""),
        (
            "tasks: cats\nencoders: tiny+mirror\nsweep: {corpus: [a, '']}\n",
            3,
            "a value is missing",
            "",
        ),
        (
            "tasks: cats\nencoders: toy\nseeds: 1000000000\n",
            3,
            "1,000,000,000 seeds; at most 1,000",
            "",
        ),
        (
            "tasks: cats\nencoders: tiny+mirror\nsweep: {lr: {from: 1, too: 2}}\n",
            3,
            "unknown key 'too'",
            "",
        ),
        ("tasks: cats\nencoders: tiny+mirror\nsweep: {lr: {from: 2, to: 1}}\n", 3, "goes up", ""),
        (
            "tasks: cats\nencoders: tiny+mirror\nsweep: {epochs: {from: 1, to: 1e9}}\n",
            3,
            "at most 1,000",
            "",
        ),
        (
            "tasks: cats\nencoders: tiny+mirror\nsweep: {epochs: {from: 1, to: 900}, batch_size: {from: 1, to: 900}}\n",
            2,
            "a sweep over 810,000 values of epochs, batch_size; at most 10,000",
            "",
        ),
        ("blocks: []\n", 1, "there are no blocks", ""),
    ],
)
def test_grid_errors_name_file_and_line(
    read: Read, text: str, line: int, message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read(text)
    assert re.findall(r"grid.yaml, line (\d+): ", caught.value.message) == [str(line)]
    assert re.search(hint, caught.value.hint)


def test_planning_errors_name_the_grid_file(read: Read, plan: PlanOf, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"one\ntwo\n{name}\n")
    corpora = f"[{{corpus: {tmp_path}/a.txt}}, {{corpus: {tmp_path}/b.txt}}]"
    for text, message, hint in (
        (
            "blocks:\n  - encoders: toy\n  - encoders: tiny+mirror:corpus=nowhere.txt\n",
            "line 4: .*nowhere.txt",
            "",
        ),
        (
            "encoders: [toy, tiny+mirror]\nbaselines: true\n",
            "line 1: baselines .* bare backbone, and none is",
            "",
        ),
        (
            f"encoders: tiny+mirror\nblocks: {corpora}\n",
            r"ask for tiny\+mirror on cats, seed 0",
            "corpus: NAME",
        ),
    ):
        with pytest.raises(UsageError, match=f"grid.yaml.*{message}") as caught:
            plan(read(f"tasks: cats\n{text}"))
        assert hint in caught.value.hint


def test_block_plans_merge_in_order_sharing_weights(
    read: Read, plan: PlanOf, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("one\ntwo\nthree\n")
    merged = plan(
        read(f"""
corpus: {tmp_path / "mine.txt"}
blocks:
  - {{encoders: [toy, tiny+mirror], tasks: dogs, seeds: 2}}
  - {{encoders: [toy, tiny+mirror], tasks: [cats, dogs], seeds: [1, 2]}}
""")
    )
    assert [(str(cell.spec), cell.task, cell.seed) for cell in merged.cells] == [
        ("toy", "dogs", 0),
        ("tiny+mirror", "dogs", 0),
        ("tiny+mirror", "dogs", 1),
        ("toy", "cats", 0),
        ("tiny+mirror", "cats", 1),
        ("tiny+mirror", "cats", 2),
        ("tiny+mirror", "dogs", 2),
    ]
    groups = [[(cell.task, cell.seed) for cell in cells] for cells in merged.groups.values()]
    assert groups == [
        [("dogs", 0), ("cats", 0)],
        [("dogs", 0)],
        [("dogs", 1), ("cats", 1)],
        [("cats", 2), ("dogs", 2)],
    ]
    assert [str(row) for row in merged.rows] == ["toy", "tiny+mirror"]
    assert len(merged.corpora) == 1


def test_failure_shared_by_blocks_is_reported_once(
    read: Read, plan: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    locate = Mock(side_effect=ModelUnavailableError("not today"))
    monkeypatch.setattr("mirrorbench.models.backbones.locate", locate)
    merged = plan(
        read("tasks: cats\nblocks: [{encoders: bert+base}, {encoders: [toy, bert+base]}]\n")
    )
    assert [(str(f.spec), f.task, f.reason) for f in merged.failures] == [
        ("bert+base", "cats", "not today")
    ]
    assert locate.call_count == 1


CELLS = {
    "mirror-bert-table7": (10, 70),
    "mirror-bert-table8": (3, 3),
    "mirror-bert-table12": (10, 70),
    "mirror-bert-table13": (10, 70),
    "mirror-bert-table21": (3 * 17, 4 * 17),
    "mirror-bert-figure4": (7, 7),
    "mirror-bert-figure5": (18, 18),
    "mirrorwic-table7": (14, 14),
    "mirrorwic-table8": (4, 4),
    "mirrorwic-table9": (14, 14),
    "mirrorwic-table13": (3 * 30, 3 * 30),
    "mirrorwic-figure4": (9, 18),
}
"""Numbers of rows and of failures of the papers' sweeps without models: each row fails once per task."""


@pytest.mark.parametrize("name", few(CELLS, "mirrorwic-table7"))
def test_each_shipped_grid_loads_and_plans(
    name: str, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The papers' encoders are not here, so each cell fails; with tiny, the grids whose data are here have a plan."""
    assert sorted(CELLS) == sorted(path.stem for path in grids_folder().glob("*.yaml"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    workspace = Workspace(Settings(data_dir=tmp_path / "data", device="cpu", offline=True), plugins)
    path = find_grid(name)
    papers = read_grid(path, plugins)
    assert papers.title.startswith(("Mirror-BERT, ", "MirrorWiC, "))
    assert all(request.seeds == (0, 1, 2) for _, request in papers.requests)
    plan = plan_grid(papers, *parts(workspace), fetch=False)
    assert (len(plan.rows), len(plan.failures), plan.cells) == (*CELLS[name], ())
    tiny = read_grid(
        path, plugins, (parse_spec("tiny"),), tasks=("quick",), corpus="random-strings"
    )
    assert {s.backbone for _, request in tiny.requests for s in request.encoders} <= {
        "tiny",
        "sbert",
    }
    planned = plan_grid(tiny, *parts(workspace), fetch=False)
    if "corpus" not in path.read_text():  # those corpora are not here
        assert planned.cells


@pytest.mark.parametrize("figure", ["mirror-bert/figure5", "mirrorwic/figure4"])
def test_corpus_size_figure_matches_its_grid(figure: str, plugins: Plugins) -> None:
    """Footnote 11: 100k words of English, 100k names of the UMLS, 100k sentences of SNLI and MultiNLI."""
    table = paper_tables()[figure]
    assert isinstance(table, PaperTable)
    points = [
        (task, {key: str(value) for key, value in spec.params})
        for _, request in read_grid(find_grid(figure.replace("/", "-")), plugins).requests
        for spec in request.encoders
        for task in request.tasks
    ]
    for column in table.columns:
        assert not column.unavailable
        assert (column.task, dict(column.set)) in points
    sizes = [int(column.set["corpus_size"]) for column in table.columns]
    assert max(sizes) == (50_000 if "wic" in figure else 100_000)
    assert set(sizes) >= {10_000, 20_000}


class Grids:
    """A plugin with two grids: one of an encoder on a suite, and one that returns nothing."""

    @hookimpl
    def register_grids(self, register: Any) -> None:
        register("readings", self.readings)
        register("broken", lambda *args, **given: None)

    def readings(
        self,
        name: str,
        workspace: Workspace,
        backbones: Any,
        limit: int,
        fetch: bool,
        tasks: Any,
        **given: Any,
    ) -> Plan:
        columns = expand_tasks(tasks or ["quick-sts"], workspace.plugins)
        spec, *_ = backbones or (parse_spec("tiny"),)
        encoders = tuple(
            spec.with_method("base").with_params(pooling=pooling) for pooling in ("cls", "mean")
        )
        return make_plan(workspace, Request(encoders, columns, limit=limit), fetch=fetch)


def test_plugin_grid_is_found_by_name(plugins: Plugins, tmp_path: Path) -> None:
    plugins.add(Grids(), "grids of a test")
    session = Session(tmp_path / "results", cache=tmp_path / "cache", plugins=plugins, offline=True)
    plan = session.plan(grid="readings")
    assert [str(cell.spec) for cell in plan.cells] == [
        "tiny+base:pooling=cls",
        "tiny+base:pooling=mean",
    ]
    assert session.plan(tasks="quick", grid="readings", limit=4).tasks == (
        "quick-sts",
        "quick-simlex",
        "quick-wic",
    )
    with pytest.raises(
        PluginError, match="'broken' of grids of a test failed: TypeError: it returned a NoneType"
    ):
        session.plan(grid="broken")
    with pytest.raises(UsageError, match="unknown grid or file 'reading'") as caught:
        session.plan(grid="reading")
    assert "readings" in caught.value.hint
