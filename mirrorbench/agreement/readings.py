"""Other readings of a model: other tokens at the ends of a text, another prompt, window or pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import Array, TextInput
from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.models.pooling import MASK, TEXT, Pooling, stored_prompts
from mirrorbench.models.ragged import Ragged

if TYPE_CHECKING:
    import torch

    from mirrorbench.models.pooling import Tokens
    from mirrorbench.models.transformer import Transformer
    from mirrorbench.models.transformer_encoder import TransformerEncoder

MAXIMUM = "max"
"""Pooling by the largest value of each dimension, as sentence-transformers has it."""
WITHOUT_SPECIAL_TOKENS = "mean-of-text"
"""Mean over the tokens of the text, without those that the tokenizer adds."""
PADDED = "mean-padded"
POOLING_WORDS = {
    "cls": "at its first token",
    "mean": "by the mean of its tokens",
    "last": "at its last token",
    MAXIMUM: "by the maximum of its tokens",
    WITHOUT_SPECIAL_TOKENS: "by the mean without special tokens",
    "weighted-mean": "by the mean of its tokens weighted by position",
    PADDED: "by the mean with padding",
}
"""How a sentence names the poolings that are tried."""
PADDED_LENGTHS = (64, 128, 256, 512)
"""Numbers of tokens to which texts are often padded."""
BATCH_SIZES = (8, 16, 32, 64, 100, 128, 256)
"""Numbers of texts that are often encoded at once, and then padded to the longest of them. Tried only if no text has
more tokens than the largest of ``PADDED_LENGTHS``."""
USUAL_WINDOWS = (
    32,
    64,
    96,
    100,
    128,
    192,
    200,
    256,
    300,
    384,
    500,
    512,
    768,
    1024,
    2048,
    4096,
    8192,
)
"""Numbers of tokens that encoders often read of a text."""
USUAL_PROMPTS = (
    "query: ",
    "passage: ",
    "search_query: ",
    "search_document: ",
    "Represent this sentence for searching relevant passages: ",
)
"""Prompts of widely used encoders: E5, nomic-embed and BGE."""


@dataclass(frozen=True)
class TokenEdit:
    """A change to the token ids of a text.

    Attributes:
        words: what the change is, for a sentence: ``without [SEP]``.
        apply: returns the changed ids.
    """

    words: str
    apply: Callable[[list[int]], list[int]]


@dataclass(frozen=True)
class Reading:
    """A way to read texts with a model.

    Attributes:
        pooling: pooling, prompt and window.
        edit: a change to the tokens; ``None`` for those of the tokenizer.
        words: in what it differs from the encoder's own reading, for a sentence; empty for its own.
        padded_to: number of tokens to which texts are padded for ``mean-padded``; 0 for other poolings.
        batch_size: instead, number of consecutive texts that are padded to the longest of them; 0 for none.
    """

    pooling: Pooling
    edit: TokenEdit | None = None
    words: tuple[str, ...] = ()
    padded_to: int = 0
    batch_size: int = 0


class ModelReader:
    """Reads texts with an encoder's model in other ways than the encoder does.

    Args:
        encoder: an encoder that makes a vector of a text's hidden states.
        sequence: the texts in the order in which they were encoded elsewhere, of which a text's batch consists.
    """

    def __init__(self, encoder: TransformerEncoder, sequence: Sequence[str] = ()) -> None:
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        transformer = encoder.transformer
        poolings = dict(transformer.poolings)
        poolings[MAXIMUM] = _maximum
        poolings[WITHOUT_SPECIAL_TOKENS] = _mean_of_text(*transformer.special_tokens)
        traits = transformer.traits
        transformer = replace(transformer, poolings=poolings)
        transformer.traits = traits
        self.transformer = transformer
        self.own = Reading(encoder.pooling)
        self._sequence = sequence
        self._encoder = TransformerEncoder(
            transformer, encoder.pooling, encoder.precision, encoder.fingerprint
        )

    @classmethod
    def of(cls, encoder: object, sequence: Sequence[str] = ()) -> ModelReader | None:
        """Return the reader of an encoder; ``None`` if its model cannot be read in other ways."""
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        if not isinstance(encoder, TransformerEncoder):
            return None
        pooling = encoder.pooling
        # A prompt that repeats the text, or has a mask, is read at its own place.
        if pooling.of_target or pooling.is_repeated or MASK in pooling.prompt:
            return None
        return cls(encoder, sequence)

    def vectors(self, texts: Sequence[str], readings: Sequence[Reading]) -> list[Array]:
        """Return the vectors of texts for each of several readings of the same tokens, each of shape (n, dimensions).

        They are not scaled to length 1, even if those of the encoder are.

        Raises:
            MirrorbenchError: the model cannot be read in this way.
        """
        import torch

        first = readings[0]
        inputs = [TextInput(text) for text in texts]
        ids = self.transformer.read(inputs, first.pooling).ids
        if first.edit is not None:
            ids = _edited(ids, first.edit)
        width = self.transformer.dimensions
        vectors = [np.empty((len(texts), width), dtype=np.float32) for _ in readings]
        poolings = [replace(reading.pooling, normalize=False) for reading in readings]
        lengths = self._padded_lengths(texts, first)
        with torch.inference_mode():
            for length in np.unique(lengths):
                rows_of_length = np.flatnonzero(lengths == length)
                batches = self._encoder.batches(
                    ids.take(rows_of_length), None, poolings, int(length)
                )
                for rows, pooled in batches:
                    for array, batch in zip(vectors, pooled, strict=True):
                        array[rows_of_length[rows]] = batch.float().cpu().numpy()
        return vectors

    def _padded_lengths(self, texts: Sequence[str], reading: Reading) -> NDArray[np.intp]:
        """Return the number of tokens to which each text is padded; 0 for none."""
        if not reading.batch_size:
            return np.full(len(texts), reading.padded_to, dtype=np.intp)
        size = reading.batch_size
        longest_of_text: dict[str, int] = {}
        for start in range(0, len(self._sequence), size):
            batch = slice(start, start + size)
            longest = int(max(self._lengths_in_sequence[batch]))
            longest_of_text |= dict.fromkeys(self._sequence[batch], longest)
        return np.array([longest_of_text[text] for text in texts], dtype=np.intp)

    @cached_property
    def _lengths_in_sequence(self) -> Sequence[int]:
        """Number of tokens that the encoder reads of each text of the sequence."""
        inputs = [TextInput(text) for text in self._sequence]
        lengths: list[int] = self.transformer.read(inputs, self.own.pooling).ids.lengths.tolist()
        return lengths

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, uncut, with special tokens, without a prompt."""
        encoded = self.transformer.tokenizer(list(texts), truncation=False, verbose=False)
        return [len(ids) for ids in encoded["input_ids"]]

    @property
    def window(self) -> int:
        """Number of tokens that the encoder reads of a text."""
        return self.transformer.window(self.own.pooling)

    def with_window(self, reading: Reading, window: int) -> Reading:
        """Return a reading with another window."""
        words = f"in a window of {window:,} tokens (its own: {self.window:,})"
        pooling = replace(reading.pooling, max_length=window)
        return replace(reading, pooling=pooling, words=(*reading.words, words))

    def windows(self) -> list[int]:
        """Return the windows that other readings may have."""
        positions = self.transformer.max_text_tokens(self.own.pooling.prompt)
        candidates = {*USUAL_WINDOWS, positions, positions - 2} - {self.window}
        return sorted(size for size in candidates if 3 <= size <= (positions or max(USUAL_WINDOWS)))

    def other_readings(self, prompt_and_edit: bool) -> Iterator[list[Reading]]:
        """Yield the other readings in groups that share a pass of the model.

        ``prompt_and_edit``: whether both the prompt and the tokens at the ends are changed, or at most one of these.
        """
        edits = [None, *token_edits(self.transformer)]
        for prompt_words, prompt in self._prompts():
            for edit in edits:
                are_both_changed = bool(prompt_words) and edit is not None
                if are_both_changed == prompt_and_edit:
                    yield from self._groups(prompt_words, prompt, edit)

    def _groups(
        self, prompt_words: str, prompt: str, edit: TokenEdit | None
    ) -> Iterator[list[Reading]]:
        """Yield the readings of the same tokens; those with padding, which take longest, only of the encoder's own."""
        words = [prompt_words] if prompt_words else []
        if edit is not None:
            words.append(edit.words)
        own = self.own.pooling
        group = []
        for mode in dict.fromkeys([own.mode, *POOLING_WORDS]):
            changes = list(words)
            if mode != own.mode:
                changes.insert(0, POOLING_WORDS[mode])
            if changes and mode != PADDED:
                pooling = replace(own, mode=mode, prompt=prompt)
                group.append(Reading(pooling, edit, tuple(changes)))
        if group:
            yield group
        if own.mode == PADDED and words:
            pooling = replace(own, prompt=prompt)
            yield [Reading(pooling, edit, tuple(words), padded_to=own.max_length)]
        if not words:
            yield from self._padded_groups()

    def _padded_groups(self) -> Iterator[list[Reading]]:
        """Yield the readings of the encoder's own tokens with padding, each a group of its own."""
        own = self.own.pooling
        positions = self.transformer.positions
        for length in dict.fromkeys([own.max_length, *PADDED_LENGTHS]):
            is_own = own.mode == PADDED and length == own.max_length
            if is_own or (positions and length > positions):
                continue
            pooling = replace(own, mode=PADDED, max_length=length)
            words = f"{POOLING_WORDS[PADDED]} to {length} tokens"
            yield [Reading(pooling, None, (words,), padded_to=length)]
        n_texts = len(self._sequence)
        # Padding every text to a very long one would take minutes.
        if n_texts < 2 or max(self._lengths_in_sequence) > max(PADDED_LENGTHS):
            return
        pooling = replace(own, mode=PADDED)
        sizes = [size for size in BATCH_SIZES if size < n_texts]
        for size in [*sizes, n_texts]:
            number = "all" if size == n_texts else f"{size:,}"
            words = f"{POOLING_WORDS[PADDED]} to the longest of {number} texts"
            yield [Reading(pooling, None, (words,), batch_size=size)]

    def _prompts(self) -> list[tuple[str, str]]:
        """Return prompts to try as (words for a sentence, template), the encoder's own first, with no words."""
        own = self.own.pooling.prompt
        prompts = [("", own)]
        if own:
            prompts.append(("without its prompt", ""))
            prompts.append(("with its prompt twice", own.replace(TEXT, own)))
        templates = [*stored_prompts(self.transformer.path).values(), *USUAL_PROMPTS]
        for template in dict.fromkeys(templates):
            whole = template if TEXT in template else template + TEXT
            if whole not in (own, TEXT) and template:
                prompts.append((f"with the prompt {template!r}", whole))
        return prompts


