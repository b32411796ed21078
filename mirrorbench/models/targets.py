"""Where a text stands in its tokens: target words, windows around them, and texts inside a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirrorbench.core.errors import UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.models.batching import Ragged
from mirrorbench.models.pooling import TEXT

Positions = NDArray[np.int64]
Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LocatedTargets:
    """Token ids of inputs, special tokens included, and the positions of their targets."""

    ids: Ragged
    targets: Ragged | None
    """Positions in ``ids`` of each target's tokens, ascending; all positions if the target has no tokens. Under a
    prompt, those of the text itself where there is no target, of its last one where the prompt holds several."""
    windowed: Positions
    """Inputs of which a window around the target is read; of marked targets those that a cut at the end would lose."""
    cut: int
    """Number of targets that lost tokens, because they are longer than the window."""
    missing: int
    """Number of targets without tokens: the tokenizer drops their characters, or they are empty."""


def unprompted(item: TextInput) -> tuple[str, Spans, Spans]:
    """A text as it is, with its target's spans; all of it if there is no target."""
    return item.text, item.spans or ((0, len(item.text)),), ()


def marked(item: TextInput) -> tuple[str, Spans, Spans]:
    """A text with its target in ``[ `` and `` ]``, and spans of the target and of the marks.

    As paper 2's released code hands texts to the tokenizer. A text without a target has no marks.
    """
    text, spans, marks, done = "", [], [], 0
    for start, end in item.spans:
        text += item.text[done:start] + "[ "
        spans.append((len(text), len(text) + end - start))
        marks += [(len(text) - 2, len(text)), (spans[-1][1], spans[-1][1] + 2)]
        text += item.text[start:end] + " ]"
        done = end
    text += item.text[done:]
    return text, tuple(spans) or ((0, len(text)),), tuple(marks)


def prompted(prompt: str, item: TextInput) -> tuple[str, Spans, Spans]:
    """A text in a prompt, with the spans of its target and of all places of the text.

    The target is that of the last place, which a causal model reads when it knows the whole text; without a target it
    is the text.
    """
    parts = prompt.split(TEXT)
    starts = np.cumsum([len(part) for part in parts[:-1]]) + len(item.text) * np.arange(len(parts) - 1)
    places = tuple((int(start), int(start) + len(item.text)) for start in starts)
    last = places[-1][0]
    spans = tuple((last + start, last + end) for start, end in item.spans)
    return item.text.join(parts), spans or places[-1:], places


def fitted(
    ids: list[int], target: Positions, places: Sequence[Positions], room: int, positions: int
) -> tuple[list[int], Positions]:
    """Token ids with at most ``room`` of the text's at each of its places in a prompt, and the target's new positions.

    Fewer if a model of so many positions cannot read as many; 0 for any number. Of a long text a window around the
    target is kept, or its start if the target is the text.
    """
    alone, longest = len(ids) - sum(map(len, places)), max(map(len, places))
    if positions:
        room = min(room, (positions - alone) // len(places))
    if room < 1:
        problem = f"the prompt alone has {alone} tokens, of the {positions} that the model reads"
        raise UsageError(problem if positions else "max_length leaves no token for a text", "Write a shorter prompt.")
    if longest <= room:
        return ids, target
    last = places[-1]
    start = window(len(last), target - last[0], room) if 0 < len(target) < len(last) else 0
    cut = [span[(np.arange(len(span)) < start) | (np.arange(len(span)) >= start + room)] for span in places]
    kept = np.setdiff1d(np.arange(len(ids)), np.concatenate(cut))
    return [ids[index] for index in kept], np.flatnonzero(np.isin(kept, target))


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


def within(offsets: Sequence[tuple[int, int]], text: str, span: tuple[int, int], special: tuple[int, int]) -> Positions:
    """Positions of all tokens at a text's place in a prompt, those of spaces around it too.

    ``special``: numbers of special tokens before and after the whole.
    """
    starts, ends = np.asarray(offsets, dtype=np.int64)[special[0] : len(offsets) - special[1]].T
    last = len(starts) if span[1] == len(text) else (starts < span[1]).sum()
    return special[0] + np.arange((ends <= span[0]).sum(), last)


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


def without(
    ids: list[int], target: Positions, marks: Positions, max_length: int, after: int
) -> tuple[list[int], Positions]:
    """Token ids without those of marks, after a cut at the end unless it would lose a mark; the target's new positions.

    ``after``: number of special tokens at the end, which are always kept.
    """
    if len(ids) > max_length and marks[-1] < max_length - after:
        ids = ids[: max_length - after] + ids[len(ids) - after :]
    kept = np.delete(np.arange(len(ids)), marks)
    return [ids[index] for index in kept], np.searchsorted(kept, np.setdiff1d(target, marks))


class Targets(Protocol):
    """Positions of the tokens of words in texts: ``Ragged`` of one word a text, or what a plugin has of several."""

    def take(self, rows: ArrayLike) -> Targets:
        """Some of the texts, in the order given."""

    def weights(self, width: int) -> NDArray[np.float32]:
        """Weights over the tokens that average each word's, shape (texts, width) or (texts, words, width)."""
