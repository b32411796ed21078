"""Target words: from character spans to the tokens that stand for them, inside the window that a model can read.

Offsets say which characters of the text each token stands for. A token belongs to a target if it stands for at least
one character of it that is no space: byte-level tokens carry the space before a word, and a span may too.
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
    """Token ids of inputs, special tokens included, and where their targets are."""

    ids: Ragged
    targets: Ragged
    """Positions of each target's tokens in ``ids``, rising; where no token stands for the target, all positions."""
    windowed: Positions
    """Inputs that were too long and cut to a window around their target."""
    cut: int
    """How many targets lost some of their tokens, because they are longer than the window."""
    missing: int
    """How many targets no token stands for: the tokenizer drops their characters, or there are none."""


def stripped(item: TextInput) -> tuple[str, tuple[tuple[int, int], ...]]:
    """An input's text without the spaces around it, and its target's spans in that text: without a target all of it."""
    text = item.text.strip()
    if not item.spans:
        return text, ((0, len(text)),)
    shift = len(item.text) - len(item.text.lstrip())
    return text, tuple((max(0, start - shift), max(0, end - shift)) for start, end in item.spans)


def covering(offsets: ArrayLike, text: str, spans: Sequence[tuple[int, int]]) -> Positions:
    """Positions of the tokens that stand for a character of the target that is no space.

    ``offsets`` are the first character of each token and the one after its last; equal for special tokens.
    """
    wanted = np.zeros(len(text) + 1, dtype=np.int64)
    for start, end in spans:
        wanted[start + 1 : end + 1] = [not character.isspace() for character in text[start:end]]
    before = wanted.cumsum()  # before[i]: how many of the first i characters are wanted
    starts, ends = np.asarray(offsets, dtype=np.int64).reshape(-1, 2).T
    return np.flatnonzero(before[ends] > before[starts])


def window(n: int, target: Positions, room: int) -> int:
    """Where the window of ``room`` tokens starts in a text of ``n``, so that it shows as much as can be of the target.

    The middle of the target comes into the middle of the window, as far as the ends of the text permit; of a target
    that is longer than the window, the first tokens stay. A text that fits stays whole; one without a target is cut
    at its end.
    """
    if n <= room or not len(target):
        return 0
    first, last = int(target[0]), int(target[-1])
    middle = first + (last - first + 1) // 2 - room // 2 if last - first < room else first
    return min(max(middle, 0), n - room)


def cut_to(ids: list[int], target: Positions, max_length: int, special: tuple[int, int]) -> tuple[list[int], Positions]:
    """Token ids cut to a window around their target, and the positions in them of the target's tokens that are kept.

    The special tokens stay: so many, as ``special`` says, before and after the text.
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
    """Rows that average over the tokens of each target: 1 / k at its k positions, shape (len(targets), width)."""
    lengths = targets.lengths
    matrix = np.zeros((len(targets), width), dtype=np.float32)
    matrix[np.arange(len(targets)).repeat(lengths), targets.values] = (1 / lengths).repeat(lengths)
    return matrix
