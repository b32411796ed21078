"""The parts of a result other than its scores: the encoder, the inputs that it read in part, and notes for readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mirrorbench.core.encoder_protocol import Encoder, TextInput, reads_pairs
from mirrorbench.core.identity import DESCRIPTION
from mirrorbench.core.truncation import Truncation, truncation_of
from mirrorbench.core.unknown_words import UnknownWords, unknown_words_of
from mirrorbench.models.backbones import foreign_languages
from mirrorbench.models.pooling import LostTargets, PoolingEncoder
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.encoder_loading import opening_notes
from mirrorbench.storage.results import ZERO_VECTORS
from mirrorbench.tasks.base import Task, Vectors


@dataclass(frozen=True)
class InputCounts:
    """The inputs of a task that an encoder reads in part.

    Attributes:
        texts: number of distinct inputs.
        targets: target words that were cut or not found; ``None`` for an encoder of whole texts.
        truncation: texts that were cut; ``None`` if the target determines which tokens are read.
        unknown_words: items with words for which the encoder has no vector.
    """

    texts: int
    targets: LostTargets | None
    truncation: Truncation | None
    unknown_words: UnknownWords | None

    @classmethod
    def of(
        cls, encoder: Encoder, cell: Cell, task: Task, items: Any, inputs: Sequence[TextInput]
    ) -> InputCounts:
        """Count the inputs of a task, not while they are encoded, since their vectors may come from the cache."""
        distinct = list(dict.fromkeys(inputs))
        targets = None
        truncation = None
        if cell.pooling is not None and cell.pooling.of_target:
            assert isinstance(encoder, PoolingEncoder)
            targets = encoder.lost_targets(distinct, cell.pooling)
        else:
            truncation = truncation_of(encoder, distinct, cell.pooling)
        unknown_words = unknown_words_of(encoder, distinct, task.texts(items))
        return cls(len(distinct), targets, truncation, unknown_words)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as keys of a result's ``encoder``."""
        counts: dict[str, Any] = {"texts": self.texts}
        if self.targets is not None:
            counts |= self.targets._asdict()
        if self.truncation is not None and self.truncation.sentence:
            counts["truncation"] = self.truncation.to_json()
        if self.unknown_words and self.unknown_words.items:
            counts["unknown_words"] = self.unknown_words.to_json()
        return counts


def encoder_details(
    encoder: Encoder, cell: Cell, vectors: Vectors, counts: InputCounts
) -> dict[str, Any]:
    """Return the ``encoder`` of a result: its identity, its readout, and what it read of the task's inputs."""
    details: dict[str, Any] = {
        "fingerprint": encoder.fingerprint,
        "dimensions": vectors.array.shape[1],
    }
    if reads_pairs(encoder):
        details["scores"] = "pairs"
    if cell.pooling:
        details |= cell.pooling.to_json()
    transformer = getattr(encoder, "transformer", None)
    if transformer is not None:
        details["parameters"] = transformer.n_parameters
    if _are_zero(encoder, vectors):
        details[ZERO_VECTORS] = True
    details["weights"] = cell.model.weights_fingerprint
    details["revision"] = cell.spec.revision
    details |= counts.to_json()
    path = cell.model.path
    if path is not None and (path / DESCRIPTION).is_file():
        details["tuned_directory"] = True
    return details


def _are_zero(encoder: Encoder, vectors: Vectors) -> bool:
    """Return whether the vectors of all texts are zero, because the encoder knows none of their words."""
    array = vectors.array
    return len(array) > 0 and not array.any() and not reads_pairs(encoder)


def encoder_notes(
    encoder: Encoder, cell: Cell, task: Task, counts: InputCounts, tuning: dict[str, Any]
) -> Iterator[str]:
    """Yield notes on an encoder and what it read; ``tuning`` is the description that is stored with its model."""
    name = cell.name or str(cell.model.spec)
    yield from _notes_on_readout(name, cell, task.languages)
    if counts.targets is not None:
        yield from _notes_on_targets(name, cell, counts.targets)
    if counts.truncation is not None and counts.truncation.sentence:
        yield f"{name}: {counts.truncation.sentence}"
    if counts.unknown_words is not None and counts.unknown_words.items:
        items = getattr(task, "items_name", "items")
        yield f"{name}: {counts.unknown_words.sentence(items)}"
    for note in getattr(encoder, "notes", ()):
        yield f"{name}: {note}"
    recipe = cell.model.recipe
    if recipe and recipe.stop == "auto" and tuning.get("held_out"):
        from mirrorbench.training.trajectory import Trajectory

        trajectory = msgspec.convert(tuning["held_out"], Trajectory)
        yield f"{cell.spec}, seed {cell.seed}: {trajectory.verdict}"


def _notes_on_readout(name: str, cell: Cell, languages: Sequence[str]) -> Iterator[str]:
    """Yield notes on the model and how it reads texts."""
    foreign = foreign_languages(cell.model.spec, languages)
    if foreign:
        yield f"{name} has no model for {', '.join(foreign)}; its English one was used"
    yield from opening_notes(cell.model, cell.pooling)
    traits = cell.model.traits
    if traits.pads:
        yield f"the vectors of {name} depend on padding: only texts of equal length were encoded in one batch"
    pooling = cell.pooling
    reads_once = pooling is not None and pooling.of_target and not pooling.is_repeated
    if reads_once and traits.causal and not cell.model.attention:
        yield (
            f"{name} reads a target without the words that follow it; prompt=echo and attention=bidirectional read "
            "them too"
        )


def _notes_on_targets(name: str, cell: Cell, targets: LostTargets) -> Iterator[str]:
    """Yield notes on target words that were read in part, or not at all."""
    assert cell.pooling is not None
    tokens = cell.pooling.max_length
    if targets.texts_cut:
        targets_cut = "the target of longer texts"
        if cell.pooling.marked:
            targets_cut = "targets that a cut at the end would lose"
        yield f"{name} reads a window of {tokens} tokens around {targets_cut} ({targets.texts_cut})"
    if targets.targets_cut:
        yield f"{name} reads {targets.targets_cut} targets in part, being longer than {tokens} tokens"
    if targets.targets_missing:
        yield f"{name} has no token for {targets.targets_missing} targets and reads their whole text"
