"""Positions of target words in tokens, windows around them, and copies of a text inside a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.models.batching import Ragged
from mirrorbench.models.pooling import TEXT

Positions = NDArray[np.int64]
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LocatedTargets:
    """Token ids of inputs, special tokens included, and the positions of their targets."""

    ids: Ragged
    targets: Ragged | None = None
    """Ascending positions in ``ids`` of each target's tokens: see ``PlacedText``. All positions if it has no tokens."""
    windowed: Positions = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Inputs cut to a window around the target; of marked targets those that a cut at the end would lose."""
    cut: int = 0
    """Number of targets with lost tokens, since they are longer than the window."""
    missing: int = 0
    """Number of targets without tokens, since they are empty or the tokenizer drops their characters."""
    shortened: Positions = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Inputs of which tokens are left out, whether around a window or at the end."""


class PlacedText(NamedTuple):
    """A text as it is tokenised, and character spans in it."""

    text: str
    target: Spans
    """The target; without one the whole text, or its last copy in a prompt."""
    marks: Spans = ()
    """The marks around the target, whose tokens are removed."""
    copies: Spans = ()
    """The copies of the text in a prompt."""


def placed(item: TextInput, with_marks: bool, prompt: str) -> PlacedText:
    """Return a text as it is tokenised: in a prompt, with marks around its target, or unchanged."""
    if prompt:
        return prompted(item, prompt)
    return (
        marked(item) if with_marks else PlacedText(item.text, item.spans or ((0, len(item.text)),))
    )


def marked(item: TextInput) -> PlacedText:
    """Return the text with its target in ``[ `` and `` ]``, as paper 2's released code tokenises it."""
    text, spans, marks, done = "", [], [], 0
    for start, end in item.spans:
        text += item.text[done:start] + "[ "
        spans.append((len(text), len(text) + end - start))
        marks += [(len(text) - 2, len(text)), (spans[-1][1], spans[-1][1] + 2)]
        text += item.text[start:end] + " ]"
        done = end
    text += item.text[done:]
    return PlacedText(text, tuple(spans) or ((0, len(text)),), tuple(marks))


def prompted(item: TextInput, prompt: str) -> PlacedText:
    """Return the text in a prompt, with the target in its last copy, where a causal model has seen the whole text."""
    parts = prompt.split(TEXT)
    starts = np.cumsum([len(part) for part in parts[:-1]]) + len(item.text) * np.arange(
        len(parts) - 1
    )
    copies = tuple((int(start), int(start) + len(item.text)) for start in starts)
    last = copies[-1][0]
    spans = tuple((last + start, last + end) for start, end in item.spans)
    return PlacedText(item.text.join(parts), spans or copies[-1:], copies=copies)


def locate_targets(
    texts: Sequence[PlacedText],
    all_ids: Sequence[list[int]],
    all_offsets: Sequence[Sequence[tuple[int, int]]],
    max_length: int,
    special: tuple[int, int],
    positions: int,
    keep_end: bool = False,
) -> LocatedTargets:
    """Locate the targets in the token ids of texts, and cut long texts to ``max_length``.

    ``all_offsets``: start and end of each token in its text. ``special``: numbers of special tokens before and after a
    text. ``positions``: of the model, 0 if unknown. ``keep_end``: of long texts without a target the end is kept, as by
    tokenizers that cut at the left.
    """
    kept, targets, windowed, shortened = [], [], [], []
    cut = missing = 0
    for row, (text, ids, offsets) in enumerate(zip(texts, all_ids, all_offsets, strict=True)):
        target = covering(offsets, text.text, text.target)
        whole = len(ids)
        if text.marks:
            marks = covering(offsets, text.text, text.marks)
            whole -= len(marks)
            ids, target = without(ids, target, marks, max_length, special[1])
        copies = [within(offsets, text.text, copy, special) for copy in text.copies]
        copies = copies or [np.arange(special[0], len(ids) - special[1])]
        room = max_length - sum(special)
        kept_ids, kept_target = cut_to(ids, target, copies, room, positions, keep_end)
        if len(kept_ids) < len(ids):
            windowed.append(row)
        if len(kept_ids) < whole:
            shortened.append(row)
        missing += not len(target)
        cut += len(kept_target) < len(target)
        kept.append(kept_ids)
        targets.append(kept_target if len(kept_target) else np.arange(len(kept_ids)))
    return LocatedTargets(
        Ragged.of(kept),
        Ragged.of(targets),
        np.array(windowed, dtype=np.int64),
        cut,
        missing,
        np.array(shortened, dtype=np.int64),
    )


