"""Scores in the model card of a directory, in the two forms that the Hugging Face hub shows.

The older form is ``model-index`` in the metadata of ``README.md``, the newer one a YAML file in ``.eval_results``. Only
scores on data sets of the hub are written: a score on a user's own data would name them.

``model-index`` holds all that is known of a score, and the file is made from it. An entry of mirrorbench has the key
``mirrorbench`` in its ``args``, and ``encoder``, a hash of weights and readout. Entries of another state of the encoder
are removed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from mirrorbench.core.errors import MirrorbenchError, UsageError
from mirrorbench.core.identity import __version__, digest
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.cards import DatasetSource
from mirrorbench.data.hub_data import hub_split
from mirrorbench.reports.leaderboard import Leaderboard
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.plan import Plan
from mirrorbench.storage.files import writing
from mirrorbench.storage.results import Result
from mirrorbench.texts.card_metadata import CardFile, one_metric_each
from mirrorbench.texts.export import EVAL_RESULTS, SCORES_FILE

ONLY_CONFIG = "default"
"""The name that the hub gives to the configuration of a data set that has one only; also written if it is unknown."""
_DIGITS = 4


@dataclass(frozen=True)
class CardScore:
    """A score of an encoder on a data set of the hub.

    Attributes:
        task: name of the task.
        protocol: ``paper`` or ``released``.
        data: the split that was scored, with its commit.
        metric: name of the metric.
        value: the score as a fraction (0.82).
        interval: lower and upper end of its 95% interval over items; ``None`` where undefined.
        n_items: number of items that were scored.
        created: time of the evaluation, ISO 8601.
        encoder: hash of weights and readout.
        command: the command that computes the score, in the folder that holds the encoder's directory.
        plugin: the package with the task, or ``a plugin file``; empty for a built-in task.
    """

    task: str
    protocol: str
    data: DatasetSource
    metric: str
    value: float
    interval: tuple[float, float] | None
    n_items: int
    created: str
    encoder: str
    command: str
    plugin: str = ""

    @property
    def interval_text(self) -> str:
        """The interval for readers: ``95% interval [0.8031, 0.8372]``."""
        return _interval_text(self.interval)

    @property
    def model_index_entry(self) -> dict[str, Any]:
        """The entry of ``results`` in ``model-index``."""
        data = self.data
        dataset = {
            "name": data.repo,
            "type": data.repo,
            "config": data.config,
            "split": data.split,
            "revision": data.revision,
        }
        args: dict[str, Any] = {
            "mirrorbench": __version__,
            "encoder": self.encoder,
            "task": self.task,
            "protocol": self.protocol,
            "items": self.n_items,
            "date": self.created,
            "command": self.command,
        }
        if self.plugin:
            args["plugin"] = self.plugin
        if self.interval:
            args["interval"] = [round(end, _DIGITS) for end in self.interval]
        metric = {
            "type": self.metric,
            "value": round(self.value, _DIGITS),
            "name": f"{self.metric}, {self.interval_text}",
            "args": args,
        }
        return {
            "task": {"type": "sentence-similarity"},
            "dataset": {key: value for key, value in dataset.items() if value},
            "metrics": [metric],
        }


@dataclass(frozen=True)
class CardScores:
    """What ``Session.card`` wrote, and what it left out.

    Attributes:
        scores: the scores in the card.
        files: the files that were written.
        removed: number of scores of an earlier state of the encoder that were removed from the card.
        left_out: tasks without a score in the card, each with the reason.
    """

    scores: tuple[CardScore, ...]
    files: tuple[Path, ...]
    removed: int
    left_out: tuple[tuple[str, str], ...]


def _interval_text(interval: Iterable[float] | None) -> str:
    if interval is None:
        return f"{LEVEL:.0%} interval undefined"
    low, high = interval
    return f"{LEVEL:.0%} interval [{low:.{_DIGITS}f}, {high:.{_DIGITS}f}]"


def check_encoder_folder(folder: Path, results: Path) -> None:
    """Check, before anything is computed, that scores can be written into a directory.

    Raises:
        UsageError: the directory or its model card is missing, or the folder for results lies in the directory.
        DataFormatError: the metadata of the model card cannot be read.
    """
    CardFile.read(folder / "README.md")
    if results.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"the folder for results, {results}, lies in {folder}, and would be published with it",
            "Run the command in another folder, or name one with --output.",
        )


def plan_on_hub_data(plan: Plan, plugins: Plugins) -> tuple[Plan, dict[str, str]]:
    """Return the plan without the tasks whose data are not on the hub, and the reason for each task left out.

    Raises:
        UsageError: the plan has several encoders, or no task with data on the hub.
        MirrorbenchError: no task can be planned, for instance for lack of its data.
    """
    if len(plan.rows) != 1:
        rows = ", ".join(str(row) for row in plan.rows)
        raise UsageError(
            f"the directory does not say how its vectors are read, so it stands for several encoders ({rows})",
            "Scores go into the card of an encoder that mirrorbench tune or sentence-transformers saved.",
        )
    cells = [cell for cell in plan.cells if _data_of(cell.task, dict(cell.data), plugins)]
    tasks = tuple(dict.fromkeys(cell.task for cell in cells))
    left_out = {failure.task: failure.reason for failure in plan.failures}
    for cell in plan.cells:
        if cell.task not in tasks:
            left_out[cell.task] = "its data are not a split of a data set on the hub"
    reasons = "; ".join(f"{task}: {reason}" for task, reason in left_out.items())
    problem = f"no score can go into the card: {reasons}"
    if not plan.cells:
        raise MirrorbenchError(problem, plan.failures[0].hint)
    if not tasks:
        raise UsageError(
            problem,
            "The hub shows scores on its own data sets only: tasks of the mirrorbench-mteb plugin, and cards whose "
            "files are hf:OWNER/NAME@COMMIT.",
        )
    return replace(plan, cells=tuple(cells), tasks=tasks, failures=()), left_out


def _data_of(task: str, files: Mapping[str, str], plugins: Plugins) -> DatasetSource | None:
    return hub_split(files, getattr(plugins.tasks[task], "card", None))


def card_scores(
    folder: Path, board: Leaderboard, encoder: str, plugins: Plugins
) -> list[CardScore]:
    """Return the defined scores of a leaderboard of one encoder, whose data are on the hub.

    Args:
        folder: the directory of the encoder.
        board: its leaderboard, with intervals.
        encoder: hash of its state, ``encoder_id``.
        plugins: the registered tasks.
    """
    intervals: dict[str, tuple[float, float] | None] = {}
    for row in board.table.rows:
        for column, cell in zip(board.table.columns, row.scores, strict=True):
            # An average names the results of all its tasks.
            if cell is not None and not column.average_of:
                intervals.update(dict.fromkeys(cell.cell_ids, cell.interval))
    scores = []
    for result in board.results:
        data = _data_of(result.task, result.data.get("files", {}), plugins)
        if data is None or result.main_score is None:
            continue
        score = CardScore(
            task=result.task,
            protocol=result.protocol,
            data=data,
            metric=result.main_metric,
            value=result.main_score,
            interval=intervals.get(result.cell_id),
            n_items=result.n_items,
            created=result.created,
            encoder=encoder,
            command=_command(folder, result),
            plugin=_plugin(result.task, plugins),
        )
        scores.append(score)
    return scores


def _plugin(task: str, plugins: Plugins) -> str:
    """Return the package with a task, without the path of a file; empty for a built-in task."""
    origin = plugins.tasks.entry(task).origin
    for row in plugins.listing():
        if row["name"] == origin and row["distribution"] != "built in":
            return "a plugin file" if row["distribution"] == "file" else str(row["distribution"])
    return ""


def encoder_id(cell: Cell) -> str:
    """Return a hash of the weights and the readout of a cell, which is the same wherever the directory lies."""
    # What the row says of the readout, which is the same for all tasks.
    readout = {key: str(value) for key, value in cell.spec.params if key != "path"}
    return digest({"weights": cell.model.fingerprint, "readout": readout})[:12]


def _command(folder: Path, result: Result) -> str:
    directory = shlex.quote(f"./{folder.resolve().name}")
    command = f"mirrorbench run --encoder {directory} --tasks {shlex.quote(result.task)}"
    if result.protocol != "paper":
        command += f" --protocol {result.protocol}"
    return command


def write_scores(folder: Path, scores: Iterable[CardScore], encoder: str) -> tuple[list[Path], int]:
    """Write scores into a directory, in place of earlier ones on the same tasks.

    Scores of another state of the encoder are removed; those of other programs stay.

    Args:
        folder: the directory of the encoder, with a model card.
        scores: the scores; without any, only those of another state are removed.
        encoder: hash of the state of the encoder, ``encoder_id``.

    Returns:
        The written files, and the number of scores that were removed.

    Raises:
        DataFormatError: the metadata of the model card cannot be read.
    """
    new_entries = [score.model_index_entry for score in scores]
    card = CardFile.read(folder / "README.md")
    old_entries = list(_separated(card.results))
    current_entries = [entry for entry in old_entries if not _is_outdated(entry, encoder)]
    n_removed = len(old_entries) - len(current_entries)
    if not (new_entries or n_removed):
        return [], 0
    new_keys = {_key(entry) for entry in new_entries}
    entries = [entry for entry in current_entries if _key(entry) not in new_keys]
    entries += new_entries

    # ``with_results`` raises if the card cannot take them, so it comes before the first write.
    text = card.with_results(entries, model_name=folder.resolve().name)
    own_entries = [entry for entry in entries if _own_args(entry)]
    files = [card.path]
    scores_file = folder / EVAL_RESULTS / SCORES_FILE
    if own_entries:
        files.append(scores_file)
        with writing(scores_file) as sink:
            sink.write(_eval_results(own_entries).encode())
    else:
        scores_file.unlink(missing_ok=True)
    with writing(card.path) as sink:
        sink.write(text.encode())
    return files, n_removed


def _separated(entries: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield entries with those of mirrorbench apart from metrics of other programs on the same data."""
    for entry in entries:
        parts = list(one_metric_each(entry))
        if any(_own_args(part) for part in parts):
            yield from parts
        else:
            yield entry