def token_edits(transformer: Transformer) -> list[TokenEdit]:
    """Return the changes of the tokens that a tokenizer adds at the ends of a text."""
    tokenizer = transformer.tokenizer
    n_begin, n_end = transformer.special_tokens
    example = transformer.tokenize(["a"], max_length=32)[0].tolist()
    edits = []
    if n_begin:
        begin = example[:n_begin]
        name = " ".join(tokenizer.convert_ids_to_tokens(begin))
        edits.append(TokenEdit(f"without {name}", lambda row: row[n_begin:] or row))
        edits.append(TokenEdit(f"with {name} twice", lambda row: begin + row))
    elif tokenizer.bos_token_id is not None:
        begin = [tokenizer.bos_token_id]
        edits.append(TokenEdit(f"with {tokenizer.bos_token} before it", lambda row: begin + row))
    if n_end:
        end = example[-n_end:]
        name = " ".join(tokenizer.convert_ids_to_tokens(end))
        edits.append(TokenEdit(f"without {name}", lambda row: row[:-n_end] or row))
        edits.append(TokenEdit(f"with {name} twice", lambda row: row + end))
    elif tokenizer.eos_token_id is not None:
        end = [tokenizer.eos_token_id]
        edits.append(TokenEdit(f"with {tokenizer.eos_token} after it", lambda row: row + end))
    if n_begin and n_end:
        edits.append(TokenEdit("without special tokens", lambda row: row[n_begin:-n_end] or row))
        edits.append(TokenEdit("with special tokens twice", lambda row: begin + row + end))
    return edits


