"""The functions of ``mirrorbench``: each makes a ``Session`` for one call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

from mirrorbench.core.arguments import as_folders, checks_keywords
from mirrorbench.core.errors import UsageError, as_arguments
from mirrorbench.core.specs import EncoderSpec, Specs, TaskNames, as_names, as_spec, is_path_name
from mirrorbench.models.encoder_systems import NamedEncoder
from mirrorbench.runs.settings import SettingsFields
from mirrorbench.session import Session

if TYPE_CHECKING:
    from mirrorbench.models.encoder_systems import TextEncoder
    from mirrorbench.reports.encoder_comparison import EncoderComparison
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.outcomes import Reporter
    from mirrorbench.texts.model_card import TunedEncoder

_SETTINGS = tuple(SettingsFields.__annotations__)


class FailureWarning(UserWarning):
    """Some cells of a run failed; ``failures`` of what it returned has all of them."""


@checks_keywords(_SETTINGS)
def load(
    spec: str | Path, level: str = "sentence", **settings: Unpack[SettingsFields]
) -> TextEncoder:
    """Load an encoder from its spec: ``Session.load``.

    Example:
        >>> import mirrorbench
        >>> encoder = mirrorbench.load("tiny")
        >>> encoder.encode(["a cat", "the dog"]).shape
        (2, 256)
    """
    return Session(**settings).load(spec, level)


@checks_keywords(_SETTINGS)
def tune(
    texts: str | Path | Sequence[str] | Sequence[tuple[str, str]],
    encoder: str | Path = "roberta",
    output: str | Path = "my-encoder",
    *,
    level: str = "sentence",
    columns: Sequence[str] = (),
    seed: int = 0,
    held_out: int | None = None,
    force: bool = False,
    merge: bool = False,
    reporter: Reporter | None = None,
    **settings: Unpack[SettingsFields],
) -> TunedEncoder:
    """Tune a language model on texts of your own, as ``mirrorbench tune`` does: ``Session.tune``.

    Example:
        >>> import mirrorbench
        >>> texts = [f"The order {n} has not arrived yet." for n in range(40)]
        >>> tuned = mirrorbench.tune(texts, "tiny", "my-encoder", device="cpu")
        >>> mirrorbench.load(tuned.folder).encode(["Where is my order?"]).shape
        (1, 256)
    """
    return Session(reporter=reporter, **settings).tune(
        texts,
        encoder,
        output,
        level=level,
        columns=columns,
        seed=seed,
        held_out=held_out,
        force=force,
        merge=merge,
    )


@checks_keywords(_SETTINGS)
def run(
    encoders: Specs = "tiny",
    tasks: TaskNames = "quick",
    *,
    seeds: int = 1,
    corpus: str = "",
    protocol: str = "paper",
    baselines: bool = False,
    limit: int = 0,
    output: str | Path = "results",
    reporter: Reporter | None = None,
    **settings: Unpack[SettingsFields],
) -> Leaderboard:
    """Train, evaluate and store, as ``mirrorbench run`` does: ``Session.run``, with results in ``output``.

    Cells that fail are named by a ``FailureWarning``; all of them are in ``failures``.

    Example:
        >>> import mirrorbench
        >>> board = mirrorbench.run(["tiny+base:pooling=mean", "tiny+base:pooling=cls"], "quick-sts")
        >>> [row.label for row in board.table.rows]
        ['tiny+base:pooling=mean', 'tiny+base:pooling=cls']
        >>> list(board.to_frame()["task"])
        ['quick-sts', 'quick-sts']
    """
    if isinstance(encoders, list | tuple) and not encoders:
        raise UsageError(f"encoders={encoders!r:.60}", "Pass at least one encoder, such as 'tiny'.")
    session = _session(tasks, output, settings, reporter)
    board = session.run(
        encoders,
        tasks,
        seeds=seeds,
        corpus=corpus,
        protocol=protocol,
        baselines=baselines,
        limit=limit,
    )
    return _with_warning(board)


@checks_keywords(_SETTINGS)
def evaluate(
    encoder: Any,
    tasks: TaskNames = "quick",
    *,
    name: str | Sequence[str] = "",
    output: str | Path | None = None,
    protocol: str = "paper",
    margin: float | None = None,
    reporter: Reporter | None = None,
    **settings: Unpack[SettingsFields],
) -> Leaderboard:
    """Score encoders: a spec, what ``load`` returned, a SentenceTransformer, or anything with ``encode(texts)``.

    Several encoders on own data alone are compared with the first one, as ``mirrorbench evaluate`` does: the verdicts
    are in ``table.verdicts``, and as sentences below the table.

    Args:
        encoder: the encoder, or a list of several; a bare backbone is the papers' ladder, on own data alone its untuned
            row. An object computes on its own device.
        tasks: tasks, suites and paths of own data: a list, a path, or one string with commas.
        name: the name of an object in the table, or those of all encoders; by default that of its class.
        output: the folder of results; by default none is kept.
        protocol: ``paper`` or ``released``.
        margin: on own data: also test whether encoders are equal within it, between 0 and 1.
        reporter: receives progress.
        **settings: as of ``Session``.

    Returns:
        The scores: ``evaluate(model, "stsb")["stsb"]`` of one encoder, ``to_frame()`` of several.

    Raises:
        UsageError: the request is wrong, or the object has no ``encode``.

    Example:
        >>> import mirrorbench
        >>> round(mirrorbench.evaluate("tiny+base:pooling=mean", "quick-sts")["quick-sts"], 2)
        0.7
        >>> class Lengths:
        ...     def encode(self, texts):
        ...         return [[len(text), text.count(" ") + 1] for text in texts]
        >>> board = mirrorbench.evaluate([Lengths(), "tiny+base"], "quick-sts", name=["lengths", "tiny"])
        >>> [row.label for row in board.table.rows]
        ['lengths', 'tiny+base']
    """
    encoders = list(encoder) if isinstance(encoder, list | tuple) else [encoder]
    if not isinstance(name, str | list | tuple):
        raise UsageError(f"name={name!r:.60}", "Pass a text, or a list of texts.")
    names = [name] * len(encoders) if isinstance(name, str) else list(map(str, name))
    if not encoders or len(names) != len(encoders):
        problem = f"{len(encoders)} encoders and {len(names)} names"
        raise UsageError(problem, "Pass at least one encoder, and a name for each or none.")
    with ExitStack() as stack:
        folder = Path(output or stack.enter_context(TemporaryDirectory()))
        requested: list[str | EncoderSpec | NamedEncoder] = []
        for one, label in zip(encoders, names, strict=True):
            if isinstance(one, str | EncoderSpec):
                requested.append(one)
            elif isinstance(one, Path):
                requested.append(as_spec(one))
            else:
                model, volatile = _identified(one)
                if volatile:  # nothing says when its vectors change, so none of them is kept
                    settings["cache"] = stack.enter_context(TemporaryDirectory())
                requested.append(NamedEncoder(_distinct(_label(one, label), requested), model))
        session = _session(tasks, folder, settings, reporter)
        paths = as_names(tasks)
        if len(requested) > 1 and all(map(is_path_name, paths)):
            return _with_warning(session.evaluate(requested, paths, margin=margin))
        plan = session.plan(requested, tasks, protocol=protocol)
        return _with_warning(session.execute(plan))


@checks_keywords()
def compare(
    first: str,
    second: str,
    tasks: TaskNames = (),
    *,
    results: str | Path | Sequence[str | Path] = "results",
    protocol: str = "",
    allow_mixed: bool = False,
    margin: float | None = None,
) -> EncoderComparison:
    """Compare two encoders item by item, from stored results, as ``mirrorbench compare`` does: ``Session.compare``.

    Returns:
        The comparison; it prints as a table, and ``to_frame()`` has its numbers.

    Example:
        >>> import mirrorbench
        >>> board = mirrorbench.run(["tiny+base:pooling=mean", "tiny+base:pooling=cls"], "quick-sts")
        >>> compared = mirrorbench.compare("tiny+base:pooling=mean", "tiny+base:pooling=cls")
        >>> list(compared.to_frame()["verdict"])
        ['A better']
    """
    return Session().compare(
        first,
        second,
        tasks,
        results=as_folders("results", results),
        protocol=protocol,
        allow_mixed=allow_mixed,
        margin=margin,
    )


@checks_keywords()
def leaderboard(
    results: str | Path | Sequence[str | Path] = "results",
    tasks: TaskNames = (),
    *,
    allow_mixed: bool = False,
) -> Leaderboard:
    """Return stored results as a table, as ``mirrorbench leaderboard`` shows them: ``Session.leaderboard``.

    Example:
        >>> import mirrorbench
        >>> board = mirrorbench.run("tiny+base:pooling=mean", "quick-sts", output="scores")
        >>> mirrorbench.leaderboard("scores")["quick-sts"] == board["quick-sts"]
        True
    """
    folders = as_folders("results", results)
    return Session().leaderboard(folders, tasks, allow_mixed=allow_mixed)


def _session(
    tasks: TaskNames,
    output: str | Path,
    settings: SettingsFields,
    reporter: Reporter | None = None,
) -> Session:
    """Make a session that computes in this process unless workers are named."""
    if not as_names(tasks):
        raise UsageError("no task is named", "mirrorbench list tasks")
    settings.setdefault("workers", 1)
    return Session(output, reporter=reporter, **settings)


def _with_warning(board: Leaderboard) -> Leaderboard:
    """Warn of failures, which a notebook would not show otherwise, and let them name arguments."""
    if not board.failures:
        return board
    failures = tuple(
        replace(failure, reason=as_arguments(failure.reason), hint=as_arguments(failure.hint))
        for failure in board.failures
    )
    first = failures[0]
    n_cells = len(failures) + len(board.results)
    text = (
        f"{len(failures)} of {n_cells} cells failed: {first.spec} on {first.task}: {first.reason}"
    )
    if first.hint:
        text += f" {first.hint}"
    other_reasons = {failure.reason for failure in failures} - {first.reason}
    if other_reasons:
        text += f"; {len(other_reasons)} other reasons"
    warnings.warn(f"{text} (all: .failures)", FailureWarning, stacklevel=4)
    return replace(board, failures=failures)


def _identified(encoder: Any) -> tuple[Any, bool]:
    """Return an object as an encoder with an identity, and whether that is made up for this call."""
    from uuid import uuid4

    from mirrorbench.models.encoder_systems import as_encoder

    model: Any = as_encoder(encoder)
    if model.fingerprint:
        return model, False
    return _Identified(model.encode, uuid4().hex), True


def _label(encoder: Any, name: str) -> str:
    label = name or getattr(encoder, "typed", "") or getattr(encoder, "name", "")
    return label if isinstance(label, str) and label else type(encoder).__name__


def _distinct(label: str, requested: Sequence[object]) -> str:
    """Return a label, with a number if another encoder has it."""
    taken = set(map(str, requested))
    number = 1
    distinct = label
    while distinct in taken:
        number += 1
        distinct = f"{label} {number}"
    return distinct


@dataclass(frozen=True)
class _Identified:
    """An encoder without an identity of its own, under one that is used once."""

    encode: Any
    fingerprint: str
