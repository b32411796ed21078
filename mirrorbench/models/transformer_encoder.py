"""Encoders of transformers: they tokenise texts, batch them by length, run the model, pool, and count the cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
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
from mirrorbench.models.fingerprints import fingerprint
from mirrorbench.models.pooling import LostTargets, Pooling
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.targets import Targets
from mirrorbench.models.transformer import Transformer

TEXTS_PER_CHUNK = 2048
"""Texts that are tokenised and sorted together, while the model runs on the previous chunk."""

_Rows = NDArray[np.int64]
_T = TypeVar("_T")


def _no_progress(n: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Work done by an encoder, which results store and identities leave out. Costs can be added."""

    texts: int = 0
    """Texts encoded; a text counts once per pass."""
    tokens: int = 0
    """Tokens with special tokens, without padding."""
    positions: int = 0
    """Tokens and padding."""
    seconds: float = 0.0
    """Wall-clock time, tokenisation included."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            texts=self.texts + other.texts,
            tokens=self.tokens + other.tokens,
            positions=self.positions + other.positions,
            seconds=self.seconds + other.seconds,
        )

    def to_json(self) -> dict[str, float]:
        """Return the costs as results store them: counts, share of padding (0 to 1), speeds per second."""
        seconds = max(self.seconds, 1e-9)
        padding = 0.0
        if self.positions:
            padding = 1 - self.tokens / self.positions
        return {
            "texts": self.texts,
            "tokens": self.tokens,
            "padding": round(padding, 4),
            "seconds": round(self.seconds, 4),
            "texts_per_second": round(self.texts / seconds, 1),
            "tokens_per_second": round(self.tokens / seconds, 1),
        }


@dataclass(frozen=True, slots=True)
class _TokenisedChunk:
    """Tokenised texts, of which batches are made."""

    rows: _Rows
    """Rows of the texts in the inputs."""
    ids: Ragged
    targets: Ragged | None
    """Positions of the tokens to pool; ``None`` for all tokens."""
    windowed: _Rows
    """Rows in the inputs of the texts cut to a window around a target."""


@dataclass(frozen=True, slots=True)
class _StartedChunk:
    """Texts whose vectors are being computed."""

    rows: _Rows
    """Rows of the texts in the inputs, in the order of the vectors."""
    waiting: list[Callable[[], Array]]
    """For each pooling, a function that waits for the vectors and returns them."""
    windowed: _Rows
    """Rows in the inputs of the texts cut to a window around a target."""


class TransformerEncoder:
    """A ``Transformer`` with the pooling of ``encode``; ``cost`` is the sum over all its encoding.

    ``precision``: ``fp32``, or ``bf16`` or ``fp16`` for autocast. ``fingerprint``: identity of the weights, by default
    that of the model's directory.
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
        advance: Callable[[int], None] = _no_progress,
    ) -> list[Array]:
        """Return one array per pooling, float32 of shape (n, dimensions), after as few passes as possible.

        ``advance`` is called with the number of texts done since its last call; the numbers add up to ``len(inputs)``.
        """
        self.check_inputs(inputs, poolings)
        started = time.perf_counter()
        encoded: dict[Pooling, Array] = {}
        groups = _poolings_of_same_tokens(poolings)
        for number, group in enumerate(groups, start=1):
            # Only the pass of the last group reports progress, so that each text counts once.
            advance_in_pass = advance if number == len(groups) else _no_progress
            vectors, windowed_rows = self._pass(inputs, group, advance_in_pass)
            encoded |= vectors
            # Texts that were cut to a window around the target get another pass for poolings over whole texts, which
            # read the start of long ones.
            of_whole_text = [pooling for pooling in group if not pooling.of_target]
            if of_whole_text and len(windowed_rows):
                long_texts = [inputs[row] for row in windowed_rows]
                vectors_from_start, _ = self._pass(long_texts, of_whole_text)
                for pooling, from_start in vectors_from_start.items():
                    encoded[pooling][windowed_rows] = from_start
        self.cost += Cost(seconds=time.perf_counter() - started)
        source = f"the model {self.transformer.path.name}"
        return [check_vectors(encoded[pooling], len(inputs), source) for pooling in poolings]

    @torch.inference_mode()
    def _pass(
        self,
        inputs: Sequence[TextInput],
        poolings: list[Pooling],
        advance: Callable[[int], None] = _no_progress,
    ) -> tuple[dict[Pooling, Array], _Rows]:
        """Return the vectors under poolings that read the same tokens, and the rows cut to a window around a target."""
        shape = (len(inputs), self.transformer.dimensions)
        vectors = {pooling: np.empty(shape, dtype=np.float32) for pooling in poolings}
        # The mean over padding needs texts of one length; poolings that read the same tokens have one maximum length.
        pad_to = 0
        if any(pooling.mode == "mean-padded" for pooling in poolings):
            pad_to = poolings[0].max_length
        # Begin with an empty array, since there may be no chunks.
        windowed = [np.empty(0, dtype=np.int64)]
        with closing(self._chunks(inputs, poolings, pad_to, advance)) as chunks:
            # The next chunk is being computed while the vectors of one are fetched.
            for chunk in one_behind(chunks):
                for pooling, wait_for_array in zip(poolings, chunk.waiting, strict=True):
                    array = wait_for_array()
                    dimensions = array.shape[1]
                    # Only the first vectors of a plugin's pooling show its dimensions.
                    if dimensions != vectors[pooling].shape[1]:
                        vectors[pooling] = np.empty((len(inputs), dimensions), dtype=np.float32)
                    vectors[pooling][chunk.rows] = array
                windowed.append(chunk.windowed)
        return vectors, np.sort(np.concatenate(windowed))

    def _chunks(
        self,
        inputs: Sequence[TextInput],
        poolings: list[Pooling],
        pad_to: int,
        advance: Callable[[int], None],
    ) -> Generator[_StartedChunk, None, None]:
        """Yield chunks of texts whose computation has started."""
        tokenised = _tokenised_chunks(self.transformer, inputs, poolings)
        with closing(batching.prefetch(tokenised)) as chunks:
            for chunk in chunks:
                order: list[int] = []
                pooled_batches: list[list[torch.Tensor]] = []
                for rows, pooled in self.batches(chunk.ids, chunk.targets, poolings, pad_to):
                    order += rows
                    pooled_batches.append(pooled)
                    advance(len(rows))
                waiting = []
                for batches_of_pooling in zip(*pooled_batches, strict=True):
                    waiting.append(fetched(torch.cat(batches_of_pooling)))
                yield _StartedChunk(chunk.rows[order], waiting, chunk.windowed)

    def batches(
        self, ids: Ragged, targets: Targets | None, poolings: Sequence[Pooling], pad_to: int
    ) -> Iterator[tuple[list[int], list[torch.Tensor]]]:
        """Yield for each batch its rows in ``ids``, and its vectors under each pooling.

        Batches are packed rows if the model allows them. Otherwise they are texts of one length on a CPU, so that no
        vector depends on other texts, and padded texts of similar length on a GPU, to keep it busy. Whenever the device
        runs out of memory, the remaining batches are halved, and so is the token budget of later calls.
        """
        self.transformer.model.eval()
        device = self.transformer.device
        budget = self.transformer.budget
        packed = self.transformer.traits.packs and not pad_to
        batches: Iterable[list[int]]
        if packed:
            batches = batching.even_batches(ids.lengths, budget)
        else:
            pass_cost = 0 if device.type == "cpu" else batching.PASS_COST[device_type(device)]
            batches = batching.similar_length_batches(ids.lengths, budget, pad_to, pass_cost)

        def halve_budget(tokens: int) -> None:
            self.transformer.budget = min(self.transformer.budget, tokens) // 2

        forward = partial(
            self._forward, ids=ids, targets=targets, poolings=poolings, pad_to=pad_to, packed=packed
        )
        lengths = np.maximum(pad_to, ids.lengths)
        return batching.within_memory(batches, forward, device, lengths, halve_budget)

    def _forward(
        self,
        rows: list[int],
        ids: Ragged,
        targets: Targets | None,
        poolings: Sequence[Pooling],
        pad_to: int,
        packed: bool,
    ) -> list[torch.Tensor]:
        """Return the vectors of a batch under each pooling; on a CPU its last text is repeated up to ``min_tokens``."""
        n = len(rows)
        # Count the positions that the model computes, those of padding and of repeated texts included.
        lengths = np.maximum(pad_to, ids.lengths[rows])
        positions = int(lengths.sum()) if packed else n * int(lengths.max())
        device = self.transformer.device
        # On a CPU, the rounding of very small matrix products depends on the number of threads: make them larger.
        computed_rows = rows
        if device.type == "cpu":
            lacking = batching.min_tokens(self.transformer.model.config) - positions
            if lacking > 0:
                last_length = int(lengths[-1])
                n_copies = math.ceil(lacking / last_length)
                computed_rows = rows + rows[-1:] * n_copies
                positions += n_copies * last_length
        targets_of_rows = None if targets is None else targets.take(computed_rows)
        with autocast(device, self.precision):
            pooled = self.transformer.forward(
                ids.take(computed_rows), poolings, pad_to, targets_of_rows, packed
            )
        self.cost += Cost(texts=n, tokens=int(ids.lengths[rows].sum()), positions=positions)
        return [vectors[:n] for vectors in pooled]

    @torch.inference_mode()
    def encode_ids(self, ids: Ragged, advance: Callable[[int], None] = _no_progress) -> Array:
        """Return the vectors of rows of token ids with special tokens, float32 of shape (n, dimensions)."""
        vectors = np.empty((len(ids), self.transformer.dimensions), dtype=np.float32)
        batches = self.batches(ids, None, [self.pooling], pad_to=0)
        waiting = ((rows, fetched(pooled)) for rows, (pooled,) in batches)
        for rows, wait_for_array in one_behind(waiting):
            vectors[rows] = wait_for_array()
            advance(len(rows))
        return vectors

    def count_cut(self, inputs: Sequence[TextInput], pooling: Pooling | None = None) -> Truncation:
        """Count the inputs that are longer than a pooling reads, by default the encoder's."""
        pooling = pooling or self.pooling
        transformer = self.transformer
        cut = 0
        for start in range(0, len(inputs), TEXTS_PER_CHUNK):
            cut += transformer.count_cut(inputs[start : start + TEXTS_PER_CHUNK], pooling)
        window = transformer.window(pooling)
        limit = transformer.max_text_tokens(pooling.prompt)
        return Truncation(cut, len(inputs), window, limit)

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """Count the texts cut to a window, the targets cut, and the targets without tokens."""
        located = self.transformer.read(inputs, pooling)
        return LostTargets(len(located.windowed), located.n_cut, located.n_missing)


