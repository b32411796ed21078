"""Results on disk: ``<root>/<encoder-slug>/<task>/seed-<n>.json``, with per-item predictions beside each.

Answers to a test set with secret labels are stored there too, as ``seed-<n>.submission.txt``. A result holds the
checksums of the files beside it, which belong to no other, and the computation that made it.

A file is complete or absent. A result of another identity (other data, recipe, protocol ...) at the same path is
neither returned nor overwritten, but renamed after its own identity. A lease on the path keeps two writers apart.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.errors import DataFormatError, StorageError, UsageError
from mirrorbench.core.identity import COMPUTATION, checksum
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.storage.files import temporary_prefix, writing
from mirrorbench.storage.leases import Leases

_logger = logging.getLogger(__name__)

ANALYSES_FOLDER = "analyses"
"""Folder of the analyses that stand in the papers' tables, within that of the results."""
_APART = re.compile(rf"{ANALYSES_FOLDER}|limit-\d+")
"""Folders that hold no scores of tasks: analyses, and smoke runs by their number of items."""
RESULT_SCHEMA = 1
"""Version of the result file's layout."""

SUBMISSION = ".submission.txt"
"""The suffix of submission files."""
PREDICTIONS = ".npz"
"""The suffix of predictions."""
Predictions = dict[str, NDArray[Any]]
"""The arrays beside a result by name: ids, scores and gold of its items, and more (``_OF_ITEMS``)."""
_BESIDE = (PREDICTIONS, SUBMISSION)
_OF_ITEMS = (
    "ids",
    "scores",
    "gold",
    "splits",
    "predictions",
    "rank",
    "nn_rank",
    "fold",
    "overlap",
    "content",
)
"""Arrays of predictions with one entry an item; the first three are always there."""


ZERO_VECTORS = "zero_vectors"
"""Key in a result's ``encoder`` where all vectors of its task were zero."""


class StoredCell(Protocol):
    """What a result is the result of (``runs.cells.Cell``): its place among the others, and its identity."""

    @property
    def spec(self) -> EncoderSpec:
        """The encoder."""

    @property
    def task(self) -> str:
        """Name of the task."""

    @property
    def protocol(self) -> str:
        """``paper`` or ``released``."""

    @property
    def seed(self) -> int:
        """Seed of the tuning."""

    @property
    def limit(self) -> int:
        """Number of items that are scored; 0 for all."""

    @property
    def name(self) -> str:
        """What the user calls the encoder; may be empty."""

    @property
    def id(self) -> str:
        """Hash of everything that changes the numbers."""

    def to_json(self) -> dict[str, Any]:
        """Return the ``cell`` object of a result file."""


