"""A grid of a toy and a tuned model, computed by the executor under test and in this process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the plugin, installed or not

from mirrorbench import plugins as plugin_manager  # noqa: E402
from mirrorbench.data.store import DataStore  # noqa: E402
from mirrorbench.execution import Context, execute  # noqa: E402
from mirrorbench.outcomes import Outcome  # noqa: E402
from mirrorbench.plan import Planner, Request  # noqa: E402
from mirrorbench.progress import Silent  # noqa: E402
from mirrorbench.specs import parse_spec  # noqa: E402


class Log(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


class Bench:
    """Runs plans of toys and tuned models under an executor, each in folders of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plugins = plugin_manager.plugins()
        self.plugins.add_file(HERE / "letters.py")
        (folder / "mine.txt").write_text("".join(f"line number {n}\n" for n in range(12)))
        self.log = Log()

    def run(self, name: str, *encoders: str, executor: str = "local", **options: Any) -> Outcome:
        data = DataStore(self.folder / "data", offline=True)
        request = Request(tuple(map(parse_spec, encoders)), ("cats",), (0, 1), str(self.folder / "mine.txt"))
        plan = Planner(request, self.plugins, data, offline=True).plan()
        context = Context(
            data.root, self.folder / name, self.folder / f"{name}-cache", "cpu", tuple(self.plugins.files),
            offline=True, threads=1,
        )  # fmt: skip
        self.log = Log()
        return execute(plan, context, executor, options, self.plugins, self.log)

    def stored(self, name: str) -> dict[str, Any]:
        """All that must not depend on the executor: everything but dates and costs, and the predictions as bytes."""
        found: dict[str, Any] = {}
        for path in sorted((self.folder / name).rglob("seed-*")):
            content = _without_costs(json.loads(path.read_bytes())) if path.suffix == ".json" else path.read_bytes()
            found[str(path.relative_to(self.folder / name))] = content
        return found


def _without_costs(value: Any) -> Any:
    costs = ("created", "seconds", "encoding_cost", "tuning_cost")
    return {k: _without_costs(v) for k, v in value.items() if k not in costs} if isinstance(value, dict) else value


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("LETTERS_FOLDER", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
    plugin_manager.plugins.cache_clear()
    yield Bench(tmp_path)
    plugin_manager.plugins.cache_clear()
