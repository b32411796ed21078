"""Inputs of analyses (encoders, texts and predictions) and their results (rows, figures and files)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mirrorbench.analysis import figures, scores
from mirrorbench.analysis.figures import TableRows
from mirrorbench.core.encoder_protocol import Array, Encoder, TextInput, encode_checked
from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Specs, as_spec, as_specs, as_texts
from mirrorbench.data.corpora import read_corpus
from mirrorbench.models.pooling import Pooling, PoolingEncoder
from mirrorbench.pipeline import execute_plan, make_plan
from mirrorbench.reports.leaderboard import row_labels
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.encoder_loading import EncoderLoader
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Failure, Reporter
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.runs.requests import Request
from mirrorbench.storage.files import writing
from mirrorbench.storage.results import Result, read_predictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

StoredByLabel = dict[str, tuple[Result, scores.Arrays]]
"""For each encoder, by label: its stored result on a task, and the predictions behind its main score."""

_T = TypeVar("_T")
_CHUNK = 1024
"""Number of texts in a chunk, after which progress is reported, for encoders that do not report it themselves."""


class NothingAnalysedError(Exception):
    """All encoders failed; the failures of the study hold the reasons."""


@dataclass
class Study:
    """Encoders on one task under one seed, with the fields of a ``Request``; ``seed`` is also that of random samples.

    ``failures`` grows while the study is run.
    """

    plugins: Plugins
    folders: Folders
    compute: Compute
    reporter: Reporter
    encoders: Specs = ()
    task: str = ""
    corpus: str = ""
    seed: int = 0
    protocol: str = "paper"
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.task and expand_tasks([self.task], self.plugins) != (self.task,):
            raise UsageError(
                f"{self.task} is a suite, but an analysis takes one task", "mirrorbench list suites"
            )

    @cached_property
    def plan(self) -> Plan:
        """The plan, with one cell for each encoder; encoders that cannot be planned become failures."""
        specs = as_specs(self.encoders)
        typed_names = {as_spec(text): text for text in as_texts(self.encoders)}
        request = Request(
            specs, (self.task,), (self.seed,), self.corpus, self.protocol, names=typed_names
        )
        plan = make_plan([request], self.plugins, self.folders, self.compute, self.reporter)
        self.failures += plan.failures
        return plan

    @cached_property
    def items(self) -> Any:
        """Items of the task."""
        return self.plugins.tasks[self.task].load(self.folders.data)

    @property
    def title(self) -> str:
        """Title and name of the task."""
        return task_title(self.task, self.plugins)

    def label(self, spec: EncoderSpec) -> str:
        """Return the label of an encoder's row, as in a leaderboard."""
        return row_labels(self.plan.rows, self.plugins, self.plan.names)[spec]

    def describe(self) -> dict[str, Any]:
        """Return the task, the seed, the protocol and the encoders, for the JSON file."""
        encoders = []
        for cell in self.plan.cells:
            corpus = cell.model.corpus
            pooling = cell.pooling
            encoders.append(
                {
                    "encoder": self.label(cell.spec),
                    "spec": str(cell.spec),
                    "weights": cell.model.key,
                    "corpus": corpus.name if corpus else None,
                    "readout": pooling.identity if pooling else None,
                    "precision": cell.precision,
                }
            )
        return {
            "task": self.task,
            "seed": self.seed,
            "protocol": self.protocol,
            "encoders": encoders,
        }

    def texts(self, source: str) -> tuple[list[TextInput], str]:
        """Return the distinct texts of a corpus or file, or the inputs of the task, and the name of their source.

        The protocol ``released`` keeps repeated texts of a corpus, as its tuning does.
        """
        if not source:
            inputs = self.plugins.tasks[self.task].inputs(self.items)
            return list(dict.fromkeys(inputs)), self.task
        clean = self.protocol != "released"
        corpus = read_corpus(
            source,
            self.folders.data,
            self.plugins.corpora.by_name(),
            deduplicate=clean,
            strip=clean,
        )
        return [TextInput(text) for text in corpus.texts], source

    def measure_each(self, measure: Callable[[Cell, Encoder], _T]) -> dict[str, _T]:
        """Call ``measure`` with each cell and its loaded encoder; return what it returns, by the encoder's label.

        An encoder whose loading or measuring raises an exception becomes a failure of the study.

        Raises:
            UsageError: raised by ``measure`` or by loading; it concerns the request, not one encoder.
            NothingAnalysedError: no encoder could be measured.
        """
        values_by_label = {}
        loader = EncoderLoader(
            self.plugins, self.folders, self.compute, self.reporter, self.plan.systems
        )
        for cell in self.plan.cells:
            try:
                encoder, _tuning_seconds = loader.load_transformed(
                    cell.model, cell.pooling, cell.precision, self.plan.corpora
                )
                values_by_label[self.label(cell.spec)] = measure(cell, encoder)
            except UsageError:
                raise
            except Exception as error:
                self.failures.append(Failure.of(error, cell.spec, cell.task, cell.seed))
        if not values_by_label:
            raise NothingAnalysedError
        return values_by_label

    def encode(
        self,
        cell: Cell,
        encoder: Encoder,
        inputs: Sequence[TextInput],
        poolings: Sequence[Pooling] = (),
    ) -> list[Array]:
        """Encode inputs in one forward pass; return an array for each pooling (default: the cell's).

        Encoders without poolings return a single array.
        """
        self.reporter.stage("encoding", str(cell.spec), len(inputs), "texts")
        if cell.pooling is not None and isinstance(encoder, PoolingEncoder):
            return encoder.encode_pooled(inputs, poolings or [cell.pooling], self.reporter.advance)
        arrays = []
        for start in range(0, len(inputs), _CHUNK):
            chunk = inputs[start : start + _CHUNK]
            array = encode_checked(encoder, chunk, f"the encoder {cell.spec}")
            arrays.append(array)
            self.reporter.advance(len(array))
        return [np.concatenate(arrays)]

    def predictions(self) -> StoredByLabel:
        """Return each encoder's predictions, by label; missing ones are computed and stored.

        Raises:
            NothingAnalysedError: all encoders failed.
        """
        outcome = execute_plan(self.plan, self.plugins, self.folders, self.compute, self.reporter)
        self.failures[:] = outcome.failures
        if not outcome.results:
            raise NothingAnalysedError
        cells = {str(cell.spec): cell for cell in self.plan.cells}
        stored = {}
        for result in outcome.results:
            cell = cells[result.spec]
            arrays = read_predictions(self.folders.results.stored_path(cell), result)
            stored[self.label(cell.spec)] = (result, scored_items(arrays, result.main_metric))
        return stored


