"""Scores in the model card of a directory, in the two forms that the Hugging Face hub shows.

The older form is ``model-index`` in the metadata of ``README.md``, the newer one a YAML file in ``.eval_results`` for
each data set. Only scores on data sets of the hub are written: a score on a user's own data would name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.identity import __version__
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.hub_data import HubData, hub_data
from mirrorbench.reports.leaderboard import Leaderboard
from mirrorbench.reports.statistics import LEVEL
from mirrorbench.runs.plan import Plan
from mirrorbench.storage.files import writing
from mirrorbench.texts.export import EVAL_RESULTS

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, EvalResultEntry, ModelCard

ONLY_CONFIG = "default"
"""The name that the hub gives to the configuration of a data set that has one only."""
_DIGITS = 4


@dataclass(frozen=True)
class CardScore:
    """A score of an encoder on a data set of the hub.

    Attributes:
        task: name of the task.
        data: the data set, with its commit.
        metric: name of the metric.
        value: the score as a fraction (0.82).
        interval: lower and upper end of its 95% interval over items; ``None`` where undefined.
        n_items: number of items that were scored.
        created: time of the evaluation, ISO 8601.
        command: the command that computes the score, in the folder that holds the encoder's directory.
    """

    task: str
    data: HubData
    metric: str
    value: float
    interval: tuple[float, float] | None
    n_items: int
    created: str
    command: str

    @property
    def interval_text(self) -> str:
        """The interval for readers: ``95% interval [0.8031, 0.8372]``."""
        if self.interval is None:
            return f"{LEVEL:.0%} interval undefined"
        low, high = self.interval
        return f"{LEVEL:.0%} interval [{low:.{_DIGITS}f}, {high:.{_DIGITS}f}]"


@dataclass(frozen=True)
class CardScores:
    """What ``Session.card`` wrote, and what it left out.

    Attributes:
        scores: the scores in the card.
        files: the files that were written.
        left_out: tasks without a score in the card, each with the reason.
    """

    scores: tuple[CardScore, ...]
    files: tuple[Path, ...]
    left_out: tuple[tuple[str, str], ...]


def model_card(folder: Path) -> ModelCard:
    """Read the model card of a directory.

    Raises:
        UsageError: there is no such directory, or it has no model card.
        DataFormatError: the metadata of the card cannot be read.
    """
    from huggingface_hub import ModelCard

    path = folder / "README.md"
    if not folder.is_dir():
        raise UsageError(f"there is no directory {folder}", "Name the directory of an encoder.")
    if not path.is_file():
        raise UsageError(
            f"{folder} has no model card",
            f"mirrorbench tune writes one; for another model, write {path} first.",
        )
    try:
        return ModelCard.load(path)
    except (ValueError, OSError) as error:
        raise DataFormatError(
            f"{path}: the metadata between the first two lines of --- cannot be read: {error}"
        ) from error


def on_hub_data(plan: Plan, plugins: Plugins) -> tuple[Plan, dict[str, str]]:
    """Return the plan without the tasks whose data are not on the hub, and the reason by task left out.

    Raises:
        UsageError: the plan has several encoders, or no task with data on the hub.
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
            left_out[cell.task] = "its data have no id on the hub"
    if not tasks:
        reasons = "; ".join(f"{task}: {reason}" for task, reason in left_out.items())
        raise UsageError(
            f"no score can go into the card: {reasons}",
            "The hub shows scores on its own data sets only: tasks of the mirrorbench-mteb plugin, and cards whose "
            "files are hf:OWNER/NAME@COMMIT.",
        )
    return replace(plan, cells=tuple(cells), tasks=tasks, failures=()), left_out


def _data_of(task: str, files: Mapping[str, str], plugins: Plugins) -> HubData | None:
    return hub_data(files, getattr(plugins.tasks[task], "card", None))


