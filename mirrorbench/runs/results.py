"""Results on disk: ``<root>/<encoder-slug>/<task>/seed-<n>.json``, with per-item predictions beside each.

Answers to a test set with secret labels are stored there too, as ``seed-<n>.submission.txt``.

A file is complete or absent. A result of another identity (other data, recipe, protocol ...) at the same path is
neither returned nor overwritten, but renamed after its own identity.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.files import TEMPORARY, Leases, again_if_swept, writing
from mirrorbench.core.identity import checksum
from mirrorbench.core.shown import without_texts
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.runs.cells import Cell
from mirrorbench.tasks import Scores

_logger = logging.getLogger(__name__)

ANALYSES_FOLDER = "analyses"
"""Folder of the analyses that stand in the papers' tables, within that of the results."""
_APART = re.compile(rf"{ANALYSES_FOLDER}|limit-\d+")
"""Folders of what are no scores of tasks; those of smoke runs are named after the number of items."""
RESULT_SCHEMA = 1
"""Version of the result file's layout."""

SUBMISSION = ".submission.txt"
"""The suffix of submission files."""


@dataclass(frozen=True)
class Result:
    """The result of a cell; the fields are the keys of the result file."""

    cell: dict[str, Any]
    """Spec, resolved recipe, corpus and its checksum, seed, task, protocol, precision."""
    cell_id: str
    """Hash of everything that changes the numbers."""
    metrics: dict[str, float | None]
    """Values by name, as fractions; null where a metric is undefined."""
    main_metric: str
    """The metric that tables show."""
    main_score: float | None
    """Its value, in the metric's own unit (0.8203, not 82.03)."""
    n_items: int
    """Items scored."""
    coverage: float
    """Share of the data set's items that could be scored."""
    seconds: dict[str, float]
    """Wall-clock time: ``train`` and ``encode`` (shared by all cells of the same model), ``score``."""
    data: dict[str, Any]
    """Version of the task and checksums of its files."""
    encoder: dict[str, Any]
    """Fingerprint, revision, pooling, layers, max_length, dimensions, parameters."""
    environment: dict[str, Any]
    """Versions, device, git commit."""
    created: str
    """UTC, ISO 8601."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the numbers must know."""
    cost: dict[str, Any] = field(default_factory=dict)
    """``encoding`` and ``tuning``, shared by all cells of the same model: counts, seconds, speeds. Vectors from the
    cache are not counted; tuning is described as it was when it was done."""
    overlap: dict[str, Any] | None = None
    """How many items hold texts that were tuned on; null where nothing was tuned or the task names no texts."""
    held_out: dict[str, Any] | None = None
    """Measures of held-out strings along the tuning (``training.progress.Trajectory``); null where none were."""
    schema: int = RESULT_SCHEMA
    """Version of this layout."""

    @property
    def spec(self) -> str:
        """The encoder spec."""
        return str(self.cell["spec"])

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.cell["task"])

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.cell["seed"])

    @property
    def protocol(self) -> str:
        """``paper`` or ``released``."""
        return str(self.cell["protocol"])

    @property
    def limit(self) -> int:
        """How many items of the task were scored at most, in a smoke run; 0: all."""
        return int(self.data.get("limit", 0))

    @property
    def evaluated_in(self) -> str:
        """The numeric precision of the evaluation, which the results of one table must share."""
        return str(self.cell["precision"]["encoding"])

    @property
    def experiment(self) -> str:
        """Recipe, content of the corpus and precision as one text, which the seeds of one score must share."""
        corpus = self.cell.get("corpus") or {}
        content = corpus.get("sha256", corpus.get("name"))
        return json.dumps([self.cell.get("recipe"), content, self.cell["precision"]], sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """The object of the result file."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def limited(root: Path, limit: int) -> Path:
    """The folder of the results of so many items a task; 0: of all, which is the folder itself."""
    return root / f"limit-{limit}" if limit else root


def slug(spec: EncoderSpec, protocol: str = "paper") -> str:
    """The directory name of a spec."""
    return _directory_name(str(spec)) + ("" if protocol == "paper" else f"~{protocol}")


def _directory_name(text: str) -> str:
    """A name that is readable, valid on every file system, and different for different texts."""
    safe = re.sub(r"[^A-Za-z0-9._+=,-]", "_", text)
    # Changed or cut names could collide, and so could capitals where the file system ignores case: a hash of the
    # original tells them apart.
    if safe != text.lower() or len(safe) > 100 or safe.strip(".") != safe:
        safe = f"{safe[-80:].strip('._')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return safe


class ResultStore:
    """A folder of results, created at the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser()
        self.leases = Leases(self.root / ".leases")

    @property
    def analyses(self) -> ResultStore:
        """Where analyses are stored, as results in which the analysis has the place of the task."""
        return ResultStore(self.root / ANALYSES_FOLDER)

    def path(self, cell: Cell) -> Path:
        """The path of the cell's result, stored or not."""
        return (
            limited(self.root, cell.limit)
            / slug(cell.spec, cell.protocol)
            / _directory_name(cell.task)
            / f"seed-{cell.seed}.json"
        )

    def places(self, cell: Cell) -> tuple[Path, Path]:
        """Where the result of exactly this cell may lie: in its place, or moved aside."""
        path = self.path(cell)
        return path, _aside(path, cell.id)

    def find(self, cell: Cell) -> Result | None:
        """The stored result of exactly this cell, also if it was moved aside.

        A file that cannot be read causes a warning and counts as missing.
        """
        for candidate in self.places(cell):
            if candidate.is_file():
                try:
                    result = read_result(candidate)
                except DataFormatError as error:
                    _logger.warning("%s: computed again.", error.message)
                    continue
                if result.cell_id == cell.id:
                    return result
        return None

    def restore(self, cell: Cell) -> None:
        """Move a result of this cell back from aside, since tables show what was requested last.

        The file in its place is moved aside. A folder that cannot be written stays as it is.
        """
        path, aside = self.places(cell)
        if aside.is_file():
            with suppress(OSError):
                if path.is_file():
                    _move_aside(path, cell.id)
                _move(aside, path)

    def sweep(self, *cells: Cell) -> None:
        """Remove unfinished files of a killed process; the caller must hold the lease of the cells' group."""
        for folder in {self.path(cell).parent for cell in cells}:
            for left in folder.glob(f"{TEMPORARY}*"):
                left.unlink(missing_ok=True)

    def write(self, cell: Cell, result: Result, scores: Scores) -> Path:
        """Store a result and its predictions.

        Predictions are written first, so that a result file always has them. An earlier result of another identity is
        moved aside, an unreadable file to ``seed-<n>.unreadable.json``.
        """
        return again_if_swept(lambda: self._write(self.path(cell), result, scores))

    def _write(self, path: Path, result: Result, scores: Scores) -> Path:
        if path.is_file():
            _move_aside(path, result.cell_id)
        with writing(path.with_suffix(".npz"), self.root) as sink:
            arrays = {"ids": np.array(scores.ids), "scores": scores.scores, "gold": scores.gold, **scores.extra}
            if without_texts():  # an id may be a word, a prediction a name
                arrays["ids"] = np.array([checksum(str(one))[:16] for one in scores.ids])
                arrays.pop("predicted", None)
            np.savez_compressed(sink, allow_pickle=False, **arrays)
        if scores.submission:
            with writing(path.with_suffix(SUBMISSION), self.root) as sink:
                sink.write(scores.submission.encode())
        with writing(path, self.root) as sink:
            sink.write(json.dumps(result.to_json(), indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        return path


def _aside(path: Path, cell_id: str) -> Path:
    return path.with_name(f"{path.stem}.{cell_id[:12]}.json")


def _move_aside(path: Path, cell_id: str) -> None:
    """Free the path for the result of the cell ``cell_id``, unless that is what lies there."""
    try:
        target = _aside(path, old) if (old := read_result(path).cell_id) != cell_id else path
    except DataFormatError:
        target = path.with_name(f"{path.stem}.unreadable.json")
    if target != path:
        _move(path, target)


def _move(path: Path, target: Path) -> None:
    """Rename a result and the files beside it, the result itself last, since the others are found by it."""
    for suffix in (".npz", SUBMISSION, ".json"):
        if (file := path.with_suffix(suffix)).is_file():
            with suppress(FileNotFoundError):  # moved by another process
                file.replace(target.with_suffix(suffix))


class _Header(msgspec.Struct):
    schema: Any = None


class _StoredPrecision(msgspec.Struct):
    encoding: str
    tuning: str | None = None


class _StoredCell(msgspec.Struct):
    """The keys of ``Result.cell`` that readers of results need."""

    spec: str
    task: str
    protocol: str
    seed: int
    precision: _StoredPrecision
    corpus: dict[str, Any] | None = None


def read_result(path: Path) -> Result:
    """Read one result file; one that is invalid or of an unknown schema is a ``DataFormatError``."""
    try:
        data = path.read_bytes()
        if (schema := msgspec.json.decode(data, type=_Header).schema) != RESULT_SCHEMA:
            raise DataFormatError(
                f"{path} has schema {schema!r}; this version reads schema {RESULT_SCHEMA}",
                "Move the file away, or use the version of mirrorbench that wrote it.",
            )
        result = msgspec.json.decode(data, type=Result)
        msgspec.convert(result.cell, _StoredCell)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as error:
        raise DataFormatError(f"{path} is not a result file: {error}", "Move it away and run again.") from error
    return result


def read_results(root: Path) -> Iterator[Result]:
    """All current results below a folder in the order of their paths, without analyses and those moved aside."""
    yield from map(read_result, result_files(root))


def result_files(root: Path) -> list[Path]:
    """The files that ``read_results`` reads."""
    found = (path for path in sorted(root.rglob("seed-*.json")) if re.fullmatch(r"seed-\d+\.json", path.name))
    return [path for path in found if not _APART.fullmatch(path.relative_to(root).parts[0])]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated time of cells."""

    seconds: float
    """For one cell after the other, on the machine of the stored results."""
    cells: int
    """How many cells the estimate covers."""
    unknown: int
    """How many cells it does not cover, for want of similar ones."""


def estimate(groups: Iterable[Sequence[Cell]], results: Iterable[Result]) -> Estimate:
    """The time of groups of cells that share their model.

    Cells are similar if they share backbone and method: tuning costs the same per string and epoch, encoding and
    scoring the same per task. Of several results the median counts.
    """
    tuning: dict[tuple[str, str], list[float]] = defaultdict(list)
    tasks: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    done = list(results)
    # Results of one encoding share its seconds. (Dates do not tell: each result is stored once it is scored.)
    encodings = [(result.encoder.get("fingerprint"), result.seconds.get("encode")) for result in done]
    sharing = Counter(encodings)
    for result, encoding in zip(done, encodings, strict=True):
        like = (str(result.encoder.get("weights")), str(result.cell.get("method")))
        encode = result.seconds.get("encode", 0.0) / sharing[encoding]
        tasks[*like, result.task].append(encode + result.seconds.get("score", 0.0))
        recipe, corpus = result.cell.get("recipe"), result.cell.get("corpus")
        if recipe and corpus:
            tuning[like].append(result.seconds.get("train", 0.0) / (recipe["epochs"] * corpus["n"]))
    seconds, cells, unknown = 0.0, 0, 0
    for group in groups:
        model = group[0].model
        like = (model.fingerprint, model.method)
        known = [cell for cell in group if (*like, cell.task) in tasks]
        if model.recipe and model.corpus:
            known = known if like in tuning else []
            seconds += median(tuning[like]) * model.recipe.epochs * model.corpus.n if known else 0.0
        seconds += sum(median(tasks[*like, cell.task]) for cell in known)
        cells += len(known)
        unknown += len(group) - len(known)
    return Estimate(seconds, cells, unknown)


def in_words(seconds: float) -> str:
    """A duration for people: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