def task_title(task: str, plugins: Plugins) -> str:
    """Return the title of a task, and its name if that differs: ``STS-b (stsb)``."""
    title = plugins.tasks[task].title if task in plugins.tasks else task
    return title if title.lower() == task else f"{title} ({task})"


def describe_inputs(source: str, inputs: Sequence[TextInput]) -> dict[str, Any]:
    """Return the source, the number and the checksum of inputs, for the JSON file."""
    checksum = hashlib.sha256(b"".join(item.key() for item in inputs)).hexdigest()
    return {"source": source, "n": len(inputs), "sha256": checksum}


def scored_items(arrays: scores.Arrays, metric: str) -> scores.Arrays:
    """Return the predictions on the items behind a metric: those of its split, if it has one, and with known gold."""
    n_items = len(arrays["ids"])
    has_gold = ~np.isnan(arrays["gold"])
    selected = has_gold
    if "splits" in arrays:
        split = metric.partition("_")[0]
        in_split = has_gold & (arrays["splits"] == split)
        # The name of a metric over all splits does not begin with the name of one.
        if in_split.any():
            selected = in_split
    # Arrays of another length do not belong to items.
    return {
        name: array[selected] if len(array) == n_items else array for name, array in arrays.items()
    }


@dataclass(frozen=True)
class Analysis:
    """The result of one analysis.

    Attributes:
        name: name of the files, without a suffix.
        rows: the numbers; all rows have the same keys.
        document: further contents of the JSON file, such as encoders, task and seed.
        draw: draws the figure, inside ``figures.style()``; ``None`` if no encoder could be analysed.
        table: a shorter table for the screen; ``None`` to show ``rows``.
        summary: a line above the table.
        title: title of the figure, such as the task, the texts and the measure.
        values: numbers of each encoder, by its label, for a table of the papers; ``n`` is the number of items.
        failures: encoders that failed, with the reason.
    """

    name: str
    rows: TableRows
    document: Mapping[str, Any]
    draw: Callable[[], Figure] | None
    table: TableRows | None = None
    summary: str = ""
    title: str = ""
    values: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    failures: Sequence[Failure] = field(default=())

    def write(self, folder: str | Path, formats: Sequence[str] = ()) -> list[Path]:
        """Write ``<name>.csv``, ``<name>.json`` and the figure in each format into a folder.

        Args:
            folder: created if missing.
            formats: keys of ``figures.FIGURE_FORMATS``.

        Returns:
            The paths of the files; none if no encoder could be analysed.

        Raises:
            StorageError: the folder cannot be written.
        """
        from mirrorbench.core.identity import __version__

        if self.draw is None:
            return []
        # The rows as CSV.
        table = io.StringIO()
        columns = list(self.rows[0]) if self.rows else []
        writer = csv.DictWriter(table, columns, lineterminator="\n")
        writer.writeheader()
        # None becomes an empty field.
        writer.writerows(json_value(row) for row in self.rows)
        # The name of a task may contain a colon, which file names may not.
        file_name = re.sub(r"[^\w.=,-]", "_", self.name)
        stem = Path(folder) / file_name
        # The rows and all else as JSON.
        document = json_value(
            {
                "analysis": file_name,
                **self.document,
                "version": __version__,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "rows": self.rows,
            }
        )
        contents = {
            "csv": table.getvalue(),
            "json": json.dumps(document, indent=2, ensure_ascii=False),
        }
        files = []
        for suffix, content in contents.items():
            path = stem.with_name(f"{file_name}.{suffix}")
            with writing(path) as sink:
                sink.write(content.encode())
            files.append(path)
        if formats:
            with figures.style():
                files += figures.save(figures.titled(self.draw(), self.title), stem, formats)
        return files


def json_value(value: Any) -> Any:
    """Convert a value for JSON: arrays become lists, NaN null, infinity a string."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
