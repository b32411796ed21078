"""A transformers model in memory: texts to tokens, and tokens to vectors under several poolings in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.core.devices import device_type, moved, on_gpu, own_weights
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import (
    READ_BACK_HINT,
    MirrorbenchError,
    ModelUnavailableError,
    ReadBackError,
    UsageError,
)
from mirrorbench.models import families
from mirrorbench.models.adapters import adapter_tensors, is_adapted, open_adapter
from mirrorbench.models.backbones import backbone_folder, tokenizer_folder
from mirrorbench.models.batching import ENCODING_BUDGET, fills_in_range, without_waiting
from mirrorbench.models.families import text_part, unreadable
from mirrorbench.models.long_texts import (
    check_size,
    count_longer,
    may_be_longer,
    parts_of_texts,
    shorten,
    token_ids,
)
from mirrorbench.models.missing_embeddings import MissingEmbeddings
from mirrorbench.models.module_state import restore_state_after_each_pass
from mirrorbench.models.opening import quiet_transformers, read_config, read_tokenizer
from mirrorbench.models.packing import PackedRow, enable_packing, reading
from mirrorbench.models.pooling import MASK, POOLINGS, TEXT, Pooling, PoolingFunction, Tokens, pool
from mirrorbench.models.positions import first_position, positions_of_model
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.targets import LocatedTargets, Targets, locate_targets, placed_text
from mirrorbench.models.tokenizer_files import write_tokenizer_class
from mirrorbench.models.traits import ModelTraits, traits_of

_CPU = torch.device("cpu")
_States = tuple[tuple[torch.Tensor, ...], Tokens]
_Part = tuple[NDArray[np.int64], tuple[torch.Tensor, ...], Tokens]

_IDS_ONLY = {"padding": False, "return_attention_mask": False, "return_token_type_ids": False}


@dataclass
class Transformer:
    """A backbone in memory: its directory, its model, its tokenizer, and the way from texts to vectors.

    mirrorbench makes one for each tuning, and an ``Objective`` gets it as ``transformer``. To try things, take
    that of an encoder: ``mirrorbench.load("tiny", device="cpu").encoder.transformer``. A loss or a reader may use the
    attributes and methods below; the others may change without notice.

    A copy with other weights is ``dataclasses.replace(transformer, model=copy.deepcopy(transformer.model))``. A reader
    that computes vectors in another way is a subclass, made from the values of ``dataclasses.fields``, whose
    ``forward`` has the same arguments; for each micro-batch, mirrorbench calls
    ``forward(ids, [pooling], pad_to, targets, packed)``.

    Attributes:
        path: the directory of the model, for ``read_weights``; of the adapter if the weights are those of an adapter.
        model: the model of transformers, without a head; a ``torch.nn.Module`` with a ``config``. It is in training
            mode during a tuning, otherwise in evaluation mode.
        tokenizer: its tokenizer of transformers.
        device: the ``torch.device`` of the model.
        poolings: registered poolings by name, for ``pool``.
        dimensions: number of dimensions of a token's states.
        layers: number of layers, without the embeddings.
        vocabulary: number of token ids.
        positions: most tokens that the model can read, special tokens included; 0 if unknown.
        first_position: position of a text's first token, for the argument ``position_ids`` of ``states``.
        special_tokens: numbers of special tokens before and after a text.

    Methods:
        - ``tokenize(texts, max_length, prompt="")`` returns the token ids of texts, as ``Ragged``.
        - ``read(inputs, pooling)`` does so for ``TextInput`` objects; the result has ``ids`` and ``targets``.
        - ``prompt_ids(prompt)`` returns the token ids of a template before and after the text.
        - ``can_read(texts)`` returns for each text whether the model has embeddings of all its tokens.
        - ``forward(ids, poolings, pad_to=0, targets=None)`` returns a tensor of vectors for each pooling.
        - ``padded_states(ids, pad_to=0, all_layers=False)`` returns the states and the ``Tokens`` for ``pool``.
        - ``states(all_layers, input_ids=..., attention_mask=...)`` returns the states after one pass over tensors.
        - ``moved(array)`` copies a NumPy array to the device.

    Example:
        >>> import mirrorbench, torch
        >>> from mirrorbench.plugin import Recipe, pool
        >>> transformer = mirrorbench.load("tiny", device="cpu").encoder.transformer
        >>> ids = transformer.tokenize(["a cat", "the dog runs"], max_length=32)
        >>> transformer.tokenizer.convert_ids_to_tokens(ids[1])
        ['[CLS]', 'the', 'dog', 'runs', '[SEP]']
        >>> pooling = Recipe(temperature=0.05, epochs=1, train_max_length=32, pooling="mean").readout(max_length=32)
        >>> with torch.no_grad():
        ...     (vectors,) = transformer.forward(ids, [pooling])
        ...     states, tokens = transformer.padded_states(ids)
        >>> vectors.shape, states[-1].shape
        (torch.Size([2, 256]), torch.Size([2, 5, 256]))
        >>> torch.allclose(pool(states, tokens, pooling, transformer.poolings), vectors, atol=1e-5)
        True
    """

    path: Path
    model: Any
    tokenizer: Any
    device: torch.device
    poolings: Mapping[str, PoolingFunction] = field(default_factory=lambda: POOLINGS)
    outer_model: Any = None
    """The model of which ``model`` is a part: one with a decoder, or of images and text; else ``None``."""
    matrix_precision: str = "fp32"
    """Precision of frozen matrices, in which the model computes by autocast."""

    @cached_property
    def budget(self) -> int:
        """Tokens per batch of texts to encode, padding included; halved when the device runs out of memory."""
        return ENCODING_BUDGET[device_type(self.device)]

    @cached_property
    def traits(self) -> ModelTraits:
        """Traits, measured by a few passes unless they have been set."""
        return traits_of(self)

    @cached_property
    def missing_embeddings(self) -> MissingEmbeddings:
        """Tokens of the tokenizer that the model cannot read."""
        return MissingEmbeddings.of(self.tokenizer, self.model)

    @property
    def padding(self) -> int:
        """Token id at padding, which attention ignores; the tokenizer's, or 0 if that has no embedding."""
        (padding,) = self.missing_embeddings.replace_missing([self.tokenizer.pad_token_id or 0])
        return padding

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return int(text_part(self.model.config).vocab_size)

    @property
    def dimensions(self) -> int:
        """Dimensions of a token's states."""
        return int(text_part(self.model.config).hidden_size)

    @property
    def layers(self) -> int:
        """Number of layers, not counting the embeddings."""
        return int(text_part(self.model.config).num_hidden_layers)

    @property
    def adaptable_model(self) -> Any:
        """Model to which adapters are added, with the original names of its modules."""
        return self.outer_model or self.model

    @property
    def needs_decoder(self) -> bool:
        """Whether transformers opens the model only together with its decoder (BART)."""
        if self.outer_model is None:
            return False
        return bool(getattr(self.outer_model.config, "is_encoder_decoder", False))

    def save(self, folder: Path) -> None:
        """Write the model, or only its adapter, and the tokenizer, which gets a padding token for other libraries.

        A model that needs its decoder is written with it.
        """
        tokenizer = self.tokenizer
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.bos_token
        if tokenizer.is_fast:
            # Otherwise the maximum length of the last call would be stored.
            tokenizer.backend_tokenizer.no_truncation()
        # The outer model, if its decoder or its adapter is to be written.
        saved = self.model
        if self.needs_decoder or is_adapted(self.adaptable_model):
            saved = self.adaptable_model
        with quiet_transformers():
            saved.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        write_tokenizer_class(folder, tokenizer)

    def check_saved(self, folder: Path) -> None:
        """Raise a ``ReadBackError`` unless the tensors that ``save`` wrote are read back bit for bit.

        They are read to the CPU. For a model with an adapter, only the tensors of the adapter are compared.
        """
        try:
            if is_adapted(self.adaptable_model):
                expected = self.adaptable_model.get_adapter_state_dict()
                stored = adapter_tensors(folder)
            else:
                expected = self.model.state_dict()
                stored = load_transformer(folder, _CPU).model.state_dict()
        except ModelUnavailableError as error:
            raise ReadBackError(
                f"The tuned model of {self.path} is not stored: {error.message}", READ_BACK_HINT
            ) from error
        different_names = []
        for name in sorted({*expected, *stored}):
            in_both = name in expected and name in stored
            if not in_both or not torch.equal(expected[name].cpu(), stored[name]):
                different_names.append(name)
        if different_names:
            n_different = len(different_names)
            problem = f"The tuned model of {self.path} is not stored: {n_different} tensors are read back differently"
            raise ReadBackError(f"{problem} ({', '.join(different_names[:3])})", READ_BACK_HINT)

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.model.parameters())

    def tokenize(self, texts: Sequence[str], max_length: int, prompt: str = "") -> Ragged:
        """Return the token ids of each text, with special tokens, cut to ``max_length``, not padded.

        Args:
            texts: the texts.
            max_length: number of tokens, special tokens included.
            prompt: template with ``{text}``, whose tokens are added to these as far as the model has positions.

        Raises:
            UsageError: ``max_length`` exceeds the positions, or the prompt leaves no token for a text.
            UnreadableTextError: a text has a token without an embedding.
        """
        self._check_length(max_length)
        if not texts:
            return Ragged.of([])
        shortened = shorten(texts, self.tokenizer, max_length)
        if prompt:
            rows = self._token_ids_in_prompt(shortened, max_length, prompt)
        else:
            rows = token_ids(shortened, self.tokenizer, max_length)
            rows = [row or self._ids_of_empty_text for row in rows]
        ids = Ragged.of(rows)
        self.missing_embeddings.check(ids, texts)
        return ids

    def _token_ids_in_prompt(
        self, texts: Sequence[str], max_length: int, prompt: str
    ) -> list[list[int]]:
        """Return the token ids of texts, with those of a prompt inside the special tokens."""
        before, after = self.prompt_ids(prompt)
        n_special_before, n_special_after = self.special_tokens
        if self.positions:
            max_length = min(max_length, self.positions - len(before) - len(after))
        if max_length <= n_special_before + n_special_after:
            raise UsageError(
                f"prompt={prompt} leaves no room for a text", "Shorten it, or raise max_length."
            )
        self.missing_embeddings.check_prompt(Ragged.of([before, after]), prompt)
        rows = []
        for row in token_ids(texts, self.tokenizer, max_length):
            start = n_special_before
            end = len(row) - n_special_after
            rows.append(row[:start] + before + row[start:end] + after + row[end:])
        return rows

    def count_cut(self, inputs: Sequence[TextInput], pooling: Pooling) -> int:
        """Count the inputs of which a pooling does not read all tokens."""
        window = self.window(pooling)
        if pooling.prompt and MASK not in pooling.prompt:
            # The tokens of a text depend on the prompt around it.
            to_locate = [item for item in inputs if may_be_longer(item.text, window)]
            texts = []
        elif pooling.of_target:
            to_locate = [item for item in inputs if item.spans]
            texts = [item.text for item in inputs if not item.spans]
        else:
            to_locate = []
            texts = [item.text for item in inputs]
        n_cut = len(self.read(to_locate, pooling).shortened) if to_locate else 0
        return n_cut + count_longer(texts, self.tokenizer, window)

    def window(self, pooling: Pooling) -> int:
        """Return how many tokens of a text a pooling reads, special tokens included, those of its prompt excluded."""
        limit = self.max_text_tokens(pooling.prompt)
        return min(pooling.max_length, limit) if limit else pooling.max_length

    def max_text_tokens(self, prompt: str) -> int:
        """Return for how many tokens of a text, special tokens included, the model has positions beside a prompt.

        Return 0 if the number of positions is unknown. If a prompt repeats the text, each copy may have so many.
        """
        if not prompt or not self.positions:
            return self.positions
        n_special = sum(self.special_tokens)
        n_for_copies = self.positions - n_special - self._length_of_prompt(prompt)
        return n_for_copies // prompt.count(TEXT) + n_special

    def _length_of_prompt(self, prompt: str) -> int:
        """Return the number of tokens of a prompt, without those of the text and special tokens."""
        if MASK in prompt:
            return sum(map(len, self._ids_around(prompt)))
        texts = ["a", prompt.replace(TEXT, "a")]
        encoded = self.tokenizer(texts, add_special_tokens=False, **_IDS_ONLY)
        ids_of_word, ids_of_prompt = encoded["input_ids"]
        return len(ids_of_prompt) - prompt.count(TEXT) * len(ids_of_word)

    def can_read(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether the model has embeddings of all its tokens."""
        missing_ids = self.missing_embeddings.names.keys()
        if not missing_ids or not texts:
            return [True] * len(texts)
        ids = self.tokenizer(list(texts), **_IDS_ONLY)["input_ids"]
        return [missing_ids.isdisjoint(row) for row in ids]

    def prompt_ids(self, prompt: str) -> tuple[list[int], list[int]]:
        """Return the token ids of a prompt before and after the text, without special tokens.

        Args:
            prompt: template with ``{text}`` once, and perhaps ``{mask}``.

        Raises:
            UsageError: the prompt has a mask, and the tokenizer has no mask token.
        """
        if MASK in prompt and not self.tokenizer.mask_token:
            problem = f"prompt={prompt} has a mask, and the tokenizer of {self.path.name} has none"
            raise UsageError(problem, f"Leave {MASK} out, or use another backbone.")
        before, after = self._ids_around(prompt)
        return before, after

    def _ids_around(self, prompt: str) -> list[list[int]]:
        """Return the token ids of the parts of a prompt around the copies of the text."""
        parts = prompt.replace(MASK, self.tokenizer.mask_token or "").split(TEXT)
        ids = self.tokenizer(parts, add_special_tokens=False, **_IDS_ONLY)["input_ids"]
        return list(ids)

    @cached_property
    def _ids_of_empty_text(self) -> list[int]:
        """Token ids that stand for an empty text in models without special tokens."""
        return [self.tokenizer.eos_token_id or self.tokenizer.pad_token_id or 0]

    def read(self, inputs: Sequence[TextInput], pooling: Pooling) -> LocatedTargets:
        """Return the token ids that a pooling needs, and the positions that it pools if these are not all.

        Errors are those of ``tokenize`` and ``locate``.
        """
        if pooling.of_target:
            return self.locate(inputs, pooling.max_length, pooling.marked, pooling.prompt)
        texts = [item.text for item in inputs]
        if not pooling.prompt or MASK in pooling.prompt:
            return LocatedTargets(self.tokenize(texts, pooling.max_length, pooling.prompt))
        inputs_without_target = [TextInput(text) for text in texts]
        located = self.locate(inputs_without_target, pooling.max_length, prompt=pooling.prompt)
        targets = located.targets if pooling.of_copy else None
        return LocatedTargets(located.ids, targets, shortened=located.shortened)

    def locate(
        self,
        inputs: Sequence[TextInput],
        max_length: int,
        with_marks: bool = False,
        prompt: str = "",
    ) -> LocatedTargets:
        """Tokenise inputs and locate their targets; long texts are cut to a window around their target.

        ``with_marks``: put targets in brackets, and cut texts at their end unless that would lose the target.
        ``prompt``: a template, which is kept whole. Raise a ``UsageError`` if the tokenizer returns no offsets,
        ``max_length`` exceeds the positions or no token remains for a text, and an ``UnreadableTextError`` for a text
        with a token that has no embedding.
        """
        self._check_length(max_length)
        if not self.tokenizer.is_fast:
            problem = f"pooling=target or a prompt needs offsets, and the tokenizer of {self.path.name} returns none"
            hint = "Use a model with a tokenizer.json, another pooling, or a prompt before texts alone."
            raise UsageError(problem, hint)
        if not inputs:
            return LocatedTargets(Ragged.of([]), Ragged.of([]))
        # A token of the prompt without an embedding is the fault of the prompt, not of the texts.
        if prompt and self.missing_embeddings.names:
            self.missing_embeddings.check_prompt(Ragged.of(self._ids_around(prompt)), prompt)
        texts = [
            placed_text(item, with_marks, prompt) for item in self._shortened(inputs, max_length)
        ]
        ids: list[list[int]] = []
        offsets: list[list[tuple[int, int]]] = []
        for part in parts_of_texts([text.text for text in texts]):
            encoded = self.tokenizer(
                part, truncation=False, return_offsets_mapping=True, verbose=False, **_IDS_ONLY
            )
            # A text without tokens gets one, which covers no character.
            ids += [row or self._ids_of_empty_text for row in encoded["input_ids"]]
            offsets += [row or [(0, 0)] for row in encoded["offset_mapping"]]
        located = locate_targets(
            texts,
            ids,
            offsets,
            max_length,
            self.special_tokens,
            self.positions,
            keep_end=self.tokenizer.truncation_side == "left",
        )
        self.missing_embeddings.check(located.ids, [item.text for item in inputs])
        return located

    def _shortened(self, inputs: Sequence[TextInput], max_length: int) -> list[TextInput]:
        """Return inputs, long texts without a target cut to a beginning that holds ``max_length`` tokens.

        A text with a target is read as a whole; one that is too long for that raises an ``UnreadableTextError``.
        """
        rows_without_target = []
        for row, item in enumerate(inputs):
            if item.spans:
                check_size(item.text, "it has a target word")
            else:
                rows_without_target.append(row)
        texts = [inputs[row].text for row in rows_without_target]
        shortened = list(inputs)
        for row, text in zip(
            rows_without_target, shorten(texts, self.tokenizer, max_length), strict=True
        ):
            shortened[row] = replace(inputs[row], text=text)
        return shortened

    @cached_property
    def special_tokens(self) -> tuple[int, int]:
        """Numbers of special tokens before and after a text."""
        sequence_ids = self.tokenizer("a", truncation=False).sequence_ids()
        is_of_text = [number is not None for number in sequence_ids]
        return is_of_text.index(True), is_of_text[::-1].index(True)

    @cached_property
    def positions(self) -> int:
        """Most tokens that the model can read, 0 if unknown."""
        return positions_of_model(self.model)

    @property
    def first_position(self) -> int:
        """Position of a text's first token; 0, but ``padding_idx + 1`` in RoBERTa's family."""
        return first_position(lambda key: getattr(self.model.config, key, None))

    def _check_length(self, max_length: int) -> None:
        """Raise a ``UsageError`` for a maximum length beyond the positions."""
        if self.positions and max_length > self.positions:
            raise UsageError(
                f"max_length={max_length}, but {self.path.name} has {self.positions} positions",
                f"Add max_length={self.positions} (or less) to the encoder spec.",
            )

    def forward(
        self,
        ids: Ragged,
        poolings: Sequence[Pooling],
        pad_to: int = 0,
        targets: Targets | None = None,
        packed: bool = False,
    ) -> list[torch.Tensor]:
        """Return the vectors of a batch for each pooling, with gradients; a GPU may still be computing them.

        Args:
            ids: token ids of each text.
            poolings: the poolings; they read the same tokens.
            pad_to: number of tokens to which each text is padded; 0 for the length of the longest one.
            targets: positions of the words to pool, as ``read`` returns them; needed for poolings over targets.
            packed: whether to join the texts in a row instead of padding them; requires ``traits.packs`` and
                ``pad_to=0``.

        Returns:
            For each pooling a tensor of shape (batch, dimensions), or (batch, words, dimensions) if ``targets`` has
            several words a text.
        """
        all_layers = any(pooling.layers != "-1:" for pooling in poolings)
        rows_of_parts = []
        pooled_parts = []
        for rows, layers, tokens in self.batch_parts(ids, pad_to, all_layers, packed):
            if targets is not None:
                # Poolings over targets read their weights from the tokens.
                width = tokens.mask.shape[1]
                tokens.target = self.moved(targets.take(rows).weights(width))
            rows_of_parts.append(rows)
            pooled_parts.append(
                [pool(layers, tokens, pooling, self.poolings) for pooling in poolings]
            )
        vectors = [_joined(parts) for parts in zip(*pooled_parts, strict=True)]
        # Put the vectors back into the order of the texts.
        order = np.argsort(np.concatenate(rows_of_parts))
        is_in_order = (np.diff(order) > 0).all()
        if is_in_order:
            return vectors
        return [
            vectors_of_pooling.index_select(0, self.moved(order)) for vectors_of_pooling in vectors
        ]

    def batch_parts(
        self, ids: Ragged, pad_to: int = 0, all_layers: bool = False, packed: bool = False
    ) -> Iterator[_Part]:
        """Compute the states of a batch, and yield them in parts of texts of one width.

        Args:
            ids: token ids of each text.
            pad_to: number of tokens to which each text is padded; 0 for the length of the longest one.
            all_layers: whether to return the states of all layers instead of only the last one's.
            packed: whether to compute all states in one pass over a row of all tokens.

        Yields:
            The rows of a part's texts in the batch, a tuple with the states of each layer, of shape (texts, width,
            dimensions), and the tokens.
        """
        if packed:
            yield from self._packed(ids, all_layers)
        elif not pad_to and self.traits.pads and np.ptp(ids.lengths):
            # Padding would change the vectors, so each length has its own pass.
            for length in np.unique(ids.lengths):
                rows = np.flatnonzero(ids.lengths == length)
                yield rows, *self.padded_states(ids.take(rows), all_layers=all_layers)
        else:
            yield np.arange(len(ids)), *self.padded_states(ids, pad_to, all_layers)

    def _packed(self, ids: Ragged, all_layers: bool) -> Iterator[_Part]:
        """Compute a packed row in one pass, and yield its blocks as ``batch_parts`` yields parts."""
        row = PackedRow.of(ids, self.model.config, self.moved, one_block=self.model.training)
        with reading(row):
            states = self.states(
                all_layers,
                attention_mask=torch.ones_like(row.tokens),
                input_ids=row.tokens,
                position_ids=row.positions,
            )
        for block in row.blocks:
            layers = tuple(block.unpacked(layer[0]) for layer in states)
            mask = block.real
            if mask is None:
                mask = row.tokens.new_ones(len(block.rows), block.width)
            find_ids = partial(block.unpacked, row.tokens[0])
            yield block.rows, layers, Tokens(mask, find_ids, self.tokenizer)

    def states(self, all_layers: bool, **inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """Return the states of all layers, or only of the last one, after one pass.

        Args:
            all_layers: whether to return embeddings and each layer's output instead of only the last one's.
            **inputs: arguments of the model, on its device: ``input_ids`` of shape (texts, width), ``attention_mask``,
                ``position_ids`` and others that it has.

        Returns:
            Tensors of shape (texts, width, dimensions).
        """
        # BigBird warns of every short text.
        with quiet_transformers():
            output = self.model(**inputs, output_hidden_states=all_layers, return_dict=True)
        if all_layers:
            return tuple(output.hidden_states)
        return (output.last_hidden_state,)

    def padded_states(self, ids: Ragged, pad_to: int = 0, all_layers: bool = False) -> _States:
        """Return the states of all layers or the last one, and the tokens, after one pass over padded texts.

        Args:
            ids: token ids of each text.
            pad_to: number of tokens to which each text is padded; 0 for the length of the longest one.
            all_layers: whether to return embeddings and each layer's output instead of only the last one's.

        Returns:
            A tuple of tensors of shape (texts, width, dimensions), and the ``Tokens``, both for ``pool``.

        Raises:
            UsageError: the padding token has no embedding, and ``pad_to`` is given, so that poolings read padding.
        """
        if pad_to:
            self.missing_embeddings.check_padding(self.path, self.tokenizer)
        width = max(pad_to, int(ids.lengths.max()))
        real = ids.mask(width)
        token_ids = self.moved(ids.padded(width, self.padding))
        mask = self.moved(real.astype(np.int64))
        is_autocast = torch.is_autocast_enabled(self.device.type)
        with (
            without_waiting(real) if on_gpu(self.device) else nullcontext(),
            fills_in_range() if is_autocast else nullcontext(),
        ):
            states = self.states(all_layers, input_ids=token_ids, attention_mask=mask)
        return states, Tokens(mask, lambda: token_ids, self.tokenizer)

    def moved(self, array: NDArray[Any]) -> torch.Tensor:
        """Copy an array to the model's device."""
        return moved(torch.from_numpy(array), self.device)


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate the vectors of parts of a batch; those of several words a text are padded with zeros."""
    if parts[0].dim() == 3:
        most_words = max(part.shape[1] for part in parts)
        parts = [
            torch.nn.functional.pad(part, (0, 0, 0, most_words - part.shape[1])) for part in parts
        ]
    return torch.cat(list(parts))


def load_transformer(
    path: Path,
    device: torch.device,
    configure: Callable[[Any], None] | None = None,
    poolings: Mapping[str, PoolingFunction] = POOLINGS,
    attention: str = "",
    precision: str = "fp32",
    base: Path | None = None,
) -> Transformer:
    """Load a backbone, or an adapter with its backbone, from a local directory.

    Weights are read from safetensors, or with torch's weights-only unpickler if a model has none (as several of the
    papers' backbones); code in the directory is never run.

    Args:
        path: directory of the backbone or adapter.
        device: the device to which the model is moved.
        configure: function that changes the configuration before the model is opened, such as its dropout rates.
        poolings: registered poolings by name.
        attention: ``bidirectional`` to let a causal model read in both directions.
        precision: precision in which the model will run. In a half precision, matrices that the file has in half
            precision stay so, which saves memory and changes no vector; everything else is loaded in float32.
        base: directory of an adapter's backbone; by default the one that the adapter names.

    Raises:
        ModelUnavailableError: the model cannot be opened, or lacks weights other than the pooler's.
        DeviceMemoryError: the device has too little memory.
    """
    try:
        with torch.random.fork_rng(devices=[]):
            base_folder = base or backbone_folder(path)
            config = read_config(base_folder)
            # Matrices stay in half precision if the model runs in one and its files have one.
            keeps_half = precision != "fp32" and families.checkpoint_precision(config) != "fp32"
            if configure:
                configure(config)
            if attention:
                families.set_bidirectional_attention(config)
            tokenizer = read_tokenizer(path)
            # The unused pooler is random, but the same at each load.
            torch.manual_seed(0)
            options: dict[str, Any] = {"dtype": config.dtype if keeps_half else torch.float32}
            # With accelerate, the weights are read directly to the GPU.
            if on_gpu(device) and find_spec("accelerate"):
                options["device_map"] = {"": device}
            model, outer_model, missing = families.open_model(base_folder, config, **options)
            if keeps_half:
                families.keep_half_precision_matrices(outer_model)
            # `path` holds an adapter of this backbone.
            if base_folder != path:
                n_tokens = _n_tokens_with_added(outer_model, path, tokenizer, base_folder)
                open_adapter(outer_model, path, n_tokens)
            # Files may be replaced later, so that weights must not stay mapped to them.
            own_weights(model.to(device))
            enable_packing(model)
            restore_state_after_each_pass(model)
    except MirrorbenchError:
        raise
    except Exception as error:  # damaged files may raise any exception in transformers
        raise unreadable(path, error) from error
    families.check_complete(path, config, tokenizer, missing)
    transformer = Transformer(
        path,
        model.eval(),
        tokenizer,
        device,
        poolings,
        outer_model=None if outer_model is model else outer_model,
        matrix_precision=precision if keeps_half else "fp32",
    )
    transformer.missing_embeddings.check_special_tokens(path, tokenizer)
    return transformer


def _n_tokens_with_added(model: Any, path: Path, tokenizer: Any, base: Path) -> int:
    """Return the number of token ids if an adapter's tokenizer adds some to its backbone's, else 0.

    Added tokens are those that neither the backbone's tokenizer nor its embeddings have.
    """
    last_id = max(tokenizer.get_vocab().values())
    n_embeddings = model.get_input_embeddings().weight.shape[0]
    if tokenizer_folder(path) != path or last_id < n_embeddings:
        return 0
    last_id_of_base = max(read_tokenizer(base).get_vocab().values())
    return last_id + 1 if last_id > last_id_of_base else 0


def lower_casing_tokenizer(path: Path) -> Any:
    """Open a backbone's tokenizer as the papers' training code does: with ``do_lower_case=True``.

    In transformers 4.2.1, which that code requires, the option affects only tokenizers without a ``tokenizer.json``:
    WordPiece lower-cases, and strips accents by default; byte-level BPE and the SentencePiece of CamemBERT and XLM-R
    have no such option. The tuned model keeps the tokenizer (released code: ``load_model`` and ``save_model`` of
    Mirror-BERT, ``load_bert`` of SapBERT).
    """
    path = tokenizer_folder(path)
    if (path / "tokenizer.json").is_file():
        return read_tokenizer(path)
    return read_tokenizer(path, do_lower_case=True)


def checked_tokenizer(path: Path) -> Any:
    """Return a model's tokenizer; raise a ``ModelUnavailableError`` if it cannot be opened or has no vocabulary."""
    try:
        tokenizer = read_tokenizer(path)
    except Exception as error:  # damaged files may raise any exception in transformers
        raise unreadable(path, error) from error
    families.check_vocabulary(path, tokenizer)
    return tokenizer
