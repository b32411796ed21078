"""mirrorbench in Python: as short as on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mirrorbench.core.inputs import Array, Encoder, TextInput, check_vectors

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.core.progress import Reporter
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.texts.tune import TunedEncoder


class TextEncoder:
    """An encoder as ``load`` gives it: plain strings, or words in context, to vectors.

    Args:
        encoder: what does the work.
        name: what it was loaded as.
    """

    def __init__(self, encoder: Encoder, name: str = "encoder") -> None:
        self.encoder = encoder
        self.name = name

    def __repr__(self) -> str:
        return f"<mirrorbench encoder {self.name}>"

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors of some text would: with the weights, the pooling or the precision."""
        from mirrorbench.core.identity import digest
        from mirrorbench.models.pooling import Pooling

        pooling = getattr(self.encoder, "pooling", None)
        if not isinstance(pooling, Pooling):
            return self.encoder.fingerprint
        precision = getattr(self.encoder, "precision", "")
        return digest({"encoder": self.encoder.fingerprint, "readout": str(pooling), "precision": precision})

    def encode(self, texts: Sequence[str | TextInput]) -> Array:
        """One vector a text: float32 of shape (len(texts), dimensions).

        Raises:
            UsageError: ``texts`` is a single string.
            EncodingError: the encoder gave anything else.
        """
        from mirrorbench.core.errors import UsageError

        if isinstance(texts, str):
            raise UsageError("encode() takes a list of texts, and got one string", "Write encode([text]).")
        inputs = [TextInput(text) if isinstance(text, str) else text for text in texts]
        return check_vectors(self.encoder.encode(inputs), len(inputs), "the encoder")


def load(
    spec: str | Path, level: str = "sentence", device: str = "auto", data_dir: str | Path | None = None,
    offline: bool = False,
) -> TextEncoder:  # fmt: skip
    """An encoder from its spec.

    A tuned encoder (``roberta+mirror``) is taken from the cache, or tuned now with seed 0, on the corpus that its spec
    names or the level's own.

    Args:
        spec: as on the command line, or a directory; a bare backbone is read out by mean pooling, at level ``wic`` at
            the target word (mean of the top four layers), a directory of ``mirrorbench tune`` as it says itself.
        level: ``word``, ``phrase``, ``sentence`` or ``wic``; picks the recipe of a tuned encoder.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        data_dir: where data files are kept; by default ``MIRRORBENCH_DATA`` or the platform's data directory.
        offline: open no socket.

    Returns:
        An object whose ``encode(texts)`` gives float32 of shape (len(texts), dimensions).

    Raises:
        UsageError: the spec is malformed.
        ModelUnavailableError: the backbone cannot be had.
        DataUnavailableError: the corpus cannot be had.
    """
    from mirrorbench.runs.workspace import Workspace

    parsed = _spec(spec)
    workspace = Workspace.create(data_dir, device=device, offline=offline)
    return TextEncoder(workspace.load(parsed, level), str(parsed))


