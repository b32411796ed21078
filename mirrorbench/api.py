"""The functions of ``mirrorbench``: each makes a ``Session`` for one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, Specs, as_names
from mirrorbench.runs.workspace import SettingsFields
from mirrorbench.session import Session

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.models.encoder_systems import TextEncoder
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.outcomes import Reporter
    from mirrorbench.texts.model_card import TunedEncoder


def load(
    spec: str | Path, level: str = "sentence", **settings: Unpack[SettingsFields]
) -> TextEncoder:
    """Load an encoder from its spec: ``Session.load``."""
    return Session(**settings).load(spec, level)


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
    """Tune a language model on texts of your own, as ``mirrorbench tune`` does: ``Session.tune``."""
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


def run(
    encoders: Specs = "tiny",
    tasks: str | Sequence[str] = "quick",
    *,
    seeds: int = 1,
    corpus: str = "",
    protocol: str = "paper",
    baselines: bool = False,
    output: str | Path = "results",
    reporter: Reporter | None = None,
    **settings: Unpack[SettingsFields],
) -> Leaderboard:
    """Train, evaluate and store, as ``mirrorbench run`` does: ``Session.run``, with results in ``output``."""
    session = _session(tasks, output, settings, reporter=reporter)
    return session.run(
        encoders, tasks, seeds=seeds, corpus=corpus, protocol=protocol, baselines=baselines
    )


def evaluate(
    encoder: Any,
    tasks: str | Sequence[str] = "quick",
    *,
    name: str = "",
    output: str | Path | None = None,
    protocol: str = "paper",
    reporter: Reporter | None = None,
    **settings: Unpack[SettingsFields],
) -> Leaderboard:
    """Score one encoder: a spec, what ``load`` returned, a SentenceTransformer, or anything with ``encode(texts)``.

    Args:
        encoder: the encoder; a bare backbone is the papers' ladder, on own data alone its untuned row. An object
            computes on its own device.
        tasks: tasks and suites: a list, or one string with commas.
        name: the name of an object in the table; by default that of its class.
        output: the folder of results; by default none is kept.
        protocol: ``paper`` or ``released``.
        reporter: receives progress.
        **settings: as of ``Session``.

    Returns:
        The scores: ``evaluate(model, "stsb")["stsb"]``.

    Raises:
        UsageError: the request is wrong, or the object has no ``encode``.
    """
    from uuid import uuid4

    from mirrorbench.models.encoder_systems import as_encoder
    from mirrorbench.runs.registry import plugins

    registered = plugins()
    with ExitStack() as stack:
        folder = Path(output or stack.enter_context(TemporaryDirectory()))
        requested: str | Path | EncoderSpec
        if isinstance(encoder, str | Path):
            requested = encoder
        else:
            model: Any = as_encoder(encoder)
            if (
                not model.fingerprint
            ):  # nothing says when its vectors change, so none of them is kept
                settings["cache"] = stack.enter_context(TemporaryDirectory())
                model = _Identified(model.encode, uuid4().hex)
            label = name or getattr(encoder, "typed", "") or getattr(encoder, "name", "")
            label = label or type(encoder).__name__
            requested = EncoderSpec(label)
            registered = registered.extended(
                "register_encoders", label, lambda spec, context: model
            )
        session = _session(tasks, folder, settings, registered, reporter)
        return session.execute(session.plan(requested, tasks, protocol=protocol))


def leaderboard(
    results: str | Path | Sequence[str | Path] = "results",
    tasks: str | Sequence[str] = (),
    *,
    allow_mixed: bool = False,
) -> Leaderboard:
    """Return stored results as a table, as ``mirrorbench leaderboard`` shows them: ``Session.leaderboard``."""
    return Session().leaderboard(results, tasks, allow_mixed=allow_mixed)


def _session(
    tasks: str | Sequence[str],
    output: str | Path,
    settings: SettingsFields,
    plugins: Plugins | None = None,
    reporter: Reporter | None = None,
) -> Session:
    """Make a session that computes in this process unless workers are named."""
    if not as_names(tasks):
        raise UsageError("no task is named", "mirrorbench list tasks")
    settings.setdefault("workers", 1)
    return Session(output, plugins=plugins, reporter=reporter, **settings)


@dataclass(frozen=True)
class _Identified:
    """An encoder without an identity of its own, under one that is used once."""

    encode: Any
    fingerprint: str
