"""One pass of a transformer over many texts: tokenise, batch by length, forward, pool; and its cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.core.devices import autocast, out_of_memory, release_memory
from mirrorbench.core.errors import EncodingError
from mirrorbench.core.inputs import Array, TextInput
from mirrorbench.models.batching import (
    MIN_TOKENS,
    PASS_COST,
    Ragged,
    equal_length_batches,
    prefetch,
    similar_length_batches,
)
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer

TEXTS_PER_CHUNK = 2048
"""Texts tokenised together, and sorted together by their tokens: while the model reads one chunk the next is made."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cost:
    """Work done by an encoder, reported in every result, part of no identity; costs can be added.

    Attributes:
        texts: texts encoded, once for each pass over them.
        tokens: their tokens, special tokens included, padding not.
        positions: what the model computed: tokens and padding.
        seconds: wall-clock time, tokenising included.
    """

    texts: int = 0
    tokens: int = 0
    positions: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def to_json(self) -> dict[str, float]:
        """As it stands in results: counts, the share of padding (0 to 1), and speeds per second."""
        seconds = max(self.seconds, 1e-9)
        return {
            "texts": self.texts,
            "tokens": self.tokens,
            "padding": round(1 - self.tokens / self.positions if self.positions else 0.0, 4),
            "seconds": round(self.seconds, 4),
            "texts_per_second": round(self.texts / seconds, 1),
            "tokens_per_second": round(self.tokens / seconds, 1),
        }


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some texts as the model reads them: their rows, token ids, and targets where the poolings want them."""

    rows: Rows
    ids: Ragged
    targets: Ragged | None
    windowed: Rows


@torch.inference_mode()
def encode_once(
    transformer: Transformer,
    inputs: Sequence[TextInput],
    poolings: Sequence[Pooling],
    precision: str,
    advance: Callable[[int], None],
) -> tuple[dict[Pooling, Array], Rows, Cost]:
    """One pass over each text.

    Args:
        transformer: the model.
        inputs: n texts.
        poolings: they share their maximum length. Is ``target`` among them, long texts are cut around their targets;
            is ``mean-padded``, all texts are padded to the maximum length.
        precision: ``fp32``, or ``bf16`` for autocast.
        advance: called with the number of texts done.

    Returns:
        For each pooling float32 of shape (n, dimensions); the rows of texts that were cut to a window around their
        target; and the cost, its seconds left out.
    """
    model, device = transformer.model.eval(), transformer.device
    vectors = {pooling: np.empty((len(inputs), model.config.hidden_size), dtype=np.float32) for pooling in poolings}
    pad_to = poolings[0].max_length if any(pooling.mode == "mean-padded" for pooling in poolings) else 0
    located = any(pooling.mode == "target" for pooling in poolings)
    tokens = positions = 0
    windowed = [np.empty(0, dtype=np.int64)]
    with closing(prefetch(_chunks(transformer, inputs, poolings[0].max_length, located))) as chunks:
        for chunk in chunks:
            order: list[int] = []
            found: list[list[torch.Tensor]] = []

            def forward(rows: list[int], chunk: _Chunk = chunk) -> list[torch.Tensor]:
                filled = [*rows, *rows[-1:] * _filling(device, chunk.ids.lengths[rows], pad_to)]
                targets = None if chunk.targets is None else chunk.targets.take(filled)
                with autocast(device, precision):
                    pooled = transformer.forward(chunk.ids.take(filled), poolings, pad_to, targets)
                return [some[: len(rows)] for some in pooled]

            for rows, batch in _within_memory(transformer, chunk.ids.lengths, pad_to, forward):
                found.append(batch)
                order += rows
                lengths = chunk.ids.lengths[rows]
                tokens += int(lengths.sum())
                positions += (len(rows) + _filling(device, lengths, pad_to)) * max(pad_to, int(lengths.max()))
                advance(len(rows))
            for pooling, batches in zip(poolings, zip(*found, strict=True), strict=True):
                vectors[pooling][chunk.rows[order]] = torch.cat(batches).cpu().numpy()
            windowed.append(chunk.windowed)
    return vectors, np.sort(np.concatenate(windowed)), Cost(len(inputs), tokens, positions)


def _chunks(transformer: Transformer, inputs: Sequence[TextInput], max_length: int, located: bool) -> Iterator[_Chunk]:
    """The texts, tokenised, those with most characters first."""
    # How many tokens a text has is not known yet; characters tell enough to keep the texts of a chunk alike.
    characters = np.array([len(item.text) for item in inputs], dtype=np.int64)
    many = len(inputs) > TEXTS_PER_CHUNK
    order = np.argsort(-characters, kind="stable") if many else np.arange(len(inputs))
    for start in range(0, len(order), TEXTS_PER_CHUNK):
        rows = order[start : start + TEXTS_PER_CHUNK]
        some = [inputs[row] for row in rows]
        if located:
            found = transformer.locate(some, max_length)
            yield _Chunk(rows, found.ids, found.targets, rows[found.windowed])
        else:
            yield _Chunk(rows, transformer.tokenize([item.text for item in some], max_length), None, rows[:0])


def _within_memory(
    transformer: Transformer, lengths: Rows, pad_to: int, forward: Callable[[list[int]], list[torch.Tensor]]
) -> Iterator[tuple[list[int], list[torch.Tensor]]]:
    """Batches and their vectors; the token budget is halved whenever the device has no memory left for one.

    On a CPU batches are such that vectors do not depend on the other texts; elsewhere such that the device is filled.

    Raises:
        EncodingError: there is no memory even for one text.
    """
    device, budget = transformer.device, transformer.budget
    waiting = deque(
        equal_length_batches(lengths, budget, pad_to)
        if device.type == "cpu"
        else similar_length_batches(lengths, budget, pad_to, PASS_COST[device.type])
    )
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
        width = max(pad_to, int(lengths[rows].max()))
        if len(rows) == 1:
            raise EncodingError(
                f"no memory left on {device} for one text of {width} tokens",
                "Add a smaller max_length to the encoder spec, or use --device cpu.",
            )
        transformer.budget = min(transformer.budget, len(rows) * width) // 2
        release_memory(device)
        halves = ((batch[: len(batch) // 2], batch[len(batch) // 2 :]) for batch in (rows, *waiting))
        waiting = deque(half for pair in halves for half in pair if half)


def _filling(device: torch.device, lengths: Rows, pad_to: int) -> int:
    """How often a batch's last text is read again on a CPU, so that no product there is of a few rows."""
    wanted = -(-MIN_TOKENS // max(1, pad_to, int(lengths.max())))
    return max(0, wanted - len(lengths)) if device.type == "cpu" else 0
