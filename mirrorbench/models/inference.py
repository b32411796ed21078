"""Passes over many texts: tokenised ahead of the model, sorted by length, read out in several ways at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.core.devices import autocast, out_of_memory, release_memory
from mirrorbench.core.errors import EncodingError
from mirrorbench.core.inputs import Array, TextInput
from mirrorbench.models.batching import MIN_TOKENS, PASS_COST, equal_length_batches, similar_length_batches
from mirrorbench.models.cost import Cost
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.prefetch import prefetch
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.transformer import Transformer

CHUNK = 2048
"""Texts tokenised together, and sorted together by their tokens: while the model reads one chunk the next is made."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over n texts gave.

    Attributes:
        vectors: by pooling, float32 of shape (n, dimensions).
        moved: rows of those texts that were cut to a window around their target.
        cost: texts, tokens and positions; seconds are left to who knows when it began.
    """

    vectors: dict[Pooling, Array]
    moved: NDArray[np.int64]
    cost: Cost


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some texts as the model reads them: their rows, token ids, and targets where the poolings want them."""

    rows: NDArray[np.int64]
    ids: Ragged
    targets: Ragged | None
    moved: NDArray[np.int64]


@torch.inference_mode()
def read(
    transformer: Transformer,
    inputs: Sequence[TextInput],
    poolings: Sequence[Pooling],
    precision: str,
    advance: Callable[[int], None],
) -> Pass:
    """One pass over each text.

    Args:
        transformer: the model.
        inputs: n texts.
        poolings: what to read; they share their maximum length. Is ``target`` among them, long texts are cut around
            their targets; is ``mean-padded``, all texts are padded to the maximum length.
        precision: ``fp32``, or ``bf16`` for autocast.
        advance: called with the number of texts done.
    """
    model = transformer.model.eval()
    shape = (len(inputs), model.config.hidden_size)
    vectors = {pooling: np.empty(shape, dtype=np.float32) for pooling in poolings}
    fixed = poolings[0].max_length if any(r.mode == "mean-padded" for r in poolings) else 0
    aimed = any(r.mode == "target" for r in poolings)
    tokens = positions = 0
    moved = [np.empty(0, dtype=np.int64)]
    with closing(prefetch(_chunks(transformer, inputs, poolings[0].max_length, aimed))) as chunks:
        for chunk in chunks:
            order: list[int] = []
            found: list[list[torch.Tensor]] = []

            def forward(rows: list[int], chunk: _Chunk = chunk) -> list[torch.Tensor]:
                taken = [*rows, *rows[-1:] * _missing(transformer.device, chunk.ids.lengths[rows], fixed)]
                targets = None if chunk.targets is None else chunk.targets.take(taken)
                with autocast(transformer.device, precision):
                    vectors = transformer.forward(chunk.ids.take(taken), poolings, fixed, targets)
                return [some[: len(rows)] for some in vectors]

            for rows, batch in _within_memory(transformer, chunk.ids.lengths, fixed, forward):
                found.append(batch)
                order += rows
                lengths = chunk.ids.lengths[rows]
                tokens += int(lengths.sum())
                computed = len(rows) + _missing(transformer.device, lengths, fixed)
                positions += computed * max(fixed, int(lengths.max()))
                advance(len(rows))
            for pooling, batches in zip(poolings, zip(*found, strict=True), strict=True):
                vectors[pooling][chunk.rows[order]] = torch.cat(batches).cpu().numpy()
            moved.append(chunk.moved)
    return Pass(vectors, np.sort(np.concatenate(moved)), Cost(len(inputs), tokens, positions))


def _within_memory(
    transformer: Transformer,
    lengths: NDArray[np.int64],
    fixed: int,
    forward: Callable[[list[int]], list[torch.Tensor]],
) -> Iterator[tuple[list[int], list[torch.Tensor]]]:
    """Batches under the model's token budget, which is halved whenever the device has no memory left for one.

    Raises:
        EncodingError: there is none even for one text.
    """
    waiting = deque(_batches(transformer, lengths, fixed))
    while waiting:
        rows = waiting.popleft()
        try:
            vectors = forward(rows)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            vectors = None  # what failed holds memory until this block is left
        if vectors is not None:
            yield rows, vectors
            continue
        if len(rows) == 1:
            raise EncodingError(
                f"no memory left on {transformer.device} for one text of {max(fixed, int(lengths[rows[0]]))} tokens",
                "Add a smaller max_length to the encoder spec, or use --device cpu.",
            )
        width = max(fixed, int(lengths[rows].max()))
        transformer.budget = min(transformer.budget, len(rows) * width) // 2
        release_memory(transformer.device)
        halves = ((batch[: len(batch) // 2], batch[len(batch) // 2 :]) for batch in (rows, *waiting))
        waiting = deque(half for pair in halves for half in pair if half)


def _batches(transformer: Transformer, lengths: NDArray[np.int64], fixed: int) -> Iterator[list[int]]:
    """On a CPU such that vectors do not depend on the other texts; elsewhere such that the device is filled."""
    kind = transformer.device.type
    if kind == "cpu":
        return equal_length_batches(lengths, transformer.budget, fixed)
    return similar_length_batches(lengths, transformer.budget, fixed, PASS_COST[kind])


def _missing(device: torch.device, lengths: NDArray[np.int64], fixed: int) -> int:
    """How many texts more a batch needs, so that it is no product of a few rows on a CPU; its last is read again."""
    wanted = -(-MIN_TOKENS // max(1, fixed, int(lengths.max())))
    return max(0, wanted - len(lengths)) if device.type == "cpu" else 0


def _chunks(transformer: Transformer, inputs: Sequence[TextInput], max_length: int, aimed: bool) -> Iterator[_Chunk]:
    """The texts, tokenised, those with most characters first."""
    # How many tokens a text has is not known yet; characters tell enough to keep the texts of a chunk alike.
    characters = np.array([len(item.text) for item in inputs], dtype=np.int64)
    many = len(inputs) > CHUNK
    order = np.argsort(-characters, kind="stable") if many else np.arange(len(inputs))
    for start in range(0, len(order), CHUNK):
        rows = order[start : start + CHUNK]
        some = [inputs[row] for row in rows]
        if aimed:
            located = transformer.locate(some, max_length)
            yield _Chunk(rows, located.ids, located.targets, rows[located.moved])
        else:
            ids = transformer.tokenize([item.text for item in some], max_length)
            yield _Chunk(rows, ids, None, rows[:0])
