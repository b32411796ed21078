"""Functions and classes that plugins call with the workspace of their hook; each passes on the parts that it needs."""

from __future__ import annotations

from collections.abc import Mapping

from mirrorbench import pipeline
from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Corpus
from mirrorbench.runs import encoder_loading, runner, single_encoder
from mirrorbench.runs.cells import CorpusRef
from mirrorbench.runs.opened_systems import OpenedSystems
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Request
from mirrorbench.runs.workspace import Workspace


def make_plan(space: Workspace, *requests: Request, fetch: bool = True) -> Plan:
    """Make one plan for all requests; without ``fetch`` missing data are not downloaded."""
    return pipeline.make_plan(
        requests,
        space.plugins,
        space.folders,
        space.compute,
        space.reporter,
        fetch,
    )


def execute_plan(space: Workspace, plan: Plan) -> Outcome:
    """Compute the cells of a plan that are not stored yet, with the executor."""
    return pipeline.execute_plan(plan, space.plugins, space.folders, space.compute, space.reporter)


def load_encoder(
    space: Workspace, spec: EncoderSpec, level: str = "sentence"
) -> tuple[Encoder, EncoderSpec]:
    """Load an encoder, and return it with the spec of its row: ``runs.single_encoder.load_encoder``."""
    return single_encoder.load_encoder(
        spec,
        level,
        space.plugins,
        space.folders,
        space.compute,
        space.reporter,
    )


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