def tune(
    texts: str | Path | Sequence[str] | Sequence[tuple[str, str]],
    encoder: str | Path = "roberta",
    output: str | Path = "my-encoder",
    *,
    level: str = "sentence",
    columns: Sequence[str] = (),
    seed: int = 0,
    held_out: int | None = None,
    device: str = "auto",
    precision: str = "auto",
    force: bool = False,
    offline: bool = False,
    reporter: Reporter | None = None,
) -> TunedEncoder:
    """Tune a language model on texts of your own and write an encoder directory, as ``mirrorbench tune`` does.

    Args:
        texts: a file, a list of texts, or a list of pairs of texts.
        encoder: a spec; without a method it is tuned by Mirror-BERT, on pairs with the two texts as the two views.
        output: the directory; it opens in ``load``, ``SentenceTransformer`` and ``AutoModel.from_pretrained``.
        level: picks the recipe.
        columns: of a file with columns: one for texts, two for pairs.
        seed: of the tuning, and of what is held out.
        held_out: how many texts to report on instead of tuning on them; by default 500, at most a tenth.
        device: as for ``load``.
        precision: ``auto``, ``fp32`` or ``bf16``.
        force: replace an encoder that is in ``output``.
        offline: open no socket.
        reporter: hears of the progress.

    Returns:
        The directory, the recipe, and the report on the held-out texts.

    Raises:
        UsageError: a malformed spec, or an output that is not empty.
        ModelUnavailableError: the backbone cannot be had.
        TuningError: too few texts.
    """
    from mirrorbench.runs.workspace import Workspace
    from mirrorbench.texts.tune import tune_texts

    workspace = Workspace.create(device=device, precision=precision, offline=offline, reporter=reporter)
    return tune_texts(
        texts, _spec(encoder), Path(output), workspace, level=level, columns=columns, seed=seed, held_out=held_out,
        force=force,
    )  # fmt: skip


def run(
    encoders: str | Path | Sequence[str | Path] = "tiny",
    tasks: str | Sequence[str] = "quick",
    *,
    seeds: int = 1,
    corpus: str = "",
    protocol: str = "paper",
    device: str = "auto",
    precision: str = "auto",
    data_dir: str | Path | None = None,
    output: str | Path = "results",
    offline: bool = False,
    reporter: Reporter | None = None,
) -> Leaderboard:
    """Train, evaluate and store, as ``mirrorbench run`` does; what is stored already is not computed again.

    Args:
        encoders: one spec or several; a bare backbone is the papers' ladder.
        tasks: tasks and suites: a list, or one string with commas.
        seeds: runs of each tuned encoder.
        corpus: to tune on, by default each task's own.
        protocol: ``paper`` or ``released``.
        device: as for ``load``.
        precision: ``auto``, ``fp32`` or ``bf16``.
        data_dir: where data files are kept.
        output: where results go.
        offline: open no socket.
        reporter: hears of the progress.

    Returns:
        The leaderboard; ``results["stsb"]`` is the score of a single encoder, ``to_frame()`` a DataFrame.

    Raises:
        UsageError: the request is wrong. What fails later is among ``failures``, and stops nothing else.
    """
    from mirrorbench.runs.builtin import plugins

    specs = [encoders] if isinstance(encoders, str | Path) else encoders
    return _run(
        tuple(_spec(spec) for spec in specs), tasks, plugins(), Path(output), None, seeds=seeds, corpus=corpus,
        protocol=protocol, device=device, precision=precision, data_dir=data_dir, offline=offline, reporter=reporter,
    )  # fmt: skip


def evaluate(
    encoder: Any,
    tasks: str | Sequence[str] = "quick",
    *,
    name: str = "",
    output: str | Path | None = None,
    protocol: str = "paper",
    device: str = "auto",
    precision: str = "auto",
    data_dir: str | Path | None = None,
    offline: bool = False,
    reporter: Reporter | None = None,
) -> Leaderboard:
    """Scores of one encoder: a spec, what ``load`` gave, a SentenceTransformer, or anything with ``encode(texts)``.

    Args:
        encoder: the encoder; a bare backbone is the papers' ladder, and has a row for each of its rungs.
        tasks: tasks and suites: a list, or one string with commas.
        name: what an object is called in the table; by default its class.
        output: where results go; by default nowhere.
        protocol: ``paper`` or ``released``.
        device: where a spec is computed; an object computes where it is.
        precision: of a spec.
        data_dir: where data files are kept.
        offline: open no socket.
        reporter: hears of the progress.

    Returns:
        The scores: ``evaluate(model, "stsb")["stsb"]``.

    Raises:
        UsageError: the request is wrong, or the object has no ``encode``.
    """
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.models.systems.objects import as_encoder
    from mirrorbench.runs.builtin import plugins

    registered, cache = plugins(), None
    with ExitStack() as stack:
        folder = Path(output or stack.enter_context(TemporaryDirectory()))
        if isinstance(encoder, str | Path):
            spec = _spec(encoder)
        else:
            model: Any = as_encoder(encoder)
            if not model.fingerprint:  # nothing says when its vectors change, so none of them is kept
                cache = Path(stack.enter_context(TemporaryDirectory()))
                model = _Anonymous(model)
            spec = EncoderSpec(name or getattr(encoder, "name", "") or type(encoder).__name__)
            registered = registered.extended("register_encoders", spec.backbone, lambda spec, context: model)
        return _run(
            (spec,), tasks, registered, folder, cache, seeds=1, corpus="", protocol=protocol, device=device,
            precision=precision, data_dir=data_dir, offline=offline, reporter=reporter,
        )  # fmt: skip


