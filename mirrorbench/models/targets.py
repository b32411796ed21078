"""Positions of target words in tokens, windows around them, and copies of a text inside a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.models.pooling import TEXT
from mirrorbench.models.ragged import Ragged

Positions = NDArray[np.int64]
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LocatedTargets:
    """Token ids of inputs, special tokens included, and the positions of their targets."""

    ids: Ragged
    targets: Ragged | None = None
    """Ascending positions in ``ids`` of each target's tokens (see ``PlacedText``); all positions if it has none."""
    windowed: Positions = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Indices of the inputs cut to a window around the target. With marks, only of those whose target a cut at the end
    would lose."""
    n_cut: int = 0
    """Number of targets with lost tokens, since they are longer than the window."""
    n_missing: int = 0
    """Number of targets without tokens, since they are empty or the tokenizer drops their characters."""
    shortened: Positions = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Indices of the inputs that lose tokens, whether around a window or at the end."""


class PlacedText(NamedTuple):
    """A text as it is tokenised, and character spans in it."""

    text: str
    target: Spans
    """Parts of the target; for an input without one, the whole text, or its last copy in a prompt."""
    marks: Spans = ()
    """Marks around the target, whose tokens are removed."""
    copies: Spans = ()
    """Copies of the text in a prompt."""


def placed_text(item: TextInput, with_marks: bool, prompt: str) -> PlacedText:
    """Return a text as it is tokenised: in a prompt, with marks around its target, or unchanged."""
    if prompt:
        return prompted_text(item, prompt)
    if with_marks:
        return marked_text(item)
    return PlacedText(item.text, item.spans or ((0, len(item.text)),))


def marked_text(item: TextInput) -> PlacedText:
    """Return the text with each target between ``[ `` and `` ]``, as in paper 2's released code."""
    text = ""
    spans = []
    mark_spans = []
    end_of_last = 0
    for start, end in item.spans:
        text += item.text[end_of_last:start] + "[ "
        new_start = len(text)
        text += item.text[start:end]
        new_end = len(text)
        text += " ]"
        spans.append((new_start, new_end))
        mark_spans.append((new_start - 2, new_start))
        mark_spans.append((new_end, new_end + 2))
        end_of_last = end
    text += item.text[end_of_last:]
    # Without a target, the whole text is one.
    return PlacedText(text, tuple(spans) or ((0, len(text)),), tuple(mark_spans))


def prompted_text(item: TextInput, prompt: str) -> PlacedText:
    """Return the text in a prompt, with the target in its last copy, where a causal model has seen the whole text."""
    before, *after_copies = prompt.split(TEXT)
    text = before
    copies = []
    for after in after_copies:
        start = len(text)
        text += item.text
        copies.append((start, len(text)))
        text += after
    last_start, _ = copies[-1]
    spans = tuple((last_start + start, last_start + end) for start, end in item.spans)
    return PlacedText(text, spans or (copies[-1],), copies=tuple(copies))


def locate_targets(
    texts: Sequence[PlacedText],
    all_ids: Sequence[list[int]],
    all_offsets: Sequence[Sequence[tuple[int, int]]],
    max_length: int,
    n_special: tuple[int, int],
    n_positions: int,
    keep_end: bool = False,
) -> LocatedTargets:
    """Locate the targets in the token ids of texts, and cut long texts to ``max_length``.

    Args:
        texts: the texts.
        all_ids: token ids of each text.
        all_offsets: start and end of each token in its text.
        max_length: maximum number of tokens of a text, special tokens included.
        n_special: numbers of special tokens before and after a text.
        n_positions: number of positions of the model, 0 if unknown.
        keep_end: whether to keep the end of long texts without a target, as tokenizers do that cut at the left.

    Raises:
        UsageError: no token is left for a text.
    """
    n_before, n_after = n_special
    max_tokens = max_length - n_before - n_after
    ids_after_cut: list[list[int]] = []
    targets: list[Positions] = []
    rows_with_window: list[int] = []
    shortened_rows: list[int] = []
    n_cut = 0
    n_missing = 0
    for row, (text, ids, offsets) in enumerate(zip(texts, all_ids, all_offsets, strict=True)):
        target = covering(offsets, text.text, text.target)
        # Remove marks. They do not count as text: a text that only loses marks is not shortened.
        whole_length = len(ids)
        if text.marks:
            marks = covering(offsets, text.text, text.marks)
            whole_length -= len(marks)
            ids, target = without_marks(ids, target, marks, max_length, n_after)
        # Cut the text wherever it stands in its prompt; without a prompt it is all but the special tokens.
        copies = [tokens_of_copy(offsets, text.text, copy, n_special) for copy in text.copies]
        if not copies:
            copies = [np.arange(n_before, len(ids) - n_after)]
        cut_ids, cut_target = cut_to(ids, target, copies, max_tokens, n_positions, keep_end)
        # Record what is lost. A text that lost only marks and tokens at its end, both above, has no window.
        if len(cut_ids) < len(ids):
            rows_with_window.append(row)
        if len(cut_ids) < whole_length:
            shortened_rows.append(row)
        if len(target) == 0:
            n_missing += 1
        if len(cut_target) < len(target):
            n_cut += 1
        ids_after_cut.append(cut_ids)
        # A text whose target has no tokens is read as a whole.
        targets.append(cut_target if len(cut_target) else np.arange(len(cut_ids)))
    return LocatedTargets(
        ids=Ragged.of(ids_after_cut),
        targets=Ragged.of(targets),
        windowed=np.array(rows_with_window, dtype=np.int64),
        n_cut=n_cut,
        n_missing=n_missing,
        shortened=np.array(shortened_rows, dtype=np.int64),
    )


