"""Encoders of transformers: they tokenise texts, batch them by length, run the model, pool, and count the cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.core.devices import autocast, device_type, fetched
from mirrorbench.core.encoder_protocol import (
    Array,
    TextInput,
    as_inputs,
    check_inputs,
    check_vectors,
)
from mirrorbench.core.errors import EncodingError
from mirrorbench.core.truncation import Truncation, truncation_of
from mirrorbench.models import batching
from mirrorbench.models.batching import Ragged
from mirrorbench.models.fingerprints import fingerprint
from mirrorbench.models.pooling import LostTargets, Pooling
from mirrorbench.models.targets import Targets
from mirrorbench.models.transformer import Transformer

TEXTS_PER_CHUNK = 2048
"""Texts tokenised and sorted together, while the model runs on the chunk before."""

_Rows = NDArray[np.int64]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Cost:
    """Work done by an encoder: part of each result and of no identity. Costs can be added."""

    texts: int = 0
    """Texts encoded; a text counts once per pass."""
    tokens: int = 0
    """Tokens with special tokens, without padding."""
    positions: int = 0
    """Tokens and padding."""
    seconds: float = 0.0
    """Wall-clock time, with tokenisation."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def to_json(self) -> dict[str, float]:
        """Return the costs as results store them: counts, share of padding (0 to 1), speeds per second."""
        seconds = max(self.seconds, 1e-9)
        return {
            "texts": self.texts,
            "tokens": self.tokens,
            "padding": round(1 - self.tokens / self.positions if self.positions else 0.0, 4),
            "seconds": round(self.seconds, 4),
            "texts_per_second": round(self.texts / seconds, 1),
            "tokens_per_second": round(self.tokens / seconds, 1),
        }


