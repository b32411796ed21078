"""The functions of ``mirrorbench``: each makes a ``Session`` for one call.

All of them take the settings of ``mirrorbench.Session`` as further keyword arguments: ``device="cpu"``, ``cache=...``.
"""

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
    """Some cells of a run failed; the returned leaderboard lists them in ``failures``."""


@checks_keywords(_SETTINGS)
def load(
    spec: str | Path, level: str = "sentence", **settings: Unpack[SettingsFields]
) -> TextEncoder:
    """Load an encoder from its spec; a tuned encoder is taken from the cache, or tuned now with seed 0.

    Args:
        spec: as on the command line (``roberta+mirror``), or the directory of a model. A bare backbone is read by mean
            pooling, at level ``wic`` at the target word in the top four layers.
        level: ``word``, ``phrase``, ``sentence`` or ``wic``; it picks the recipe and the corpus of a tuned encoder.
        **settings: those of ``mirrorbench.Session``.

    Returns:
        An object whose ``encode(texts)`` returns float32 vectors of shape (len(texts), dimensions).

    Raises:
        UsageError: the spec is malformed.
        ModelUnavailableError: the files of the backbone are missing and cannot be downloaded.
        DataUnavailableError: the tuning corpus is missing and cannot be downloaded.

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
    """Tune a language model on your own texts and write the encoder as a directory, as ``mirrorbench tune`` does.

    Args:
        texts: a file, a folder of own data (its documents), a list of texts, or a list of pairs of texts.
        encoder: a spec; without a method it is tuned by Mirror-BERT. The two texts of a pair are the two views.
        output: the directory to write; ``mirrorbench.load``, ``SentenceTransformer`` and
            ``AutoModel.from_pretrained`` open it.
        level: ``word``, ``phrase``, ``sentence`` or ``wic``; it picks the recipe.
        columns: names of columns in a file: one for texts, two for pairs.
        seed: seed of the tuning and of the choice of held-out texts.
        held_out: number of texts that are not tuned on but reported on; by default 500, at most a tenth of all.
        force: replace an encoder that is already in ``output``.
        merge: with the key ``lora``, write a whole model; otherwise only the adapter, which names its backbone.
        reporter: receives progress.
        **settings: those of ``mirrorbench.Session``.

    Returns:
        The directory, the recipe, and the report on the held-out texts.

    Raises:
        UsageError: the spec is malformed, or ``output`` is not empty.
        StorageError: ``output`` cannot be written; this is checked before anything is computed.
        ModelUnavailableError: the files of the backbone are missing and cannot be downloaded.
        TuningError: there are too few texts.

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
    """Train and evaluate encoders and store the results, as ``mirrorbench run`` does.

    Results that are already in ``output`` are not computed again. A cell that fails stops no other cell.

    Args:
        encoders: a spec or a list of them, or labels of rows in ``output``. A bare backbone stands for
            the rows of the papers: untuned, and tuned.
        tasks: tasks and suites: a list, or one string with commas.
        seeds: number of seeds of each tuned encoder, from 0 on.
        corpus: name or path of the texts to tune on; by default those of each task.
        protocol: ``paper``, or ``released`` for the choices of the authors' code where it differs.
        baselines: also compute rows that need no labels: transformed and static vectors, other methods.
        limit: use only this many items of each task, as a smoke test; its results lie in ``output/limit-N``.
        output: the folder of results.
        reporter: receives progress.
        **settings: those of ``mirrorbench.Session``. By default one process computes everything.

    Returns:
        The leaderboard. ``run(...)["stsb"]`` is the score of a single encoder, ``to_frame()`` a DataFrame of all
        scores, and ``failures`` names the cells that failed.

    Raises:
        UsageError: the request is wrong, such as an unknown encoder or task.

    Warns:
        FailureWarning: at least one cell failed.

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
        encoder: the encoder, or a list of several. A bare backbone stands for the rows of the papers, untuned and
            tuned; on own data alone, for its untuned row. An object computes on its own device.
        tasks: tasks, suites and paths of own data: a list, a path, or one string with commas.
        name: the name of an object in the table, or a list with the names of all encoders; by default that of its
            class.
        output: the folder of results; by default no results are kept.
        protocol: ``paper``, or ``released`` for the choices of the authors' code where it differs.
        margin: on own data, also test whether encoders are equal within this margin, between 0 and 1.
        reporter: receives progress.
        **settings: those of ``mirrorbench.Session``.

    Returns:
        The leaderboard. ``evaluate(model, "stsb")["stsb"]`` is the score of one encoder, ``to_frame()`` a DataFrame of
        all scores.

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
    names = _name_of_each(encoders, name)
    with ExitStack() as stack:
        # Without ``output``, the results are removed at the end.
        folder = Path(output or stack.enter_context(TemporaryDirectory()))
        # Specs stay as they are; an object becomes an encoder with a label that no other has, and a fingerprint.
        requested: list[str | EncoderSpec | NamedEncoder] = []
        for one_encoder, name_of_object in zip(encoders, names, strict=True):
            if isinstance(one_encoder, str | EncoderSpec):
                requested.append(one_encoder)
            elif isinstance(one_encoder, Path):
                requested.append(as_spec(one_encoder))
            else:
                model = _with_identity(one_encoder)
                # Nothing says when the vectors of an object without a fingerprint change: they are cached for this call
                # only.
                if isinstance(model, _UncachedEncoder):
                    settings["cache"] = stack.enter_context(TemporaryDirectory())
                label = _distinct(_label(one_encoder, name_of_object), requested)
                requested.append(NamedEncoder(label, model))
        session = _session(tasks, folder, settings, reporter)
        task_names = as_names(tasks)
        # Several encoders on own data are compared; a single one, and other tasks, only get scores.
        is_on_own_data = all(map(is_path_name, task_names))
        if is_on_own_data and len(requested) > 1:
            return _with_warning(session.evaluate(requested, task_names, margin=margin))
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
    """Compare two encoders item by item, from stored results, as ``mirrorbench compare`` does.

    Args:
        first: spec or row label of an encoder that has results; a bare backbone stands for its untuned row.
        second: another encoder, or the same one in another folder.
        tasks: tasks and suites; by default all for which both have results.
        results: the folder of both encoders, or a list of two: that of the first and that of the second.
        protocol: use only results of this protocol; by default of any.
        allow_mixed: also compare results that were computed from different data or under different protocols.
        margin: also test whether the two are equal within this margin, in the unit of the score, between 0 and 1.

    Returns:
        The comparison, with difference, confidence interval, p-value and verdict for each task. It prints as a table,
        and ``to_frame()`` has its numbers.

    Raises:
        UsageError: an encoder has no results, the results cannot be compared, or ``margin`` is not between 0 and 1.

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
    """Return stored results as a table, as ``mirrorbench leaderboard`` shows them.

    ``Session.leaderboard`` has further arguments: rows, metrics, intervals, sorting, tables of the papers.

    Args:
        results: a folder of results or several, or a table that ``mirrorbench leaderboard -f json`` wrote.
        tasks: columns: tasks and suites; by default all that have results.
        allow_mixed: show results of different data, models or protocols in one table, whose notes then say so.

    Returns:
        The leaderboard, with a verdict on each step from an untuned encoder to its tuned ones.

    Raises:
        UsageError: a folder is missing or holds no results, or the results are not comparable.

    Example:
        >>> import mirrorbench
        >>> board = mirrorbench.run("tiny+base:pooling=mean", "quick-sts", output="scores")
        >>> mirrorbench.leaderboard("scores")["quick-sts"] == board["quick-sts"]
        True
    """
    folders = as_folders("results", results)
    return Session().leaderboard(folders, tasks, allow_mixed=allow_mixed)


