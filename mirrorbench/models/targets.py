"""Target words: from character spans to token positions, within the window that a model can read.

A token belongs to a target if it covers at least one of its characters that is no space: tokens of byte-level
tokenizers include the space before a word, and a span may too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.inputs import TextInput
from mirrorbench.models.batching import Ragged

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LocatedTargets:
    """Token ids of inputs, special tokens included, and the positions of their targets."""

    ids: Ragged
    targets: Ragged
    """Positions in ``ids`` of each target's tokens, ascending; all positions if the target has no tokens."""
    windowed: Positions
    """Inputs that were cut to a window around their target."""
    cut: int
    """Number of targets that lost tokens, because they are longer than the window."""
    missing: int
    """Number of targets without tokens: the tokenizer drops their characters, or they are empty."""


def stripped(item: TextInput) -> tuple[str, tuple[tuple[int, int], ...]]:
    """An input's text without surrounding spaces, and its target's spans in it; all of it if there is no target."""
    text = item.text.strip()
    if not item.spans:
        return text, ((0, len(text)),)
    shift = len(item.text) - len(item.text.lstrip())
    return text, tuple((max(0, start - shift), max(0, end - shift)) for start, end in item.spans)


def covering(offsets: ArrayLike, text: str, spans: Sequence[tuple[int, int]]) -> Positions:
    """Positions of the tokens that cover a non-space character of the target.

    ``offsets``: each token's first character and the one after its last; equal for special tokens.
    """
    wanted = np.zeros(len(text) + 1, dtype=np.int64)
    for start, end in spans:
        wanted[start + 1 : end + 1] = [not character.isspace() for character in text[start:end]]
    before = wanted.cumsum()  # before[i]: how many of the first i characters are wanted
    starts, ends = np.asarray(offsets, dtype=np.int64).reshape(-1, 2).T
    return np.flatnonzero(before[ends] > before[starts])


def window(n: int, target: Positions, room: int) -> int:
    """Start of a window of ``room`` tokens in a text of ``n`` that shows as much of the target as possible.

    The target is centred as far as the text's ends permit; of a target longer than the window the first tokens are
    kept. Without a target the text is cut at its end.
    """
    if n <= room or not len(target):
        return 0
    first, last = int(target[0]), int(target[-1])
    middle = first + (last - first + 1) // 2 - room // 2 if last - first < room else first
    return min(max(middle, 0), n - room)


def cut_to(ids: list[int], target: Positions, max_length: int, special: tuple[int, int]) -> tuple[list[int], Positions]:
    """Token ids cut to a window around their target, and the new positions of the target's tokens that are kept.

    ``special``: numbers of special tokens before and after the text, which are always kept.
    """
    if len(ids) <= max_length:
        return ids, target
    before, after = special
    room = max_length - before - after
    start = window(len(ids) - before - after, target - before, room)
    kept = ids[:before] + ids[before + start : before + start + room] + ids[len(ids) - after :]
    positions = target - start
    return kept, positions[(positions >= before) & (positions < before + room)]


def target_weights(targets: Ragged, width: int) -> NDArray[np.float32]:
    """Weights that average over each target's tokens: 1 / k at its k positions, shape (len(targets), width)."""
    lengths = targets.lengths
    matrix = np.zeros((len(targets), width), dtype=np.float32)
    matrix[np.arange(len(targets)).repeat(lengths), targets.values] = (1 / lengths).repeat(lengths)
    return matrix
