"""Results on disk: ``<root>/<encoder>/<task>/seed-<n>.json``, with per-item predictions beside each.

Answers to a test set with secret labels are stored there too, as ``seed-<n>.submission.txt``. A result holds the
checksums of the files beside it, which belong to this result alone, and the version of its computation.

A file is complete or absent. A result of another identity (other data, recipe, protocol ...) at the same path is
neither returned nor overwritten, but moved aside: renamed after its own identity. A lease on the path allows one writer
at a time.
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
from mirrorbench.core.identity import COMPUTATION, checksum, folder_name
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.storage.files import temporary_prefix, writing
from mirrorbench.storage.leases import Leases

_logger = logging.getLogger(__name__)

ANALYSES_FOLDER = "analyses"
"""Folder, in that of the results, of the analyses in the papers' tables."""
_FOLDERS_APART = re.compile(rf"{ANALYSES_FOLDER}|limit-\d+")
"""Names of folders whose results are not scores of whole tasks: analyses, and smoke runs on a number of items."""
RESULT_SCHEMA = 1
"""Version of the result file's layout."""

SUBMISSION = ".submission.txt"
"""The suffix of submission files."""
PREDICTIONS = ".npz"
"""The suffix of predictions."""
Predictions = dict[str, NDArray[Any]]
"""The arrays beside a result by name: ids, scores and gold of its items, and others."""
_SUFFIXES_BESIDE = (PREDICTIONS, SUBMISSION)
"""Suffixes of the files beside a result."""
_REQUIRED_ARRAYS = ("ids", "scores", "gold")
"""Arrays of all predictions, with one entry for each item."""
_OPTIONAL_ARRAYS = (
    "splits",
    "predictions",
    "rank",
    "nn_rank",
    "fold",
    "overlap",
    "content",
)
"""Arrays of some predictions, with one entry for each item."""


ZERO_VECTORS = "zero_vectors"
"""Key in a result's ``encoder`` if all vectors of its task were zero."""