def _own_args(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what mirrorbench says about a score; empty for an entry of another program."""
    metrics = entry.get("metrics") or [{}]
    args = metrics[0].get("args")
    return args if isinstance(args, dict) and "mirrorbench" in args else {}


def _is_outdated(entry: Mapping[str, Any], encoder: str) -> bool:
    """Return whether mirrorbench wrote an entry for another state of the encoder."""
    args = _own_args(entry)
    return bool(args) and args["encoder"] != encoder


def _key(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return task and protocol of a score; ``None`` for an entry of another program."""
    args = _own_args(entry)
    return (args["task"], args["protocol"]) if args else None


def _eval_results(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the content of the file in ``.eval_results``, of the entries of mirrorbench."""
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = []
    for result in results:
        args = _own_args(result)
        dataset = result["dataset"]
        (metric,) = result["metrics"]
        notes = f"{metric['type']} on {args['items']} items"
        if "split" in dataset:
            notes += f" of the split {dataset['split']}"
        notes += f", {_interval_text(args.get('interval'))}"
        plugin = f" with {args['plugin']}" if "plugin" in args else ""
        entry = EvalResultEntry(
            dataset_id=dataset["type"],
            task_id=dataset.get("config", ONLY_CONFIG),
            dataset_revision=dataset["revision"],
            value=metric["value"],
            date=args["date"],
            notes=f"{notes}; mirrorbench {args['mirrorbench']}{plugin}: {args['command']}",
        )
        entries.append(entry)
    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, width=120)
