"""Functions that plugins call with the workspace of their hook; each passes on the parts that it needs."""

from __future__ import annotations

from mirrorbench import pipeline
from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.runs import single_encoder
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.plan import Plan
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
    loaded = single_encoder.load_encoder(
        spec,
        level,
        space.plugins,
        space.folders,
        space.compute,
        space.reporter,
    )
    return loaded.encoder, loaded.spec
