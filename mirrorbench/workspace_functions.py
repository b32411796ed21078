"""Functions that plugins call with the workspace of their hook; each passes on the parts that it needs."""

from __future__ import annotations

from mirrorbench import pipeline
from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.runs import single_encoder
from mirrorbench.runs.outcomes import Outcome
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.requests import Request
from mirrorbench.runs.workspace import Workspace


def make_plan(space: Workspace, *requests: Request, fetch: bool = True) -> Plan:
    """Make one plan, for one table, of all requests.

    A grid or an analysis of a plugin calls it. Cells that several requests have in common are planned once. Planning
    looks up models and data, and computes nothing.

    Args:
        space: the workspace that the plugin received.
        *requests: one or more; each combines its encoders with its tasks.
        fetch: whether missing data are downloaded (default true); a grid passes its argument ``fetch`` on.

    Returns:
        The plan. What lacks its data or its model is in ``failures`` of the plan.

    Raises:
        UsageError: an encoder, a task or a corpus is unknown or wrong, or the results do not fit in one table: they
            have several precisions, or one encoder is asked for on one task with two corpora.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Request, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> untuned = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts",))
        >>> mirror = parse_spec("tiny+mirror:corpus=quick-sentences")
        >>> tuned = Request((mirror,), ("quick-sts",), seeds=(0, 1))
        >>> plan = make_plan(workspace, untuned, tuned)
        >>> [(cell.spec.method, cell.seed) for cell in plan.cells]
        [('base', 0), ('mirror', 0), ('mirror', 1)]
    """
    if not requests:
        raise UsageError("a plan needs a request", "Call make_plan(workspace, Request(...)).")
    return pipeline.make_plan(
        requests,
        space.plugins,
        space.folders,
        space.compute,
        space.reporter,
        fetch,
    )


def execute_plan(space: Workspace, plan: Plan) -> Outcome:
    """Compute the cells of a plan that are not stored yet, with the executor, and store their results.

    An analysis of a plugin calls it; a grid returns its plan instead, which mirrorbench computes. After an
    interruption, the same call goes on with the cells that are left.

    Args:
        space: the workspace that the plugin received; its reporter receives the progress.
        plan: what ``make_plan`` returned for this workspace.

    Returns:
        The results of the finished cells, stored ones included. A cell that fails is in ``failures`` of the outcome,
        and does not stop the others.

    Raises:
        UsageError: an option of the executor is wrong.
        DeviceError: this process can no longer use its GPU; stored results are kept.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import Request, execute_plan, make_plan, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> request = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts",), limit=20)
        >>> plan = make_plan(workspace, request)
        >>> execute_plan(workspace, plan).computed
        1
        >>> execute_plan(workspace, plan).computed  # the result is stored
        0
    """
    return pipeline.execute_plan(plan, space.plugins, space.folders, space.compute, space.reporter)


def load_encoder(
    space: Workspace, spec: EncoderSpec, level: str = "sentence"
) -> tuple[Encoder, EncoderSpec]:
    """Load an encoder onto the device of this process, and return it with the spec of its row.

    An analysis of a plugin calls it for vectors of texts of its own. A tuned encoder comes from the cache, or is tuned
    now with seed 0. Notes on the encoder go to the reporter of the workspace.

    Args:
        space: the workspace that the plugin received.
        spec: the spec (``parse_spec``). A bare backbone is read by mean pooling, at level ``wic`` at the target word; a
            directory of ``mirrorbench tune`` is read as its files say.
        level: ``word``, ``phrase``, ``sentence`` (default) or ``wic``; it picks the recipe and the corpus of a tuned
            encoder.

    Returns:
        The encoder, whose ``encode`` takes a list of ``TextInput`` and returns float32 of shape (texts, dimensions),
        and its spec, with the method that a bare backbone was read by.

    Raises:
        UsageError: the spec or the level is wrong.
        ModelUnavailableError: the files of the model are missing and cannot be downloaded.
        DataUnavailableError: the tuning corpus is missing and cannot be downloaded.

    Example:
        >>> from mirrorbench import Session
        >>> from mirrorbench.plugin import TextInput, load_encoder, parse_spec
        >>> workspace = Session("results", device="cpu").workspace
        >>> encoder, spec = load_encoder(workspace, parse_spec("tiny"))
        >>> str(spec)
        'tiny+base'
        >>> encoder.encode([TextInput("a cat"), TextInput("a dog")]).shape
        (2, 256)
    """
    loaded = single_encoder.load_encoder(
        spec,
        level,
        space.plugins,
        space.folders,
        space.compute,
        space.reporter,
    )
    return loaded.encoder, loaded.spec