def card_scores(folder: Path, board: Leaderboard, plugins: Plugins) -> list[CardScore]:
    """Return the defined scores of a leaderboard of one encoder, whose data are on the hub.

    Args:
        folder: the directory of the encoder.
        board: its leaderboard, with intervals.
        plugins: the registered tasks.
    """
    intervals = {
        cell_id: score.interval
        for row in board.table.rows
        for score in row.scores
        if score is not None
        for cell_id in score.cell_ids
    }
    scores = []
    for result in board.results:
        data = _data_of(result.task, result.data.get("files", {}), plugins)
        if data is None or result.main_score is None:
            continue
        command = f"mirrorbench run --encoder ./{folder.resolve().name} --tasks {result.task}"
        if result.protocol != "paper":
            command += f" --protocol {result.protocol}"
        score = CardScore(
            task=result.task,
            data=data,
            metric=result.main_metric,
            value=result.main_score,
            interval=intervals.get(result.cell_id),
            n_items=result.n_items,
            created=result.created,
            command=command,
        )
        scores.append(score)
    return scores


def write_scores(folder: Path, card: ModelCard, scores: Sequence[CardScore]) -> list[Path]:
    """Write scores into a directory, in place of earlier ones on the same data; return the written files.

    Args:
        folder: the directory of the encoder.
        card: its model card; other metadata and the text are kept.
        scores: at least one score.
    """
    import yaml
    from huggingface_hub import eval_result_entries_to_yaml

    card.data.model_name = card.data.model_name or folder.resolve().name
    new = [_model_index_entry(score) for score in scores]
    card.data.eval_results = [*_others(card.data.eval_results or [], new), *new]
    path = folder / "README.md"
    with writing(path) as sink:
        sink.write(str(card).encode())
    files = [path]
    for name, scores_of_file in _by_file(scores).items():
        entries = [_hub_entry(score) for score in scores_of_file]
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, width=120)
        path = folder / EVAL_RESULTS / name
        with writing(path) as sink:
            sink.write(text.encode())
        files.append(path)
    return files


def _others(old: Iterable[EvalResult], new: Iterable[EvalResult]) -> list[EvalResult]:
    """Return the old entries of ``model-index`` that no new one replaces."""

    def key(entry: EvalResult) -> tuple[object, ...]:
        # Another commit of the same data is replaced: a card shows one score for each data set and metric.
        return (
            entry.dataset_type,
            entry.dataset_config,
            entry.dataset_split,
            entry.metric_type,
        )

    replaced = {key(entry) for entry in new}
    return [entry for entry in old if key(entry) not in replaced]


def _by_file(scores: Iterable[CardScore]) -> dict[str, list[CardScore]]:
    """Return the scores by the name of their file in ``.eval_results``: one for each configuration and split."""
    files: dict[str, list[CardScore]] = {}
    for score in scores:
        data = score.data
        parts = (data.repo.replace("/", "__"), data.config, data.split)
        name = ".".join(part for part in parts if part) + ".yaml"
        files.setdefault(name, []).append(score)
    return files


def _model_index_entry(score: CardScore) -> EvalResult:
    from huggingface_hub import EvalResult

    data = score.data
    return EvalResult(
        task_type="sentence-similarity",
        dataset_type=data.repo,
        dataset_name=data.repo,
        dataset_config=data.config or None,
        dataset_split=data.split or None,
        dataset_revision=data.revision,
        metric_type=score.metric,
        metric_name=f"{score.metric}, {score.interval_text}",
        metric_value=round(score.value, _DIGITS),
    )


def _hub_entry(score: CardScore) -> EvalResultEntry:
    from huggingface_hub import EvalResultEntry

    data = score.data
    notes = f"{score.metric} on {score.n_items} items, {score.interval_text}"
    if data.split:
        notes += f", split {data.split}"
    return EvalResultEntry(
        dataset_id=data.repo,
        task_id=data.config or ONLY_CONFIG,
        dataset_revision=data.revision,
        value=round(score.value, _DIGITS),
        date=score.created,
        notes=f"{notes}; mirrorbench {__version__}: {score.command}",
    )