def one_behind(started: Iterator[_T]) -> Iterator[_T]:
    """Yield each item after the next one has been taken from ``started``.

    If taking an item starts its computation, a GPU computes the next one while the results of this one are fetched.
    """
    return (item for item, _ in pairwise(chain(started, [None])))  # type: ignore[misc]


def _poolings_of_same_tokens(poolings: Sequence[Pooling]) -> list[list[Pooling]]:
    """Return the distinct poolings in groups that read the same tokens, so that one pass serves a group."""
    groups: dict[tuple[Any, ...], list[Pooling]] = {}
    for pooling in dict.fromkeys(poolings):
        # Without a prompt, a pooling over the whole text may share a pass with one over its target.
        of_target_in_prompt = pooling.of_target and bool(pooling.prompt)
        tokens = (pooling.max_length, pooling.marked, pooling.prompt, of_target_in_prompt)
        groups.setdefault(tokens, []).append(pooling)
    return list(groups.values())


def _tokenised_chunks(
    transformer: Transformer, inputs: Sequence[TextInput], poolings: Sequence[Pooling]
) -> Iterator[_TokenisedChunk]:
    """Yield chunks of texts, tokenised for poolings that read the same tokens.

    If there are several chunks, the texts with most characters come first.
    """
    # A pooling of targets also needs their positions.
    of_target = [pooling for pooling in poolings if pooling.of_target]
    pooling = of_target[0] if of_target else poolings[0]
    order = np.arange(len(inputs))
    if len(inputs) > TEXTS_PER_CHUNK:
        characters = np.array([len(item.text) for item in inputs], dtype=np.int64)
        order = np.argsort(-characters, kind="stable")
    for start in range(0, len(order), TEXTS_PER_CHUNK):
        rows = order[start : start + TEXTS_PER_CHUNK]
        located = transformer.read([inputs[row] for row in rows], pooling)
        windowed = rows[located.windowed]
        yield _TokenisedChunk(rows, located.ids, located.targets, windowed)


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
            check_inputs(encoder, _of_language(inputs, language), poolings)

    @property
    def cost(self) -> Cost:
        """Sum over the encoders that count their cost."""
        costs = (getattr(encoder, "cost", Cost()) for encoder in self.encoders.values())
        return sum(costs, Cost())

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Return the vectors of inputs by the encoders of their languages, float32 of shape (n, dimensions)."""
        return self._routed(inputs, lambda encoder, items: [encoder.encode(items)])[0]

    def encode_pooled(
        self,
        inputs: Sequence[TextInput],
        poolings: Sequence[Pooling],
        advance: Callable[[int], None] = _no_progress,
    ) -> list[Array]:
        """Return one array of vectors per pooling, by the encoders of the inputs' languages."""
        return self._routed(
            inputs, lambda encoder, items: encoder.encode_pooled(items, poolings, advance)
        )

    def count_cut(
        self, inputs: Sequence[TextInput], pooling: Pooling | None = None
    ) -> Truncation | None:
        """Count the inputs that are longer than the encoder of their language reads."""
        return Truncation.total(
            truncation_of(encoder, _of_language(inputs, language), pooling)
            for language, encoder in self.encoders.items()
        )

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """Count the targets that the encoders of all languages do not read completely."""
        counts = [
            encoder.lost_targets(_of_language(inputs, language), pooling)
            for language, encoder in self.encoders.items()
        ]
        return LostTargets(
            texts_cut=sum(count.texts_cut for count in counts),
            targets_cut=sum(count.targets_cut for count in counts),
            targets_missing=sum(count.targets_missing for count in counts),
        )

    def _routed(
        self, inputs: Sequence[TextInput], encode: Callable[[Any, list[TextInput]], list[Array]]
    ) -> list[Array]:
        """Return the arrays of vectors that ``encode`` makes by the encoder of each language, in the inputs' order.

        A language without an encoder, or encoders of different dimensions, raise an ``EncodingError``.
        """
        rows: dict[str, list[int]] = {}
        for row, item in enumerate(inputs):
            rows.setdefault(item.language, []).append(row)
        unknown_languages = rows.keys() - self.encoders.keys()
        if unknown_languages:
            language = min(unknown_languages)
            raise EncodingError(
                f"a text of language {language!r} has no encoder here; there are: {', '.join(self.encoders)}"
            )
        arrays: dict[str, list[Array]] = {}
        for language, rows_of_language in rows.items():
            items = [inputs[row] for row in rows_of_language]
            arrays[language] = encode(self.encoders[language], items)
        dimensions = {language: pooled[0].shape[1] for language, pooled in arrays.items()}
        if len(set(dimensions.values())) > 1:
            raise EncodingError(
                f"the encoders of the languages have different dimensions: {dimensions}"
            )
        # The arrays are in the order of the languages: put them back into that of the inputs.
        order = np.argsort(list(chain.from_iterable(rows.values())))
        pooled_by_language = zip(*arrays.values(), strict=True)
        return [
            np.concatenate(arrays_of_pooling)[order] for arrays_of_pooling in pooled_by_language
        ]


def _of_language(inputs: Sequence[TextInput], language: str) -> list[TextInput]:
    return [item for item in inputs if item.language == language]