@dataclass(frozen=True)
class Result:
    """The result of a cell; the fields are the keys of the result file."""

    cell: dict[str, Any]
    """Spec, resolved recipe, corpus and its checksum, seed, task, protocol, precision, computation."""
    cell_id: str
    """Hash of everything that changes the numbers."""
    metrics: dict[str, float | None]
    """Values by name, as fractions; null where a metric is undefined."""
    main_metric: str
    """The metric that tables show."""
    main_score: float | None
    """Value of the main metric, in its own unit (0.8203, not 82.03)."""
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
    """Remarks that a reader of the numbers must know."""
    remarks: list[str] = field(default_factory=list)
    """Those of the notes that are on the data, whatever the encoder."""
    cost: dict[str, Any] = field(default_factory=dict)
    """``encoding`` and ``tuning``, shared by all cells of the same model: counts, seconds, speeds. Vectors from the
    cache are not counted; tuning is described as it was when it was done, with ``from_cache`` where that was before."""
    overlap: dict[str, Any] | None = None
    """Number of items with texts of the tuning corpus; null where nothing was tuned or the task names no texts."""
    held_out: dict[str, Any] | None = None
    """Measures of held-out strings along the tuning (``training.trajectory.Trajectory``); null where none were."""
    beside: dict[str, str] = field(default_factory=dict)
    """Checksums of the files beside it, by suffix; empty in older files."""
    schema: int = RESULT_SCHEMA
    """Version of this layout."""

    @property
    def spec(self) -> str:
        """The encoder spec."""
        return str(self.cell["spec"])

    @property
    def name(self) -> str:
        """What the user called the encoder; empty for a row with the papers' name."""
        return str(self.cell.get("name", ""))

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
    def computation(self) -> int | None:
        """The computation that made it; ``None`` where its file does not state it."""
        return self.cell.get("computation")

    @property
    def by_kept_model(self) -> bool:
        """Whether its tuned model was not tuned for it, but came from the cache."""
        return bool(self.cost.get("tuning", {}).get("from_cache"))

    @property
    def limit(self) -> int:
        """Number of items that a smoke run scored at most; 0 for all."""
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
        return json.dumps(
            [self.cell.get("recipe"), content, self.cell["precision"]], sort_keys=True
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object of the result file."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def limited(root: Path, limit: int) -> Path:
    """Return the folder of results on at most ``limit`` items a task; ``root`` itself for 0, all items."""
    return root / f"limit-{limit}" if limit else root


def folders_of_smoke_runs(root: Path) -> list[Path]:
    """Return the folders of results on a part of the items (``limited``) in a folder of results."""
    return [path for path in sorted(root.glob("limit-*")) if _APART.fullmatch(path.name)]


def slug(spec: EncoderSpec, protocol: str = "paper") -> str:
    """Return the directory name of a spec."""
    return _directory_name(str(spec)) + ("" if protocol == "paper" else f"~{protocol}")


def _directory_name(text: str) -> str:
    """Return a name that is readable, valid on every file system, and different for different texts."""
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
        """The store of analyses: results in which the analysis stands in place of the task."""
        return ResultStore(self.root / ANALYSES_FOLDER)

    @cached_property
    def salt(self) -> str:
        """A secret of this folder, made at first use: stored numbers of private texts are computed with it."""
        path = self.root / ".salt"
        with self._alone(path):
            if not path.is_file():
                with writing(path, self.root) as sink:
                    sink.write(secrets.token_hex(16).encode())
            return path.read_text(encoding="ascii")

    def path(self, cell: StoredCell) -> Path:
        """Return the path of the cell's result, stored or not."""
        return (
            limited(self.root, cell.limit)
            / slug(cell.spec, cell.protocol)
            / _directory_name(cell.task)
            / f"seed-{cell.seed}.json"
        )

    def where(self, cell: StoredCell) -> Path:
        """Return the file that was moved aside under the cell's id, if there is one, else ``path(cell)``."""
        path = self.path(cell)
        return aside if (aside := _aside(path, cell.id)).is_file() else path

    def find(self, cell: StoredCell) -> Result | None:
        """Find the result of exactly this cell, also aside; a damaged one causes a warning and counts as missing."""
        path = self.path(cell)
        for candidate in (path, _aside(path, cell.id)):
            if candidate.is_file():
                try:
                    result = read_result(candidate)
                    if result.cell_id == cell.id:
                        _check_beside(candidate, result)
                        return result
                except DataFormatError as error:
                    _logger.warning("%s: computed again.", error.message)
        return None

    def restore(self, cell: StoredCell, result: Result) -> Result:
        """Make the result of this cell the current one, which tables show, and return it.

        The file in its place is moved aside. Computation, corpus and the user's name of the encoder are restated as
        requested, since equal identities mean equal content. A folder that cannot be written stays as it is.
        """
        path = self.path(cell)
        own = {"computation": COMPUTATION, "corpus": cell.to_json()["corpus"]}
        if cell.name or result.name:
            own["name"] = cell.name
        stated = result
        if any(result.cell.get(key) != value for key, value in own.items()):
            stated = replace(result, cell=result.cell | own)
        if (aside := _aside(path, cell.id)).is_file() or stated is not result:
            with suppress(OSError, StorageError), self._alone(path):
                if aside.is_file():
                    if path.is_file():
                        _move_aside(path, cell.id)
                    _move(aside, path)
                if stated is not result:
                    self._write_json(path, stated)
        return stated

    def _alone(self, path: Path) -> AbstractContextManager[object]:
        """Wait for the lease of a path, which has one writer at a time."""
        return self.leases.wait(checksum(path.relative_to(self.root).as_posix())[:32])

    def sweep(self, *cells: StoredCell) -> None:
        """Remove unfinished files of a killed process, and none that another process writes for these or other cells."""
        for path in map(self.path, cells):
            for suffix in (".json", *_BESIDE):
                for left in path.parent.glob(f"{temporary_prefix(path.with_suffix(suffix))}*"):
                    with self._alone(path):
                        left.unlink(missing_ok=True)

    def write(
        self, cell: StoredCell, result: Result, predictions: Predictions, submission: str = ""
    ) -> Result:
        """Store a result after its predictions and its submission, and return it as stored.

        An earlier result of another identity is moved aside, an unreadable file to ``seed-<n>.unreadable.json``.
        """
        np.savez_compressed(packed := io.BytesIO(), allow_pickle=False, **predictions)
        files = {PREDICTIONS: packed.getvalue()}
        if submission:
            files[SUBMISSION] = submission.encode()
        stored = replace(
            result, beside={suffix: _sha256(content) for suffix, content in files.items()}
        )
        path = self.path(cell)
        with self._alone(path):
            self._write(path, stored, files)
        return stored

    def _write(self, path: Path, result: Result, files: dict[str, bytes]) -> None:
        if path.is_file():
            _move_aside(path, result.cell_id)
        for suffix, content in files.items():
            with writing(path.with_suffix(suffix), self.root) as sink:
                sink.write(content)
        self._write_json(path, result)
        for suffix in (
            ".json",
            *_BESIDE,
        ):  # an earlier one of this identity that was moved aside, and damaged there
            _aside(path, result.cell_id).with_suffix(suffix).unlink(missing_ok=True)

    def _write_json(self, path: Path, result: Result) -> None:
        with writing(path, self.root) as sink:
            sink.write(
                json.dumps(result.to_json(), indent=2, ensure_ascii=False, allow_nan=False).encode()
                + b"\n"
            )


def hidden_id(item: str) -> str:
    """Return the stored name of an item where texts of users are left out."""
    return checksum(item)[:16]


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
    for suffix in (*_BESIDE, ".json"):
        if (file := path.with_suffix(suffix)).is_file():
            with suppress(FileNotFoundError):  # moved by another process
                file.replace(target.with_suffix(suffix))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Header(msgspec.Struct):
    schema: Any = None


class _Corpus(msgspec.Struct):
    name: str
    n: int


class _Precision(msgspec.Struct):
    encoding: str


class _Cell(msgspec.Struct):
    """The keys of a result's ``cell`` that every reader uses."""

    spec: str
    task: str
    protocol: str
    seed: int
    precision: _Precision
    recipe: dict[str, Any] | None = None
    corpus: _Corpus | None = None
    computation: int | None = None


def read_result(path: Path) -> Result:
    """Read one result file; one of an unknown schema, or not of the layout, is a ``DataFormatError``."""
    try:
        data = path.read_bytes()
        if (schema := msgspec.json.decode(data, type=_Header).schema) != RESULT_SCHEMA:
            raise DataFormatError(
                f"{path} has schema {schema!r}; this version reads schema {RESULT_SCHEMA}",
                "Move the file away, or use the version of mirrorbench that wrote it.",
            )
        result = msgspec.json.decode(data, type=Result)
        parse_spec(msgspec.convert(result.cell, _Cell).spec)
        if result.metrics.get(result.main_metric, msgspec.UNSET) != result.main_score:
            raise ValueError(f"the main score is not the value of its metric, {result.main_metric}")
    except (
        ValueError,
        RecursionError,
        OSError,
        UsageError,
    ) as error:  # msgspec's errors are ValueErrors
        raise DataFormatError(
            f"{path} is not a result file: {error}", "Move it away and run again."
        ) from error
    return result


def _check_beside(path: Path, result: Result) -> None:
    """Raise a ``DataFormatError`` where a file beside a result is missing, damaged or of another result."""
    for suffix, expected in result.beside.items():
        file = path.with_suffix(suffix)
        if not file.is_file() or _sha256(file.read_bytes()) != expected:
            raise DataFormatError(f"{file} is missing, damaged or belongs to another result")
    if not result.beside:
        read_predictions(path, result)


def read_predictions(path: Path, result: Result) -> Predictions:
    """Read the arrays stored with a result; missing, damaged or foreign ones are a ``DataFormatError``."""
    try:
        data = path.with_suffix(PREDICTIONS).read_bytes()
        if _sha256(data) != result.beside.get(PREDICTIONS, _sha256(data)):
            raise ValueError("they are those of another result, or damaged")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays: dict[str, NDArray[Any]] = {name: archive[name] for name in archive.files}
        check_predictions(arrays)
    except Exception as error:  # numpy and zipfile have a dozen types for damaged archives
        raise DataFormatError(
            f"the predictions of {path} cannot be read: {error}",
            "mirrorbench run, with the same encoders and tasks, computes them again.",
        ) from error
    return arrays


def check_predictions(arrays: Predictions) -> None:
    """Raise an error where an array of items has not one value an item, or scores and gold are no numbers."""
    for name in _OF_ITEMS:
        if (name in arrays or name in _OF_ITEMS[:3]) and arrays[name].shape != (
            len(arrays["ids"]),
        ):
            raise ValueError(f"{name} is not one value an item")
    for name in ("scores", "gold"):
        arrays[name].astype(np.float64)


def read_results(root: Path) -> Iterator[Result]:
    """Read the current results below a folder in the order of their paths, without analyses and those aside."""
    yield from map(read_result, result_files(root))


def result_files(root: Path) -> list[Path]:
    """Return the files that ``read_results`` reads."""
    paths = (
        path
        for path in sorted(root.rglob("seed-*.json"))
        if re.fullmatch(r"seed-\d+\.json", path.name)
    )
    return [path for path in paths if not _APART.fullmatch(path.relative_to(root).parts[0])]