def cut_to(
    ids: list[int],
    target: Positions,
    copies: Sequence[Positions],
    room: int,
    positions: int = 0,
    keep_end: bool = False,
) -> tuple[list[int], Positions]:
    """Cut a text, or each of its copies in a prompt, to ``room`` tokens; return the ids and the target's new positions.

    ``positions``: of the model, which may leave less room; 0 for any number. A long text is cut to a window around the
    target; to its start, or under ``keep_end`` to its end, if the target is the text.
    """
    alone, longest = len(ids) - sum(map(len, copies)), max(map(len, copies))
    if positions:
        room = min(room, (positions - alone) // len(copies))
    if room < 1:
        problem = f"the prompt alone has {alone} tokens, of the {positions} that the model reads"
        raise UsageError(
            problem if positions else "max_length leaves no token for a text",
            "Write a shorter prompt.",
        )
    if longest <= room:
        return ids, target
    last = copies[-1]
    if 0 < len(target) < len(last):
        start = window(len(last), target - last[0], room)
    else:
        start = len(last) - room if keep_end else 0
    cut = np.concatenate([part for copy in copies for part in (copy[:start], copy[start + room :])])
    kept = np.setdiff1d(np.arange(len(ids)), cut)
    return [ids[index] for index in kept], np.flatnonzero(np.isin(kept, target))


def covering(offsets: ArrayLike, text: str, spans: Sequence[tuple[int, int]]) -> Positions:
    """Return the positions of the tokens that cover a non-space character of the spans.

    ``offsets``: start and end of each token in the text; equal for special tokens.
    """
    wanted = np.zeros(len(text) + 1, dtype=np.int64)
    for start, end in spans:
        wanted[start + 1 : end + 1] = [not character.isspace() for character in text[start:end]]
    before = wanted.cumsum()  # before[i]: number of wanted characters among the first i
    starts, ends = np.asarray(offsets, dtype=np.int64).reshape(-1, 2).T
    return np.flatnonzero(before[ends] > before[starts])


def within(
    offsets: Sequence[tuple[int, int]], text: str, span: tuple[int, int], special: tuple[int, int]
) -> Positions:
    """Return the positions of all tokens of a copy of the text in a prompt, with spaces around it.

    ``special``: numbers of special tokens before and after the prompt.
    """
    starts, ends = np.asarray(offsets, dtype=np.int64)[special[0] : len(offsets) - special[1]].T
    last = len(starts) if span[1] == len(text) else (starts < span[1]).sum()
    return special[0] + np.arange((ends <= span[0]).sum(), last)


def window(n: int, target: Positions, room: int) -> int:
    """Return the start of a window of ``room`` tokens in a text of ``n``, around the target.

    The target is centred as far as the text's ends permit. The window starts with a target that is longer than it, and
    at 0 without a target.
    """
    if n <= room or not len(target):
        return 0
    first, last = int(target[0]), int(target[-1])
    middle = first + (last - first + 1) // 2 - room // 2 if last - first < room else first
    return min(max(middle, 0), n - room)


def without(
    ids: list[int], target: Positions, marks: Positions, max_length: int, after: int
) -> tuple[list[int], Positions]:
    """Cut token ids at the end unless that loses a mark, and remove the marks; return them and the target's positions.

    ``after``: number of special tokens at the end, which are always kept.
    """
    if len(ids) > max_length and marks[-1] < max_length - after:
        ids = ids[: max_length - after] + ids[len(ids) - after :]
    kept = np.delete(np.arange(len(ids)), marks)
    return [ids[index] for index in kept], np.searchsorted(kept, np.setdiff1d(target, marks))


class Targets(Protocol):
    """The protocol of positions of words' tokens: ``Ragged`` for one word a text, a plugin's class for several."""

    def take(self, rows: ArrayLike) -> Targets:
        """Return some of the texts, in the order given."""

    def weights(self, width: int) -> NDArray[np.float32]:
        """Return weights that average each word's tokens, shape (texts, width) or (texts, words, width)."""