def _name_of_each(encoders: Sequence[Any], name: str | Sequence[str]) -> list[str]:
    """Return the name that a user gave to each encoder: a single name for all, or one for each from a list.

    A name is used for an object only; an empty one stands for the object's own label.

    Raises:
        UsageError: there is no encoder, or not one name for each.
    """
    if not isinstance(name, str | list | tuple):
        raise UsageError(f"name={name!r:.60}", "Pass a text, or a list of texts.")
    if isinstance(name, str):
        names = [name] * len(encoders)
    else:
        names = [str(entry) for entry in name]
    if not encoders or len(names) != len(encoders):
        problem = f"{len(encoders)} encoders and {len(names)} names"
        raise UsageError(problem, "Pass at least one encoder, and a name for each or none.")
    return names


def _session(
    tasks: TaskNames,
    output: str | Path,
    settings: SettingsFields,
    reporter: Reporter | None = None,
) -> Session:
    """Make a session that computes in this process unless the settings have ``workers`` or an executor.

    Raises:
        UsageError: no task is named.
    """
    if not as_names(tasks):
        raise UsageError("no task is named", "mirrorbench list tasks")
    if settings.get("executor", "local") == "local":
        settings.setdefault("workers", 1)
    return Session(output, reporter=reporter, **settings)


def _with_warning(board: Leaderboard) -> Leaderboard:
    """Warn of failed cells, which a notebook would not show otherwise, and return the leaderboard.

    Returned failures name arguments of Python instead of options of the command line.
    """
    if not board.failures:
        return board
    failures = tuple(
        replace(failure, reason=as_arguments(failure.reason), hint=as_arguments(failure.hint))
        for failure in board.failures
    )
    first = failures[0]
    # A cell has either a result or a failure.
    n_cells = len(failures) + len(board.results)
    text = (
        f"{len(failures)} of {n_cells} cells failed: {first.spec} on {first.task}: {first.reason}"
    )
    if first.hint:
        text += f" {first.hint}"
    other_reasons = {failure.reason for failure in failures} - {first.reason}
    if other_reasons:
        noun = "reason" if len(other_reasons) == 1 else "reasons"
        text += f"; {len(other_reasons)} other {noun}"
    # The warning points at the user's call of ``run`` or ``evaluate``. Between that and this function are the function
    # itself and the wrapper of its decorator.
    warnings.warn(f"{text} (all: .failures)", FailureWarning, stacklevel=4)
    return replace(board, failures=failures)


def _with_identity(encoder: Any) -> Any:
    """Return an object as an encoder with a fingerprint, a random one for this call if the object has none."""
    from uuid import uuid4

    from mirrorbench.models.encoder_systems import as_encoder

    model: Any = as_encoder(encoder)
    if model.fingerprint:
        return model
    return _UncachedEncoder(model.encode, uuid4().hex)


def _label(encoder: Any, name: str) -> str:
    """Return ``name``, or else the name that an object states, or the name of its class."""
    # What ``load`` returned has the spec as typed.
    label = name or getattr(encoder, "typed", "") or getattr(encoder, "name", "")
    return label if isinstance(label, str) and label else type(encoder).__name__


def _distinct(label: str, requested: Sequence[object]) -> str:
    """Return a label, with a number if another encoder already has that label."""
    taken = set(map(str, requested))
    number = 1
    distinct = label
    while distinct in taken:
        number += 1
        distinct = f"{label} {number}"
    return distinct


@dataclass(frozen=True)
class _UncachedEncoder:
    """An encoder without a fingerprint of its own, under one that is used for a single call."""

    encode: Any
    fingerprint: str