class TransformerEncoder:
    """A ``Transformer`` with a pooling for ``encode``; ``cost`` is the sum over all its encoding.

    ``precision``: ``fp32``, or ``bf16`` for autocast. ``fingerprint``: identity of the weights, by default a checksum
    of the model's directory.
    """

    def __init__(
        self,
        transformer: Transformer,
        pooling: Pooling,
        precision: str = "fp32",
        fingerprint: str = "",
    ) -> None:
        self.transformer = transformer
        self.pooling = pooling
        self.precision = precision
        self.cost = Cost()
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """Identity of the weights, without pooling and precision."""
        return self._fingerprint or fingerprint(self.transformer.path)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for results."""
        note = self.transformer.missing_embeddings.note
        return (note,) if note else ()

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that the model cannot read."""
        return bool(self.transformer.missing_embeddings.names)

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Pooling] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that the model cannot read."""
        if not self.refuses_texts:
            return
        for pooling in poolings or [self.pooling]:
            for start in range(0, len(inputs), TEXTS_PER_CHUNK):
                self.transformer.read(inputs[start : start + TEXTS_PER_CHUNK], pooling)

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Return the vectors of texts, float32 of shape (n, dimensions)."""
        return self.encode_pooled(as_inputs(inputs), [self.pooling])[0]

    def encode_pooled(
        self,
        inputs: Sequence[TextInput],
        poolings: Sequence[Pooling],
        advance: Callable[[int], None] = lambda n: None,
    ) -> list[Array]:
        """Return one array per pooling, float32 of shape (n, dimensions), after as few passes as possible.

        ``advance`` is called with the number of texts done since its last call; ``len(inputs)`` over all passes.
        """
        self.check_inputs(inputs, poolings)
        started = time.perf_counter()
        encoded: dict[Pooling, Array] = {}
        groups: dict[tuple[Any, ...], dict[Pooling, None]] = {}
        for pooling in poolings:
            of_target = pooling.of_target and bool(pooling.prompt)
            groups.setdefault((pooling.max_length, pooling.marked, pooling.prompt, of_target), {})[
                pooling
            ] = None
        for number, group in enumerate(map(list, groups.values()), 1):
            vectors, windowed = self._pass(
                inputs, group, advance if number == len(groups) else lambda n: None
            )
            plain = [pooling for pooling in group if not pooling.of_target]
            if plain and len(
                windowed
            ):  # these read the start of long texts, not a window around the target
                for pooling, from_start in self._pass([inputs[row] for row in windowed], plain)[
                    0
                ].items():
                    vectors[pooling][windowed] = from_start
            encoded |= vectors
        self.cost += Cost(seconds=time.perf_counter() - started)
        return [
            check_vectors(encoded[p], len(inputs), f"the model {self.transformer.path.name}")
            for p in poolings
        ]

    @torch.inference_mode()
    def _pass(
        self,
        inputs: Sequence[TextInput],
        poolings: list[Pooling],
        advance: Callable[[int], None] = lambda n: None,
    ) -> tuple[dict[Pooling, Array], _Rows]:
        """Return the vectors under poolings that read the same tokens, and the rows cut to a window around a target."""
        shape = len(inputs), self.transformer.dimensions
        vectors = {pooling: np.empty(shape, dtype=np.float32) for pooling in poolings}
        pad_to = (
            poolings[0].max_length
            if any(pooling.mode == "mean-padded" for pooling in poolings)
            else 0
        )
        all_windowed = [np.empty(0, dtype=np.int64)]
        with closing(self._chunks(inputs, poolings, pad_to, advance)) as chunks:
            for rows, arrays, windowed in one_behind(chunks):
                for pooling, array in zip(poolings, arrays, strict=True):
                    chunk = array()
                    if (
                        chunk.shape[1] != vectors[pooling].shape[1]
                    ):  # only a plugin's first vectors show its dimensions
                        vectors[pooling] = np.empty((len(inputs), chunk.shape[1]), dtype=np.float32)
                    vectors[pooling][rows] = chunk
                all_windowed.append(windowed)
        return vectors, np.sort(np.concatenate(all_windowed))

    def _chunks(
        self,
        inputs: Sequence[TextInput],
        poolings: list[Pooling],
        pad_to: int,
        advance: Callable[[int], None],
    ) -> Generator[tuple[_Rows, list[Callable[[], Array]], _Rows], None, None]:
        """Yield chunks whose computation has started: rows, functions that wait for the vectors, and windowed rows."""
        with closing(batching.prefetch(_tokenised(self.transformer, inputs, poolings))) as chunks:
            for chunk_rows, ids, targets, windowed in chunks:
                order: list[int] = []
                pooled: list[list[torch.Tensor]] = []
                for rows, batch in self.batches(ids, targets, poolings, pad_to):
                    order += rows
                    pooled.append(batch)
                    advance(len(rows))
                arrays = [fetched(torch.cat(batches)) for batches in zip(*pooled, strict=True)]
                yield chunk_rows[order], arrays, windowed

    def batches(
        self, ids: Ragged, targets: Targets | None, poolings: Sequence[Pooling], pad_to: int
    ) -> Iterator[tuple[list[int], list[torch.Tensor]]]:
        """Yield batches with their vectors; the token budget is halved whenever the device runs out of memory.

        Batches are packed rows if the model packs; else texts of one length on a CPU, where no vector depends on other
        texts, and texts of similar length on a GPU, which they fill.
        """
        self.transformer.model.eval()
        device, lengths, budget = self.transformer.device, ids.lengths, self.transformer.budget
        packed = self.transformer.traits.packs and not pad_to
        cost = 0 if device.type == "cpu" else batching.PASS_COST[device_type(device)]
        similar = batching.similar_length_batches(lengths, budget, pad_to, cost)
        batches = batching.even_batches(lengths, budget) if packed else similar

        def too_large(tokens: int) -> None:
            self.transformer.budget = min(self.transformer.budget, tokens) // 2

        forward = partial(
            self._forward, ids=ids, targets=targets, poolings=poolings, pad_to=pad_to, packed=packed
        )
        return batching.within_memory(
            batches, forward, device, np.maximum(pad_to, lengths), too_large
        )

    def _forward(
        self,
        rows: list[int],
        ids: Ragged,
        targets: Targets | None,
        poolings: Sequence[Pooling],
        pad_to: int,
        packed: bool,
    ) -> list[torch.Tensor]:
        """Return the vectors of a batch, whose last text is repeated up to ``min_tokens`` on a CPU."""
        n, lengths = len(rows), np.maximum(pad_to, ids.lengths[rows])
        width, device = int(lengths.max()), self.transformer.device
        computed = int(lengths.sum()) if packed else n * width
        if (
            device.type == "cpu"
            and (short := batching.min_tokens(self.transformer.model.config) - computed) > 0
        ):
            more = -(-short // int(lengths[-1]))
            rows, computed = rows + rows[-1:] * more, computed + more * int(lengths[-1])
        with autocast(device, self.precision):
            pooled = self.transformer.forward(
                ids.take(rows),
                poolings,
                pad_to,
                None if targets is None else targets.take(rows),
                packed,
            )
        self.cost += Cost(n, int(ids.lengths[rows[:n]].sum()), computed)
        return [vectors[:n] for vectors in pooled]

    @torch.inference_mode()
    def encode_ids(self, ids: Ragged, advance: Callable[[int], None] = lambda n: None) -> Array:
        """Return the vectors of rows of token ids with special tokens, float32 of shape (n, dimensions)."""
        vectors = np.empty((len(ids), self.transformer.dimensions), dtype=np.float32)
        batches = self.batches(ids, None, [self.pooling], 0)
        for rows, array in one_behind((rows, fetched(pooled)) for rows, (pooled,) in batches):
            vectors[rows] = array()
            advance(len(rows))
        return vectors

    def count_cut(self, inputs: Sequence[TextInput], pooling: Pooling | None = None) -> Truncation:
        """Count the inputs that are longer than a pooling reads, by default the encoder's."""
        pooling = pooling or self.pooling
        transformer = self.transformer
        cut = 0
        for start in range(0, len(inputs), TEXTS_PER_CHUNK):
            cut += transformer.count_cut(inputs[start : start + TEXTS_PER_CHUNK], pooling)
        window, most = transformer.window(pooling), transformer.most_of_text(pooling.prompt)
        return Truncation(cut, len(inputs), window, most)

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """Count the texts cut to a window, the targets cut, and the targets without tokens."""
        located = self.transformer.read(inputs, pooling)
        return LostTargets(len(located.windowed), located.cut, located.missing)


def one_behind(started: Iterator[_T]) -> Iterator[_T]:
    """Yield each item after the start of the next one, so that a GPU computes while results are fetched."""
    return (item for item, _ in pairwise(chain(started, [None])))  # type: ignore[misc]


def _tokenised(
    transformer: Transformer, inputs: Sequence[TextInput], poolings: Sequence[Pooling]
) -> Iterator[tuple[_Rows, Ragged, Ragged | None, _Rows]]:
    """Yield chunks of texts, longest first by characters: rows, token ids, targets, and windowed rows."""
    characters = np.array([len(item.text) for item in inputs], dtype=np.int64)
    pooling = next((pooling for pooling in poolings if pooling.of_target), poolings[0])
    order = (
        np.argsort(-characters, kind="stable")
        if len(inputs) > TEXTS_PER_CHUNK
        else np.arange(len(inputs))
    )
    for start in range(0, len(order), TEXTS_PER_CHUNK):
        rows = order[start : start + TEXTS_PER_CHUNK]
        located = transformer.read([inputs[row] for row in rows], pooling)
        yield rows, located.ids, located.targets, rows[located.windowed]


@dataclass(eq=False)
class LanguageRouter:
    """Encoders by language (ISO 639-1), for cross-lingual tasks with monolingual backbones (paper 1, section 4.3)."""

    encoders: Mapping[str, Any]
    fingerprint: str
    """Identity of all encoders together."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all encoders for results."""
        notes = (getattr(encoder, "notes", ()) for encoder in self.encoders.values())
        return tuple(dict.fromkeys(chain.from_iterable(notes)))

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that an encoder cannot read."""
        return any(getattr(encoder, "refuses_texts", False) for encoder in self.encoders.values())

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Pooling] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text that the encoder of its language cannot read."""
        for language, encoder in self.encoders.items():
            own = [item for item in inputs if item.language == language]
            check_inputs(encoder, own, poolings)

    @property
    def cost(self) -> Cost:
        """Sum over the encoders that count their cost."""
        return sum((getattr(encoder, "cost", Cost()) for encoder in self.encoders.values()), Cost())

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Return the vectors of inputs by the encoders of their languages, float32 of shape (n, dimensions)."""
        return self._routed(inputs, lambda encoder, own: [encoder.encode(own)])[0]

    def encode_pooled(
        self,
        inputs: Sequence[TextInput],
        poolings: Sequence[Pooling],
        advance: Callable[[int], None] = lambda n: None,
    ) -> list[Array]:
        """Return one array of vectors per pooling."""
        return self._routed(
            inputs, lambda encoder, own: encoder.encode_pooled(own, poolings, advance)
        )

    def count_cut(
        self, inputs: Sequence[TextInput], pooling: Pooling | None = None
    ) -> Truncation | None:
        """Count the inputs that are longer than the encoder of their language reads."""
        own = (
            (encoder, [item for item in inputs if item.language == language])
            for language, encoder in self.encoders.items()
        )
        return Truncation.total(truncation_of(encoder, items, pooling) for encoder, items in own)

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """Return the counts of all languages together."""
        counts = [
            encoder.lost_targets([item for item in inputs if item.language == language], pooling)
            for language, encoder in self.encoders.items()
        ]
        return LostTargets(*map(sum, zip(*counts, strict=True)))

    def _routed(
        self, inputs: Sequence[TextInput], encode: Callable[[Any, list[TextInput]], list[Array]]
    ) -> list[Array]:
        rows: dict[str, list[int]] = {}
        for row, item in enumerate(inputs):
            rows.setdefault(item.language, []).append(row)
        for language in rows.keys() - self.encoders.keys():
            raise EncodingError(
                f"a text of language {language!r} has no encoder here; there are: {', '.join(self.encoders)}"
            )
        arrays = {
            lang: encode(self.encoders[lang], [inputs[row] for row in own])
            for lang, own in rows.items()
        }
        dimensions = {language: pooled[0].shape[1] for language, pooled in arrays.items()}
        if len(set(dimensions.values())) > 1:
            raise EncodingError(
                f"the encoders of the languages have different dimensions: {dimensions}"
            )
        order = np.argsort([row for own in rows.values() for row in own])
        return [np.concatenate(several)[order] for several in zip(*arrays.values(), strict=True)]
