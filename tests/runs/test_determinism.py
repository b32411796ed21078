"""The same cell gives the same number, whatever is computed beside it, before it or by whom."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from harness.comparable import stored
from toys import ToyEncoder, ToyPlugin, toy_tasks

from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.plan import Plan, Request
from mirrorbench.runs.workspace import Workspace

RunInto = Callable[[Plan, str], dict[str, bytes]]
SPECS = (
    "toy",
    "{model}+base",
    "{model}+mirror:batch_size=8,token_mask=0.2",
    "{model}+mirror:batch_size=8,drophead=0.3",
)


@pytest.fixture
def plan(plugins: Plugins, tmp_path: Path, random_model: Callable[[str], Path]) -> Plan:
    plugins.add(ToyPlugin({"toy": ToyEncoder()}, toy_tasks()), "toys")
    (tmp_path / "mine.txt").write_text("".join(f"a longer line number {n} to be masked\n" for n in range(20)))
    specs = tuple(parse_spec(text.format(model=random_model("bert"))) for text in SPECS)
    request = Request(specs, ("cats", "dogs"), (0, 1), str(tmp_path / "mine.txt"))
    return Workspace.create(tmp_path / "data", device="cpu", offline=True, plugins=plugins).plan(request)


@pytest.fixture
def run(plugins: Plugins, tmp_path: Path) -> RunInto:
    def run(plan: Plan, name: str) -> dict[str, bytes]:
        folders = (tmp_path / "data", tmp_path / name, tmp_path / f"{name}-cache")
        workspace = Workspace.create(*folders, "cpu", offline=True, plugins=plugins)
        assert workspace.execute(plan).failures == ()
        return stored(workspace.results.root)

    return run


@pytest.mark.full
def test_the_order_of_the_cells_never_matters(plan: Plan, run: RunInto) -> None:
    expected = run(plan, "straight")
    assert len(expected) == 2 * len(plan.cells) == 2 * 2 * (2 + 2 + 2)
    cells = list(plan.cells)
    random.Random(1).shuffle(cells)
    # Whatever state the generators of this process are in.
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    assert run(replace(plan, cells=tuple(cells)), "shuffled") == expected


@pytest.mark.slow
@pytest.mark.usefixtures("rows_stand_alone")
def test_a_cell_alone_is_the_same_to_the_bit(plan: Plan, run: RunInto) -> None:
    """Although its texts are read in other batches than in the company of other tasks."""
    together, alone = run(plan, "together"), {}
    for number, cell in enumerate(plan.cells):
        if cell.seed == 1:
            alone |= run(replace(plan, cells=(cell,)), f"alone-{number}")
    assert len(alone) == 2 * 2 * 2
    for name, content in alone.items():
        if name.endswith(".json"):
            one, other = json.loads(content), json.loads(together[name])
            assert one["cell_id"] == other["cell_id"]
            assert one["metrics"] == other["metrics"]
        else:
            assert content == together[name]


SCRIPT = """
import sys
from pathlib import Path
import torch
sys.path.insert(0, {tests!r})
from toys import ToyPlugin, toy_tasks
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.plan import Request
from mirrorbench.runs.workspace import Workspace

torch.set_num_threads(1)
plugins = load_plugins(discover=False)
plugins.add(ToyPlugin(tasks=toy_tasks()), "toys")
folder = Path(sys.argv[1])
request = Request((parse_spec(sys.argv[2]),), ("cats",), (4,), str(folder / "mine.txt"))
name, deterministic = sys.argv[4], sys.argv[3] == "deterministic"
folders = (folder / "data", folder / name, folder / (name + "-cache"))
workspace = Workspace.create(*folders, "cpu", offline=True, deterministic=deterministic, plugins=plugins)
print([(r.cell_id, r.metrics) for r in workspace.execute(workspace.plan(request)).results])
"""


@pytest.mark.slow
@pytest.mark.real
def test_the_same_cell_in_fresh_processes_is_the_same_to_the_bit(
    tmp_path: Path, random_model: Callable[[str], Path]
) -> None:
    """Also the weights, and under the option --deterministic too."""
    (tmp_path / "mine.txt").write_text("".join(f"a longer line number {n} to be masked\n" for n in range(20)))
    spec = f"{random_model('bert')}+mirror:batch_size=8,dropout=0.2,span_mask=3"
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]))
    said, weights = [], []
    for name, mode in (("one", "usual"), ("two", "deterministic")):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path), spec, mode, name], capture_output=True, text=True, check=True
        )
        said.append(done.stdout)
        weights.append(next((tmp_path / f"{name}-cache").glob("models/*/model.safetensors")).read_bytes())
    assert "spearman" in said[0]
    assert said[0] == said[1]
    assert weights[0] == weights[1]
    assert stored(tmp_path / "one") == stored(tmp_path / "two")
