"""Texts with labels: what the tasks on them have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.quoting import shown
from mirrorbench.own_data.tasks import OwnData
from mirrorbench.tasks.base import TaskKind


class LabelledText(NamedTuple):
    """A text with its label; ``train`` marks training texts, which are not scored."""

    id: str
    text: str
    label: str
    train: bool


class LabelledTextTask(OwnData, TaskKind[Sequence[LabelledText]]):
    """Base class of tasks on texts with labels."""

    items_name = "texts"
    level = "sentence"

    def inputs(self, items: Sequence[LabelledText]) -> list[TextInput]:
        """Return all texts."""
        return [TextInput(item.text) for item in items]

    def texts(self, items: Sequence[LabelledText]) -> Mapping[str, tuple[str, ...]]:
        """Return the text of each scored item."""
        return {item.id: (item.text,) for item in items if not item.train}

    def retrieved(
        self, items: Sequence[LabelledText], item: str, predictions: Sequence[Any]
    ) -> list[str]:
        """Return a line for each label predicted for a text, with the right label where they differ."""
        right_label = next(text.label for text in items if text.id == item)
        lines = []
        for label in predictions:
            if label == right_label:
                lines.append(f"* {label}")
            else:
                lines.append(f"  {label} (right: {right_label})")
        return lines

    def remarks(self, items: Sequence[LabelledText]) -> Sequence[str]:
        """Add remarks on texts with several labels, and on labels that differ only in case."""
        remarks = list(super().remarks(items))
        n_ambiguous = _n_with_several_labels(items)
        if n_ambiguous:
            remarks.append(f"texts with several labels: {n_ambiguous:,}")
        alike = differing_in_case(item.label for item in items)
        if alike:
            remarks.append(f"labels that differ only in case: {alike}")
        return remarks


def _n_with_several_labels(items: Iterable[LabelledText]) -> int:
    """Return the number of texts that have several labels."""
    labels: dict[str, set[str]] = {}
    for item in items:
        labels.setdefault(item.text, set()).add(item.label)
    return sum(len(labels_of_text) > 1 for labels_of_text in labels.values())


def differing_in_case(labels: Iterable[str]) -> str:
    """Return the labels that differ only in case, as ``'Food' and 'food'``; empty if there are none."""
    spellings: dict[str, dict[str, None]] = {}
    for label in labels:
        spellings.setdefault(label.casefold(), {})[label] = None
    alike = [" and ".join(map(shown, group)) for group in spellings.values() if len(group) > 1]
    return ", ".join(alike)