def try_readings(
    reader: ModelReader, texts: Sequence[str], readings: Sequence[Reading]
) -> list[tuple[Reading, Array]]:
    """Return readings of the same tokens with their vectors; none if the model cannot be read in this way."""
    try:
        vectors = reader.vectors(texts, readings)
    except MirrorbenchError:
        return []
    return list(zip(readings, vectors, strict=True))


def _edited(ids: Ragged, edit: TokenEdit) -> Ragged:
    return Ragged.of([edit.apply(row.tolist()) for row in ids])


def _maximum(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Pool by the largest value of each dimension, over all tokens but padding."""
    is_padding = ~tokens.mask.bool().unsqueeze(-1)
    return states.masked_fill(is_padding, float("-inf")).amax(dim=1)


def _mean_of_text(n_begin: int, n_end: int) -> Callable[[torch.Tensor, Tokens], torch.Tensor]:
    """Return a pooling by the mean over all tokens but so many at the begin and the end."""

    def pool(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        positions = tokens.mask.long().cumsum(1)
        lengths = positions[:, -1:]
        is_of_text = (positions > n_begin) & (positions <= lengths - n_end) & tokens.mask.bool()
        has_text = is_of_text.any(dim=1, keepdim=True)
        is_read = is_of_text | (~has_text & tokens.mask.bool())
        weights = is_read.to(states.dtype).unsqueeze(-1)
        return (states * weights).sum(1) / weights.sum(1)

    return pool
