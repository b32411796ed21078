"""Classes of earlier versions that take the workspace of a hook, kept until version 0.3."""

from __future__ import annotations

from collections.abc import Mapping

from mirrorbench.data.corpora import Corpus
from mirrorbench.runs import encoder_loading, runner
from mirrorbench.runs.cells import CorpusRef
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Request
from mirrorbench.runs.workspace import Workspace


class Planner:
    """Plans the requests of a grid one at a time; ``runs.plan.merged`` joins the plans."""

    def __init__(self, workspace: Workspace, fetch: bool = True) -> None:
        self._maker = PlanMaker(
            workspace.plugins, workspace.folders, workspace.compute, workspace.reporter, fetch
        )

    def plan(self, request: Request) -> Plan:
        """Plan every cell of a request."""
        return self._maker.plan(request)


class EncoderLoader(encoder_loading.EncoderLoader):
    """Loads the encoders of a plan's models: ``runs.encoder_loading.EncoderLoader``."""

    def __init__(self, workspace: Workspace, systems: OpenedSystems | None = None) -> None:
        super().__init__(
            workspace.plugins,
            workspace.folders,
            workspace.compute,
            workspace.reporter,
            systems,
        )


class Runner(runner.Runner):
    """Computes cells in this process: ``runs.runner.Runner``."""

    def __init__(
        self,
        workspace: Workspace,
        corpora: Mapping[CorpusRef, Corpus],
        systems: OpenedSystems | None = None,
    ) -> None:
        super().__init__(
            workspace.plugins,
            workspace.folders,
            workspace.compute,
            workspace.reporter,
            corpora,
            systems,
        )
