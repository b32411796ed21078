"""The functions of ``mirrorbench``: each makes a ``Session`` for one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, Specs, as_names, as_spec
from mirrorbench.session import Session

if TYPE_CHECKING:
    from mirrorbench.models.systems import TextEncoder
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.outcomes import Reporter
    from mirrorbench.texts.card import TunedEncoder


def load(
    spec: str | Path, level: str = "sentence", device: str = "auto", data_dir: str | Path | None = None,
    offline: bool = False,
) -> TextEncoder:  # fmt: skip
    """An encoder from its spec: ``Session.load``."""
    return Session(device=device, data_dir=data_dir, offline=offline).load(spec, level)


def tune(
    texts: str | Path | Sequence[str] | Sequence[tuple[str, str]], encoder: str | Path = "roberta",
    output: str | Path = "my-encoder", *, level: str = "sentence", columns: Sequence[str] = (), seed: int = 0,
    held_out: int | None = None, device: str = "auto", precision: str = "auto", force: bool = False,
    merge: bool = False, offline: bool = False, reporter: Reporter | None = None,
) -> TunedEncoder:  # fmt: skip
    """Tune a language model on texts of your own, as ``mirrorbench tune`` does: ``Session.tune``."""
    session = Session(device=device, precision=precision, offline=offline, reporter=reporter)
    return session.tune(
        texts, encoder, output, level=level, columns=columns, seed=seed, held_out=held_out, force=force, merge=merge
    )


def run(
    encoders: Specs = "tiny", tasks: str | Sequence[str] = "quick", *, seeds: int = 1, corpus: str = "",
    protocol: str = "paper", baselines: bool = False, device: str = "auto", precision: str = "auto",
    eval_precision: str = "auto", data_dir: str | Path | None = None, output: str | Path = "results",
    offline: bool = False, reporter: Reporter | None = None,
) -> Leaderboard:  # fmt: skip
    """Train, evaluate and store, as ``mirrorbench run`` does: ``Session.run``, with results in ``output``."""
    if not as_names(tasks):
        raise UsageError("no task is named", "mirrorbench list tasks")
    session = Session(
        output, data_dir=data_dir, device=device, precision=precision, eval_precision=eval_precision, offline=offline,
        workers=1, reporter=reporter,
    )  # fmt: skip
    return session.run(encoders, tasks, seeds=seeds, corpus=corpus, protocol=protocol, baselines=baselines)


def evaluate(
    encoder: Any, tasks: str | Sequence[str] = "quick", *, name: str = "", output: str | Path | None = None,
    protocol: str = "paper", device: str = "auto", precision: str = "auto", eval_precision: str = "auto",
    data_dir: str | Path | None = None, offline: bool = False, reporter: Reporter | None = None,
) -> Leaderboard:  # fmt: skip
    """Scores of one encoder: a spec, what ``load`` gave, a SentenceTransformer, or anything with ``encode(texts)``.

    Args:
        encoder: the encoder; a bare backbone is the papers' ladder, on own data alone its untuned row.
        tasks: tasks and suites: a list, or one string with commas.
        name: what an object is called in the table; by default its class.
        output: where results go; by default nowhere.
        protocol: ``paper`` or ``released``.
        device: where a spec is computed; an object computes where it is.
        precision: of the tuning of a spec.
        eval_precision: of a spec; by default fp32.
        data_dir: where data files are kept.
        offline: open no socket.
        reporter: receives progress.

    Returns:
        The scores: ``evaluate(model, "stsb")["stsb"]``.

    Raises:
        UsageError: the request is wrong, or the object has no ``encode``.
    """
    from uuid import uuid4

    from mirrorbench.models.systems import as_encoder
    from mirrorbench.runs.builtin import plugins

    registered, cache = plugins(), None
    if not as_names(tasks):
        raise UsageError("no task is named", "mirrorbench list tasks")
    with ExitStack() as stack:
        folder = Path(output or stack.enter_context(TemporaryDirectory()))
        if isinstance(encoder, str | Path):
            spec = as_spec(encoder)
        else:
            model: Any = as_encoder(encoder)
            if not model.fingerprint:  # nothing says when its vectors change, so none of them is kept
                cache = stack.enter_context(TemporaryDirectory())
                model = _Identified(model.encode, uuid4().hex)
            spec = EncoderSpec(name or getattr(encoder, "name", "") or type(encoder).__name__)
            registered = registered.extended("register_encoders", spec.backbone, lambda spec, context: model)
        session = Session(
            folder, data_dir=data_dir, cache=cache, device=device, precision=precision, eval_precision=eval_precision,
            offline=offline, workers=1, plugins=registered, reporter=reporter,
        )  # fmt: skip
        return session.execute(session.plan((spec,), tasks, protocol=protocol))


def leaderboard(
    results: str | Path | Sequence[str | Path] = "results", tasks: str | Sequence[str] = (), *,
    allow_mixed: bool = False,
) -> Leaderboard:  # fmt: skip
    """Stored results as a table, as ``mirrorbench leaderboard`` shows them: ``Session.leaderboard``."""
    return Session().leaderboard(results, tasks, allow_mixed=allow_mixed)


@dataclass(frozen=True)
class _Identified:
    """An encoder without an identity of its own, under one that is used once."""

    encode: Any
    fingerprint: str