def cut_to(
    ids: list[int],
    target: Positions,
    copies: Sequence[Positions],
    max_tokens: int,
    n_positions: int = 0,
    keep_end: bool = False,
) -> tuple[list[int], Positions]:
    """Cut a text, or each of its copies in a prompt, to ``max_tokens``; return the ids and the target's new positions.

    Args:
        ids: token ids, with those of the prompt and special tokens, which are always kept.
        target: positions in ``ids`` of the target, around which a window of a long text is kept. If they are all of
            the text or none, its start is kept.
        copies: positions in ``ids`` of each copy of the text.
        max_tokens: maximum number of tokens of a copy.
        n_positions: number of positions of the model, which may allow fewer tokens; 0 if unknown.
        keep_end: whether to keep the end of a long text without a target word instead of the start.

    Raises:
        UsageError: no token is left.
    """
    # Tokens of the prompt and special tokens; the copies share the other positions.
    prompt_length = len(ids) - sum(map(len, copies))
    if n_positions:
        max_tokens = min(max_tokens, (n_positions - prompt_length) // len(copies))
    if max_tokens < 1:
        problem = "max_length leaves no token for a text"
        if n_positions:
            problem = f"the prompt alone has {prompt_length} tokens, of the {n_positions} that the model reads"
        raise UsageError(problem, "Write a shorter prompt.")
    if max(map(len, copies)) <= max_tokens:
        return ids, target

    # The target is in the last copy: a part of it, or for a text without a target word all of it or nothing.
    last_copy = copies[-1]
    if 0 < len(target) < len(last_copy):
        start = window_start(len(last_copy), target - last_copy[0], max_tokens)
    elif keep_end:
        # Not below 0: an earlier copy may be longer than the last one.
        start = max(0, len(last_copy) - max_tokens)
    else:
        start = 0

    # Keep the same window of each copy, and the whole prompt.
    is_kept = np.ones(len(ids), dtype=bool)
    for copy in copies:
        is_kept[copy[:start]] = False
        is_kept[copy[start + max_tokens :]] = False
    kept = np.flatnonzero(is_kept)
    new_target = np.flatnonzero(np.isin(kept, target))
    return [ids[index] for index in kept], new_target


def covering(offsets: ArrayLike, text: str, spans: Sequence[tuple[int, int]]) -> Positions:
    """Return the positions of the tokens that cover a non-space character of the spans.

    ``offsets``: start and end of each token in the text; equal for special tokens.
    """
    # counts[i]: number of non-space characters of the spans among the first i characters
    counts = np.zeros(len(text) + 1, dtype=np.int64)
    for start, end in spans:
        counts[start + 1 : end + 1] = [not character.isspace() for character in text[start:end]]
    counts = counts.cumsum()
    starts, ends = np.asarray(offsets, dtype=np.int64).reshape(-1, 2).T
    return np.flatnonzero(counts[ends] > counts[starts])


def tokens_of_copy(
    offsets: Sequence[tuple[int, int]], text: str, span: tuple[int, int], n_special: tuple[int, int]
) -> Positions:
    """Return the positions of all tokens of a copy of the text in a prompt, those of spaces around it included.

    ``n_special``: numbers of special tokens before and after the prompt.
    """
    n_before, n_after = n_special
    span_start, span_end = span
    starts, ends = np.asarray(offsets, dtype=np.int64)[n_before : len(offsets) - n_after].T
    first = (ends <= span_start).sum()
    # A copy at the end of the prompt has all remaining tokens.
    stop = len(starts) if span_end == len(text) else (starts < span_end).sum()
    return n_before + np.arange(first, stop)


def window_start(n: int, target: Positions, size: int) -> int:
    """Return the start of a window of ``size`` tokens around the target, in a text of ``n`` tokens.

    The target is centred as far as the text's ends permit. A target that is longer than the window starts with it. The
    start is 0 without a target, and for a text that fits into the window.
    """
    if n <= size or not len(target):
        return 0
    first = int(target[0])
    last = int(target[-1])
    start = first
    if last - first < size:
        start = first + (last - first + 1) // 2 - size // 2
    return min(max(start, 0), n - size)


def without_marks(
    ids: list[int], target: Positions, marks: Positions, max_length: int, n_after: int
) -> tuple[list[int], Positions]:
    """Return token ids without those of marks, and the target's new positions.

    The ids are cut to ``max_length`` (marks included) at the end, unless that would lose a mark. ``n_after``: number of
    special tokens at the end, which are always kept.
    """
    if len(ids) > max_length and marks[-1] < max_length - n_after:
        ids = ids[: max_length - n_after] + ids[len(ids) - n_after :]
    kept = np.delete(np.arange(len(ids)), marks)
    return [ids[index] for index in kept], np.searchsorted(kept, np.setdiff1d(target, marks))


class Targets(Protocol):
    """The protocol of positions of target words in texts: ``Ragged`` for one word a text, or a class for several."""

    def take(self, rows: ArrayLike) -> Targets:
        """Return some of the texts, in the order given."""

    def weights(self, width: int) -> NDArray[np.float32]:
        """Return weights that average each word's tokens, shape (texts, width) or (texts, words, width)."""
