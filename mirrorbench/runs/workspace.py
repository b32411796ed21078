"""The workspace: plugins, folders, device and executor of a run. Builds plans and executes them."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import LEVELS, EncoderSpec, Value, parse_params
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.cells import CellGroup, CellOutcome, Failure, Outcome, Reporter
from mirrorbench.runs.results import Result, ResultStore

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.inputs import Encoder
    from mirrorbench.data.corpora import Corpus
    from mirrorbench.runs.cells import Cell, CorpusRef
    from mirrorbench.runs.loading import EncoderLoader
    from mirrorbench.runs.plan import Plan, Request
    from mirrorbench.runs.runner import Runner

IN_PACKAGES = {"ray": "mirrorbench-ray", "slurm": "mirrorbench-slurm"}
"""Executors that are installed by themselves."""
_ENVIRONMENT = (
    "MIRRORBENCH_DISABLE_PLUGINS", "MIRRORBENCH_STRICT_PLUGINS", "HF_HUB_OFFLINE", "HF_HOME", "HF_HUB_CACHE",
    "HF_ENDPOINT",
)  # fmt: skip
"""Variables that decide which plugins and models a worker finds."""


@dataclass
class Workspace:
    """What planning and running need; ``create`` builds it from plain arguments."""

    plugins: Plugins
    data: DataStore
    results: ResultStore
    cache: Cache
    device: str = "auto"
    """As requested, like the precisions; ``torch_device`` and ``numeric_precision`` are what they resolve to."""
    precision: str = "auto"
    """Of tuning."""
    eval_precision: str = "auto"
    offline: bool = False
    deterministic: bool = False
    """Whether torch may use deterministic algorithms only."""
    executor: str = "local"
    options: dict[str, Value] = field(default_factory=dict)
    """Options of the executor."""
    reporter: Reporter = field(default_factory=Reporter)
    threads: int = 0
    """With which tuning computes on the CPU; 0: torch's own number."""
    share: float = 1.0
    """Of the GPU's memory, for this process."""
    systems: dict[tuple[EncoderSpec, Path | None, str], Encoder] = field(default_factory=dict)
    """Encoder systems that were planned and not loaded yet: planning needs their fingerprints."""

    @classmethod
    def create(
        cls, data_dir: str | Path | None = None, output: str | Path = "results", cache: str | Path | None = None,
        device: str = "auto", precision: str = "auto", eval_precision: str = "auto", offline: bool = False,
        deterministic: bool = False, executor: str = "local", workers: int | None = None, address: str = "",
        plugins: Plugins | None = None, reporter: Reporter | None = None,
    ) -> Workspace:  # fmt: skip
        """A workspace from user input; device and precisions are checked at first use.

        ``None`` means the default of the environment; ``executor`` is ``NAME[:KEY=VALUE,...]``, and ``workers`` and
        ``address`` are options of it.
        """
        from mirrorbench.core.devices import let_threads_sleep
        from mirrorbench.runs.builtin import plugins as of_the_process

        let_threads_sleep()
        registered = plugins or of_the_process()
        name, _, tail = executor.partition(":")
        if name in IN_PACKAGES and name not in registered.executors:
            hint = "pip install {0}, or from a clone: pip install ./plugins/{0}".format(IN_PACKAGES[name])
            raise UsageError(f"the executor {name} is in a package that is not installed", hint)
        registered.executors.entry(name)
        options = dict(parse_params(tail, executor))
        options |= {} if workers is None else {"workers": workers}
        options |= {"address": address} if address else {}
        return cls(
            registered, DataStore(Path(data_dir) if data_dir else None, offline), ResultStore(Path(output)),
            Cache(Path(cache) if cache else None), device, precision, eval_precision, offline, deterministic, name,
            options, reporter or Reporter(),
        )  # fmt: skip

    @cached_property
    def torch_device(self) -> torch.device:
        """The device of this process. Where cells are computed elsewhere, ``device`` is not about this machine."""
        from mirrorbench.core.devices import pick_device, use_deterministic_algorithms

        if self.deterministic:
            use_deterministic_algorithms()
        elsewhere = self.plugins.executors[self.executor].device and self.device != "cpu"
        return pick_device("auto" if elsewhere else self.device)

    @cached_property
    def planned_device(self) -> str:
        """The device that computes the cells, here or elsewhere."""
        elsewhere = self.plugins.executors[self.executor].device
        return elsewhere(self.device, self.options) if elsewhere else str(self.torch_device)

    @cached_property
    def numeric_precision(self) -> dict[str, str]:
        """``fp32``, ``bf16`` or ``fp16`` of ``tuning`` and of ``encoding``, which is fp32 unless said otherwise."""
        import torch

        from mirrorbench.core.devices import pick_precision, tuning_precision

        here = self.plugins.executors[self.executor].device is None
        tuning = pick_precision(self.precision, tuning_precision(torch.device(self.planned_device), here))
        return {"tuning": tuning, "encoding": pick_precision(self.eval_precision, "fp32")}

    @cached_property
    def loader(self) -> EncoderLoader:
        """Loads encoders onto the device."""
        from mirrorbench.runs.loading import EncoderLoader

        return EncoderLoader(self)

    def runner(self, corpora: Mapping[CorpusRef, Corpus]) -> Runner:
        """Computes cells in this process."""
        from mirrorbench.runs.runner import Runner

        return Runner(self, corpora)

    def context(self) -> WorkerContext:
        """What a worker needs to create an equal workspace."""
        import torch

        return WorkerContext(
            self.data.root.absolute(), self.results.root.absolute(), self.cache.root.absolute(), self.planned_device,
            tuple(self.plugins.files), self.offline, self.deterministic, torch.get_num_threads(),
        )  # fmt: skip

    def plan(self, *requests: Request, fetch: bool = True) -> Plan:
        """One plan for all requests; without ``fetch`` missing data are not downloaded."""
        from mirrorbench.runs.plan import Planner, merged

        planner = Planner(self, fetch)
        return merged([planner.plan(request) for request in requests])

    def load(self, spec: EncoderSpec, level: str = "sentence") -> tuple[Encoder, EncoderSpec]:
        """An encoder and the spec of its row; a tuned one comes from the cache, or is tuned with seed 0.

        A bare backbone is read by mean pooling, at level ``wic`` at the target word, a directory of ``mirrorbench
        tune`` as its files say.
        """
        from mirrorbench.runs.plan import Planner, Request

        if level not in LEVELS:
            raise unknown_name("level", level, list(LEVELS))
        planner = Planner(self)
        ladder = planner.ladder(spec, level)  # also checks the keys
        spec = ladder[0] if len(ladder) == 1 or level == "wic" else spec.with_method("base")
        request = Request((spec,), ())
        model, pooling = planner.models(request, spec, level)[0]
        precision = planner.precision(request, "encoding")
        return self.loader.load_stored(model, pooling, precision, planner.corpora)[0], spec

    def execute(self, plan: Plan) -> Outcome:
        """Compute the cells of a plan that are not stored yet, with the executor."""
        done: dict[Cell, Result] = {}  # not by id: specs with the same meaning have rows of their own
        failures, computed = list(plan.failures), 0
        self.reporter.begin(len(plan.cells))
        for failure in failures:
            self.reporter.failure(failure)
        with closing(self._outcomes(plan)) as outcomes:  # ends the executor's workers now, not at garbage collection
            for item in outcomes:
                if isinstance(item.outcome, Failure):
                    failures.append(item.outcome)
                    self.reporter.failure(item.outcome)
                else:
                    done[item.cell] = item.outcome
                    computed += item.computed
                    self.reporter.cell(item.cell, item.outcome.main_score, cached=not item.computed)
        return Outcome(tuple(done[cell] for cell in plan.cells if cell in done), tuple(failures), computed)

    def _outcomes(self, plan: Plan) -> Generator[CellOutcome, None, None]:
        """Those of stored cells, then those that the executor yields."""
        from mirrorbench.runs.executors import Job

        groups: list[CellGroup] = []
        for cells in plan.groups.values():
            pending = []
            for cell in cells:
                if stored := self.results.find(cell):
                    yield CellOutcome(cell, self.results.restore(cell, stored), computed=False)
                else:
                    pending.append(cell)
            if pending:
                groups.append(tuple(pending))
        if groups:
            wanted = {ref for cells in groups for cell in cells for ref in cell.model.corpora}
            corpora = {ref: corpus for ref, corpus in plan.corpora.items() if ref in wanted}
            job = Job(tuple(groups), corpora, self.context(), self.options, self.reporter, self)
            yield from self.plugins.executors[self.executor].execute(job)