def leaderboard(
    results: str | Path | Sequence[str | Path] = "results",
    tasks: str | Sequence[str] = (),
    *,
    allow_mixed: bool = False,
) -> Leaderboard:
    """Stored results as a table, as ``mirrorbench leaderboard`` shows them.

    Args:
        results: a folder of results, or several.
        tasks: columns: tasks and suites; by default all.
        allow_mixed: also results of other data, models or protocols in one table; its notes then say so.

    Raises:
        UsageError: a folder is missing or holds no results, or they cannot be compared.
    """
    from dataclasses import replace

    from mirrorbench.reports.build import build_table
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.reports.selection import Choice, select
    from mirrorbench.runs.builtin import plugins
    from mirrorbench.runs.plan import expand_tasks

    registered = plugins()
    folders = [Path(folder) for folder in ([results] if isinstance(results, str | Path) else results)]
    names = expand_tasks(_names(tasks), registered)
    selection = select(folders, registered, Choice(names, allow_mixed=allow_mixed))
    table = build_table(selection.results, registered, names, selection.rows)
    table = replace(table, notes=(*table.notes, *selection.notes))
    return Leaderboard(table, selection.results, (), registered)


class _Anonymous:
    """An encoder without an identity, under one that is used once."""

    def __init__(self, encoder: Encoder) -> None:
        from uuid import uuid4

        self.encode = encoder.encode
        self.fingerprint = uuid4().hex


def _run(
    specs: tuple[EncoderSpec, ...], tasks: str | Sequence[str], registered: Plugins, output: Path, cache: Path | None,
    *, seeds: int, corpus: str, protocol: str, device: str, precision: str, data_dir: str | Path | None, offline: bool,
    reporter: Reporter | None,
) -> Leaderboard:  # fmt: skip
    """Plan, run, and make the table."""
    from mirrorbench.core.errors import UsageError
    from mirrorbench.reports.build import build_table
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.plan import Request, expand_tasks
    from mirrorbench.runs.workspace import Workspace

    names = expand_tasks(_names(tasks), registered)
    if not names:
        raise UsageError("no task is named", "mirrorbench list tasks")
    workspace = Workspace.create(
        data_dir, output, cache, device, precision, offline, workers=1, plugins=registered, reporter=reporter
    )
    plan = workspace.plan(Request(specs, names, tuple(range(seeds)), corpus, protocol))
    outcome = workspace.execute(plan)
    table = build_table(outcome.results, registered, names, plan.rows, outcome.failures)
    return Leaderboard(table, outcome.results, outcome.failures, registered)


def _spec(encoder: str | Path) -> EncoderSpec:
    """A spec as written, or a directory whose path may hold what means something in a spec."""
    from mirrorbench.core.specs import EncoderSpec, parse_spec

    return EncoderSpec(str(encoder.absolute())) if isinstance(encoder, Path) else parse_spec(encoder)


def _names(names: str | Sequence[str]) -> list[str]:
    return [n.strip() for n in (names.split(",") if isinstance(names, str) else names) if n.strip()]