class StoredCell(Protocol):
    """The cell of a result (``runs.cells.Cell``): what determines its path, and its identity."""

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
    """The result of a cell: one encoder on one task with one seed. The fields are the keys of the result file.

    mirrorbench makes and stores it; plugins and scripts read it. It comes from ``read_results``, from the attribute
    ``results`` of what ``mirrorbench.run`` returns, and from an executor's ``compute``. The properties ``spec``,
    ``task``, ``seed``, ``protocol`` and ``name`` say what was computed, ``main_score`` and ``metrics`` hold the scores
    as fractions (0.82, not 82), ``None`` where one is undefined.

    Attributes:
        cell: ``spec``, ``method``, ``recipe`` (resolved; null if nothing was tuned), ``corpus`` (``name``, ``sha256``,
            ``n``; or null), ``seed``, ``task``, ``level``, ``protocol``, ``precision`` (``tuning``, ``encoding``),
            ``computation``, ``name``.
        cell_id: hash of everything that changes the numbers.
        metrics: values by name, as fractions; null where a metric is undefined.
        main_metric: the metric that tables show.
        main_score: value of the main metric, in its own unit (0.8203, not 82.03).
        n_items: items scored.
        coverage: share of the data set's items that could be scored.
        seconds: wall-clock time: ``train`` and ``encode`` (shared by all cells of the same model), ``score``.
        data: version of the task and checksums of its files.
        encoder: fingerprint, revision, pooling, layers, max_length, dimensions, parameters.
        environment: versions, device, git commit.
        created: UTC, ISO 8601.
        notes: remarks that a reader of the numbers must know.
        remarks: the notes about the data, which are the same for any encoder.
        cost: ``encoding`` and ``tuning``, shared by all cells of the same model: counts, seconds, speeds. Vectors from
            the cache are not counted. The values of a tuning were measured when it ran; ``from_cache`` marks an earlier
            tuning.
        overlap: number of items with texts of the tuning corpus; null if nothing was tuned or the task names no texts.
        held_out: measures of held-out strings during tuning (``training.trajectory.Trajectory``); null if there were
            none.
        beside: checksums of the files beside the result, by suffix; empty in older files.
        schema: version of this layout.

    Example:
        >>> import mirrorbench
        >>> (result,) = mirrorbench.run("tiny+base", "quick-sts", device="cpu").results
        >>> result.spec, result.task, result.seed, result.main_metric, result.n_items
        ('tiny+base', 'quick-sts', 0, 'spearman', 250)
        >>> sorted(result.metrics), result.encoder["dimensions"]
        (['pearson', 'spearman'], 256)
    """

    cell: dict[str, Any]
    cell_id: str
    metrics: dict[str, float | None]
    main_metric: str
    main_score: float | None
    n_items: int
    coverage: float
    seconds: dict[str, float]
    data: dict[str, Any]
    encoder: dict[str, Any]
    environment: dict[str, Any]
    created: str
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    cost: dict[str, Any] = field(default_factory=dict)
    overlap: dict[str, Any] | None = None
    held_out: dict[str, Any] | None = None
    beside: dict[str, str] = field(default_factory=dict)
    schema: int = RESULT_SCHEMA

    @property
    def spec(self) -> str:
        """The encoder spec."""
        return str(self.cell["spec"])

    @property
    def name(self) -> str:
        """The user's name of the encoder; empty for a row with the papers' name."""
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
        """Version of the computation; ``None`` if the file does not state it."""
        return self.cell.get("computation")

    @property
    def is_current(self) -> bool:
        """Whether this version of mirrorbench would compute the same numbers."""
        return self.computation == COMPUTATION

    @property
    def by_kept_model(self) -> bool:
        """Whether the tuned model came from the cache instead of being tuned for this result."""
        return bool(self.cost.get("tuning", {}).get("from_cache"))

    @property
    def limit(self) -> int:
        """Largest number of items that a smoke run scores; 0 for all items."""
        return int(self.data.get("limit", 0))

    @property
    def evaluated_in(self) -> str:
        """The numeric precision of the evaluation, which must be the same for all results of a table."""
        return str(self.cell["precision"]["encoding"])

    @property
    def experiment(self) -> str:
        """Recipe, content of the corpus and precision as one text, which must be the same for all seeds of a score."""
        corpus = self.cell.get("corpus") or {}
        content = corpus.get("sha256", corpus.get("name"))
        parts = [self.cell.get("recipe"), content, self.cell["precision"]]
        return json.dumps(parts, sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """Return the object of the result file."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def limited(root: Path, limit: int) -> Path:
    """Return the folder of results on at most ``limit`` items of each task; ``root`` itself for 0, all items."""
    return root / f"limit-{limit}" if limit else root


def folders_of_smoke_runs(root: Path) -> list[Path]:
    """Return the folders of results of smoke runs (``limited``) in a folder of results."""
    return [path for path in sorted(root.glob("limit-*")) if _FOLDERS_APART.fullmatch(path.name)]


class ResultStore:
    """A folder of results, created at the first write."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser()
        self.leases = Leases(self.root / ".leases")

    @property
    def analyses(self) -> ResultStore:
        """The store of analyses: results whose ``task`` is an analysis."""
        return ResultStore(self.root / ANALYSES_FOLDER)

    @cached_property
    def salt(self) -> str:
        """A secret of this folder, made at first use, with which stored digests of private texts are computed."""
        path = self.root / ".salt"
        with self._lease(path):
            if not path.is_file():
                with writing(path, self.root) as sink:
                    sink.write(secrets.token_hex(16).encode())
            return path.read_text(encoding="ascii")

    def path(self, cell: StoredCell) -> Path:
        """Return the path of the cell's result, stored or not."""
        return (
            limited(self.root, cell.limit)
            / cell.spec.folder_name(cell.protocol)
            / folder_name(cell.task)
            / f"seed-{cell.seed}.json"
        )

    def stored_path(self, cell: StoredCell) -> Path:
        """Return the path of the cell's result if it was moved aside; otherwise ``path(cell)``."""
        path = self.path(cell)
        aside = _path_aside(path, cell.id)
        return aside if aside.is_file() else path

    def find(self, cell: StoredCell) -> Result | None:
        """Return the result with the identity of a cell, which may have been moved aside; ``None`` if there is none.

        A damaged result causes a warning and counts as missing.
        """
        path = self.path(cell)
        for candidate in (path, _path_aside(path, cell.id)):
            if not candidate.is_file():
                continue
            try:
                result = read_result(candidate)
                if result.cell_id == cell.id:
                    _check_files_beside(candidate, result)
                    return result
            except DataFormatError as error:
                _logger.warning("%s: computed again.", error.message)
        return None

    def restore(self, cell: StoredCell, result: Result) -> Result:
        """Make the result of this cell the current one, which tables show, and return it.

        Another result in its place is moved aside. The computation is updated to the current one, corpus and the user's
        name of the encoder to those of ``cell``, since cells of one id have the same content. If the folder cannot be
        written, only the returned result is updated.
        """
        path = self.path(cell)
        # Where the result of this cell is if it was moved aside itself.
        own_path_aside = _path_aside(path, cell.id)
        values_of_cell = {"computation": COMPUTATION, "corpus": cell.to_json()["corpus"]}
        # A missing key means the same as an empty name.
        if cell.name or result.name:
            values_of_cell["name"] = cell.name
        is_outdated = any(result.cell.get(key) != value for key, value in values_of_cell.items())
        if is_outdated:
            result = replace(result, cell=result.cell | values_of_cell)
        if own_path_aside.is_file() or is_outdated:
            with suppress(OSError, StorageError), self._lease(path):
                if own_path_aside.is_file():
                    # The result in its place goes to the path of its own id.
                    if path.is_file():
                        _move_aside(path, unless_id=cell.id)
                    _move(own_path_aside, path)
                if is_outdated:
                    self._write_json(path, result)
        return result

    def _lease(self, path: Path) -> AbstractContextManager[object]:
        """Wait for the lease of a path, which allows one writer at a time."""
        return self.leases.wait(checksum(path.relative_to(self.root).as_posix())[:32])

    def sweep(self, *cells: StoredCell) -> None:
        """Remove the unfinished files that killed processes left for some cells; files that are being written stay."""
        for cell in cells:
            path = self.path(cell)
            for suffix in (".json", *_SUFFIXES_BESIDE):
                prefix = temporary_prefix(path.with_suffix(suffix))
                for leftover in path.parent.glob(f"{prefix}*"):
                    with self._lease(path):
                        leftover.unlink(missing_ok=True)

    def write(
        self, cell: StoredCell, result: Result, predictions: Predictions, submission: str = ""
    ) -> Result:
        """Store a result after its predictions and its submission, and return it as stored.

        An earlier result of another identity is moved aside, an unreadable file to ``seed-<n>.unreadable.json``.
        """
        archive = io.BytesIO()
        np.savez_compressed(archive, allow_pickle=False, **predictions)
        files = {PREDICTIONS: archive.getvalue()}
        if submission:
            files[SUBMISSION] = submission.encode()
        checksums = {suffix: _sha256(content) for suffix, content in files.items()}
        stored = replace(result, beside=checksums)
        path = self.path(cell)
        with self._lease(path):
            self._write(path, stored, files)
        return stored

    def _write(self, path: Path, result: Result, files: dict[str, bytes]) -> None:
        """Write a result and the files beside it; the caller must hold the lease of the path."""
        if path.is_file():
            _move_aside(path, result.cell_id)
        for suffix, content in files.items():
            with writing(path.with_suffix(suffix), self.root) as sink:
                sink.write(content)
        self._write_json(path, result)
        # Remove a result of this identity that was moved aside earlier, and was damaged there.
        aside = _path_aside(path, result.cell_id)
        for suffix in (".json", *_SUFFIXES_BESIDE):
            aside.with_suffix(suffix).unlink(missing_ok=True)

    def _write_json(self, path: Path, result: Result) -> None:
        text = json.dumps(result.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
        with writing(path, self.root) as sink:
            sink.write(f"{text}\n".encode())


def hidden_id(item: str) -> str:
    """Return the stored name of an item if texts of users are left out."""
    return checksum(item)[:16]


def _path_aside(path: Path, cell_id: str) -> Path:
    """Return the path to which the result of a cell is moved aside."""
    return path.with_name(f"{path.stem}.{cell_id[:12]}.json")


def _move_aside(path: Path, unless_id: str) -> None:
    """Move the result at a path to the path aside of its own id, unless that is ``unless_id``."""
    try:
        stored_id = read_result(path).cell_id
    except DataFormatError:
        _move(path, path.with_name(f"{path.stem}.unreadable.json"))
        return
    if stored_id != unless_id:
        _move(path, _path_aside(path, stored_id))


def _move(path: Path, target: Path) -> None:
    """Rename a result and the files beside it; the result comes last, since the others are found through it."""
    for suffix in (*_SUFFIXES_BESIDE, ".json"):
        file = path.with_suffix(suffix)
        if file.is_file():
            with suppress(FileNotFoundError):  # moved by another process
                file.replace(target.with_suffix(suffix))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _Header(msgspec.Struct):
    """The key of a result that says how to read the others."""

    schema: Any = None


class _Corpus(msgspec.Struct):
    name: str
    n: int


class _Precision(msgspec.Struct):
    encoding: str


class _Cell(msgspec.Struct):
    """The keys of a result's ``cell`` that are checked when a result is read."""

    spec: str
    task: str
    protocol: str
    seed: int
    precision: _Precision
    recipe: dict[str, Any] | None = None
    corpus: _Corpus | None = None
    computation: int | None = None


def read_result(path: Path) -> Result:
    """Read one result file.

    Raises:
        DataFormatError: the file cannot be read, has another schema, or is not a result.
    """
    try:
        data = path.read_bytes()
        schema = msgspec.json.decode(data, type=_Header).schema
        if schema != RESULT_SCHEMA:
            raise DataFormatError(
                f"{path} has schema {schema!r}; this version reads schema {RESULT_SCHEMA}",
                "Move the file away, or use the version of mirrorbench that wrote it.",
            )
        result = msgspec.json.decode(data, type=Result)
        # Raises an error for a spec that cannot be parsed.
        parse_spec(msgspec.convert(result.cell, _Cell).spec)
        if result.metrics.get(result.main_metric, msgspec.UNSET) != result.main_score:
            raise ValueError(f"the main score is not the value of its metric, {result.main_metric}")
    # msgspec's errors are ValueErrors.
    except (ValueError, RecursionError, OSError, UsageError) as error:
        problem = f"{path} is not a result file: {error}"
        raise DataFormatError(problem, "Move it away and run again.") from error
    return result


def _check_files_beside(path: Path, result: Result) -> None:
    """Raise a ``DataFormatError`` if a file beside a result is missing, damaged or belongs to another result."""
    for suffix, expected in result.beside.items():
        file = path.with_suffix(suffix)
        if not file.is_file() or _sha256(file.read_bytes()) != expected:
            raise DataFormatError(f"{file} is missing, damaged or belongs to another result")
    # Older results have no checksums of the files beside them.
    if not result.beside:
        read_predictions(path, result)


def read_predictions(path: Path, result: Result) -> Predictions:
    """Read the arrays stored with a result.

    Raises:
        DataFormatError: the arrays are missing, damaged or belong to another result.
    """
    try:
        data = path.with_suffix(PREDICTIONS).read_bytes()
        expected = result.beside.get(PREDICTIONS)
        if expected is not None and _sha256(data) != expected:
            raise ValueError("they are those of another result, or damaged")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays: dict[str, NDArray[Any]] = {name: archive[name] for name in archive.files}
        check_predictions(arrays)
    except Exception as error:
        # numpy and zipfile raise a dozen types of errors for damaged archives.
        raise DataFormatError(
            f"the predictions of {path} cannot be read: {error}",
            "mirrorbench run, with the same encoders and tasks, computes them again.",
        ) from error
    return arrays


def check_predictions(arrays: Predictions) -> None:
    """Raise an error unless the arrays of items have one value for each item, and scores and gold are numbers.

    Raises:
        KeyError: ids, scores or gold are missing.
        ValueError: an array has another shape or type.
    """
    optional = [name for name in _OPTIONAL_ARRAYS if name in arrays]
    for name in (*_REQUIRED_ARRAYS, *optional):
        if arrays[name].shape != (len(arrays["ids"]),):
            raise ValueError(f"{name} does not have one value for each item")
    for name in ("scores", "gold"):
        arrays[name].astype(np.float64)


def read_results(root: Path) -> Iterator[Result]:
    """Read the results in a folder, sorted by path; the files are read one by one as the iterator is consumed.

    Results of smoke runs (``limit-N``), analyses, and results that were replaced by those of other data or settings are
    left out.

    Args:
        root: a folder of results (``--output``, by default ``results``); nothing is read if it does not exist.

    Yields:
        The results.

    Raises:
        DataFormatError: a file is damaged, or has the layout of another version.

    Example:
        >>> from pathlib import Path
        >>> import mirrorbench
        >>> from mirrorbench.plugin import read_results
        >>> run = mirrorbench.run(["tiny+base:pooling=mean", "tiny+base:pooling=cls"], "quick-sts", device="cpu")
        >>> best = max(read_results(Path("results")), key=lambda result: result.main_score)
        >>> best.spec
        'tiny+base:pooling=mean'
    """
    for path in result_files(root):
        yield read_result(path)


def result_files(root: Path) -> list[Path]:
    """Return the files of current results below a folder, sorted.

    Analyses, smoke runs and results that were moved aside are left out.
    """
    files = []
    for path in sorted(root.rglob("seed-*.json")):
        is_current = re.fullmatch(r"seed-\d+\.json", path.name)
        is_apart = _FOLDERS_APART.fullmatch(path.relative_to(root).parts[0])
        if is_current and not is_apart:
            files.append(path)
    return files