@dataclass(frozen=True)
class WorkerContext:
    """What a worker needs to compute cells: small, picklable, the same for all groups of a run."""

    data: Path
    results: Path
    cache: Path
    device: str
    plugin_files: tuple[Path, ...] = ()
    offline: bool = False
    deterministic: bool = False
    threads: int = 0
    """With which tuning computes on the CPU: in all workers as in one process, since its sums depend on it."""
    share: float = 1.0
    """Of a GPU's memory, for each worker."""
    environment: tuple[tuple[str, str], ...] = field(
        default_factory=lambda: tuple((name, os.environ[name]) for name in _ENVIRONMENT if name in os.environ)
    )

    def workspace(self) -> Workspace:
        """A workspace in this process, with the plugin files loaded."""
        os.environ.update(self.environment)
        import torch

        from mirrorbench.runs.builtin import plugins

        registered = plugins()
        for file in self.plugin_files:
            if file not in registered.files:
                registered.add_file(file)
        # For tokenisers, which start their threads at first use; for torch OMP_NUM_THREADS was read already.
        os.environ.setdefault("RAYON_NUM_THREADS", str(torch.get_num_threads()))
        made = Workspace.create(
            self.data, self.results, self.cache, self.device, offline=self.offline, deterministic=self.deterministic,
            plugins=registered,
        )  # fmt: skip
        made.threads, made.share = self.threads if self.device == "cpu" else 0, self.share
        return made
