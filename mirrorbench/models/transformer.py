"""A transformers model in memory: texts to tokens, and tokens to vectors under several poolings in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.core.devices import device_type, moved, on_gpu, own_weights
from mirrorbench.core.errors import READ_BACK, MirrorbenchError, ModelUnavailableError, ReadBackError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.models.adapters import adapter_tensors, is_adapted, open_adapter
from mirrorbench.models.backbones import base_folder, max_positions, tokenizer_folder
from mirrorbench.models.batching import ENCODING_BUDGET, Ragged, fills_in_range, without_waiting
from mirrorbench.models.families import (
    check_complete,
    check_vocabulary,
    checkpoint_precision,
    keep_precision,
    open_model,
    set_attention,
    text_part,
    unreadable,
)
from mirrorbench.models.opening import quiet_transformers, read_config, read_tokenizer
from mirrorbench.models.packing import PackedRow, let_pack, reading
from mirrorbench.models.pooling import MASK, POOLINGS, TEXT, Pooling, PoolingFunction, Tokens, pool
from mirrorbench.models.targets import (
    LocatedTargets,
    Targets,
    covering,
    cut_to,
    fitted,
    marked,
    prompted,
    unprompted,
    within,
    without,
)
from mirrorbench.models.traits import ModelTraits, traits_of

_CPU = torch.device("cpu")
_States = tuple[tuple[torch.Tensor, ...], Tokens]
_Part = tuple[NDArray[np.int64], tuple[torch.Tensor, ...], Tokens]

_IDS_ONLY = {"padding": False, "return_attention_mask": False, "return_token_type_ids": False}


@dataclass
class Transformer:
    """A backbone in memory: its directory, the model in float32, and its tokenizer."""

    path: Path
    model: Any
    tokenizer: Any
    device: torch.device
    poolings: Mapping[str, PoolingFunction] = field(default_factory=lambda: POOLINGS)
    """The registered ones."""
    whole: Any = None
    """The whole model where ``model`` is one half of one with a decoder or with other inputs than text."""
    kept: str = "fp32"
    """The precision of the matrices that do not learn; the model computes in it by autocast."""

    @cached_property
    def budget(self) -> int:
        """Tokens per batch of texts to encode, padding included; halved when the device runs out of memory."""
        return ENCODING_BUDGET[device_type(self.device)]

    @cached_property
    def traits(self) -> ModelTraits:
        """The traits that a few passes show; may be set where they are known from before."""
        return traits_of(self)

    @property
    def vocabulary(self) -> int:
        """How many token ids it knows."""
        return int(text_part(self.model.config).vocab_size)

    @property
    def dimensions(self) -> int:
        """Dimensions of a token's states."""
        return int(text_part(self.model.config).hidden_size)

    @property
    def layers(self) -> int:
        """Number of layers, the embeddings apart."""
        return int(text_part(self.model.config).num_hidden_layers)

    @property
    def adapted(self) -> Any:
        """The model that an adapter is put onto, with the names of the original's modules."""
        return self.whole or self.model

    @property
    def half(self) -> bool:
        """Whether transformers opens the model with its decoder only (BART)."""
        return self.whole is not None and bool(getattr(self.whole.config, "is_encoder_decoder", False))

    def save(self, folder: Path) -> None:
        """Write model and tokenizer in the format of transformers, with a padding token, which other libraries need.

        Of a model with an adapter that alone.
        """
        tokenizer = self.tokenizer
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.bos_token
        if tokenizer.is_fast:  # it would store the length to which it cut the last texts, as if it were its own
            tokenizer.backend_tokenizer.no_truncation()
        with quiet_transformers():
            saved = self.adapted if self.half or is_adapted(self.adapted) else self.model
            saved.save_pretrained(folder)
            tokenizer.save_pretrained(folder)

    def check_saved(self, folder: Path) -> None:
        """Raise unless the tensors that ``save`` wrote are read again bit for bit, which vectors of texts cannot show.

        They are read on the CPU, while the device goes on; of an adapter the file alone, without its backbone.
        """
        adapted = is_adapted(self.adapted)
        expected = self.adapted.get_adapter_state_dict() if adapted else self.model.state_dict()
        try:
            stored = adapter_tensors(folder) if adapted else load_transformer(folder, _CPU).model.state_dict()
        except ModelUnavailableError as error:
            raise ReadBackError(f"The tuned model of {self.path} is not stored: {error.message}", READ_BACK) from error
        same = [name for name in expected if name in stored and torch.equal(expected[name].cpu(), stored[name])]
        if different := sorted({*expected, *stored} - {*same}):
            problem = f"The tuned model of {self.path} is not stored: {len(different)} tensors are read back otherwise"
            raise ReadBackError(f"{problem} ({', '.join(different[:3])})", READ_BACK)

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.model.parameters())

    def tokenize(self, texts: Sequence[str], max_length: int, prompt: str = "") -> Ragged:
        """Token ids of each text, with special tokens, cut to ``max_length``, not padded.

        The tokens of a ``prompt`` (see ``Pooling``) come on top, as far as the model has positions.
        """
        self._check_length(max_length)
        if not texts:
            return Ragged.of([])
        if not prompt:
            rows = self.tokenizer(list(texts), truncation=True, max_length=max_length, **_IDS_ONLY)["input_ids"]
            return Ragged.of([row or self._nothing for row in rows])
        (before, after), (first, last) = self.prompt_ids(prompt), self.special_tokens
        if self.positions:
            max_length = min(max_length, self.positions - len(before) - len(after))
        if max_length <= first + last:
            raise UsageError(f"prompt={prompt} leaves no room for a text", "Shorten it, or raise max_length.")
        ids = self.tokenizer(list(texts), truncation=True, max_length=max_length, **_IDS_ONLY)["input_ids"]
        ends = ((row, len(row) - last) for row in ids)
        return Ragged.of([row[:first] + before + row[first:end] + after + row[end:] for row, end in ends])

    def prompt_ids(self, prompt: str) -> tuple[list[int], list[int]]:
        """Token ids of a prompt before and after the text, without special tokens."""
        if MASK in prompt and not self.tokenizer.mask_token:
            problem = f"prompt={prompt} has a mask, and the tokenizer of {self.path.name} has none"
            raise UsageError(problem, f"Leave {MASK} out, or use another backbone.")
        before, after = prompt.replace(MASK, self.tokenizer.mask_token or "").split(TEXT)
        ids = self.tokenizer([before, after], add_special_tokens=False, **_IDS_ONLY)["input_ids"]
        return ids[0], ids[1]

    @cached_property
    def _nothing(self) -> list[int]:
        """The token that stands for an empty text in models without special tokens around a text."""
        return [self.tokenizer.eos_token_id or self.tokenizer.pad_token_id or 0]

    def read(self, inputs: Sequence[TextInput], pooling: Pooling) -> LocatedTargets:
        """Token ids as a pooling reads texts; with positions only if it does not read all of them."""
        if not pooling.is_located:
            ids = self.tokenize([item.text for item in inputs], pooling.max_length, pooling.prompt)
            return LocatedTargets(ids, None, np.empty(0, dtype=np.int64), 0, 0)
        if pooling.of_target:
            return self.locate(inputs, pooling.max_length, pooling.marked, pooling.prompt)
        located = self.locate([TextInput(item.text) for item in inputs], pooling.max_length, prompt=pooling.prompt)
        return LocatedTargets(located.ids, located.targets if pooling.of_part else None, located.windowed[:0], 0, 0)

    def locate(
        self, inputs: Sequence[TextInput], max_length: int, with_marks: bool = False, prompt: str = ""
    ) -> LocatedTargets:
        """Tokenize inputs, with the positions of targets; long texts are cut to a window around their target.

        ``with_marks``: targets are ``marked`` and the text is cut at its end, if that leaves the target; the marks are
        taken out after that. ``prompt``: a template, which is kept whole.
        """
        self._check_length(max_length)
        if not self.tokenizer.is_fast:
            problem = f"pooling=target or a prompt around texts, but the tokenizer of {self.path.name} gives no offsets"
            hint = "Use a model with a tokenizer.json, another pooling, or a prompt before texts alone."
            raise UsageError(problem, hint)
        if not inputs:
            return LocatedTargets(Ragged.of([]), Ragged.of([]), np.empty(0, dtype=np.int64), 0, 0)
        placed = (
            prompted(prompt, item) if prompt else marked(item) if with_marks else unprompted(item) for item in inputs
        )
        texts, spans, others = zip(*placed, strict=True)  # others: places of the text in a prompt, or marks
        whole = self.tokenizer(list(texts), truncation=False, return_offsets_mapping=True, verbose=False, **_IDS_ONLY)
        kept_ids, targets, windowed = [], [], []
        cut = missing = 0
        for row, (ids, offsets) in enumerate(zip(whole["input_ids"], whole["offset_mapping"], strict=True)):
            if not ids:
                ids, offsets = self._nothing, [(0, 0)]
            target = covering(offsets, texts[row], spans[row])
            if prompt:
                places = [within(offsets, texts[row], span, self.special_tokens) for span in others[row]]
                room = max_length - sum(self.special_tokens)
                kept, positions = fitted(ids, target, places, room, self.positions)
            else:
                if others[row]:
                    marks = covering(offsets, texts[row], others[row])
                    ids, target = without(ids, target, marks, max_length, self.special_tokens[1])
                kept, positions = cut_to(ids, target, max_length, self.special_tokens)
            windowed += [row] * (len(kept) < len(ids) if prompt else len(ids) > max_length)
            missing += not len(target)
            cut += len(positions) < len(target)
            kept_ids.append(kept)
            targets.append(positions if len(positions) else np.arange(len(kept)))
        return LocatedTargets(Ragged.of(kept_ids), Ragged.of(targets), np.array(windowed, dtype=np.int64), cut, missing)

    @cached_property
    def special_tokens(self) -> tuple[int, int]:
        """Numbers of special tokens before and after a text."""
        of_text = [number is not None for number in self.tokenizer("a", truncation=False).sequence_ids()]
        return of_text.index(True), of_text[::-1].index(True)

    @property
    def positions(self) -> int:
        """How many tokens the model can read, 0 if unknown."""
        return max_positions(lambda key: getattr(self.model.config, key, None))

    def _check_length(self, max_length: int) -> None:
        if self.positions and max_length > self.positions:
            problem = f"max_length={max_length}, but {self.path.name} has {self.positions} positions"
            raise UsageError(problem, f"Add max_length={self.positions} (or less) to the encoder spec.")

    def forward(
        self, ids: Ragged, poolings: Sequence[Pooling], pad_to: int = 0, targets: Targets | None = None,
        packed: bool = False,
    ) -> list[torch.Tensor]:  # fmt: skip
        """Vectors of a batch, (batch, dimensions) for each pooling, with gradients; does not wait for the device.

        ``pad_to``: pad to this many tokens instead of the longest text's. ``targets``: from ``read``; those of several
        words a text give (batch, words, dimensions). ``packed``: no padding; only where ``traits.packs``, with
        ``pad_to=0``.
        """
        all_layers = not all(p.last_layer_only for p in poolings)
        order, pooled = [], []
        for rows, layers, tokens in self.parts(ids, pad_to, all_layers, packed):
            if targets is not None:
                own, width = targets.take(rows), tokens.mask.shape[1]
                tokens.target = self._moved(own.weights(width))
            order.append(rows)
            pooled.append([pool(layers, tokens, pooling, self.poolings) for pooling in poolings])
        back = np.argsort(np.concatenate(order))
        vectors = [_joined(parts) for parts in zip(*pooled, strict=True)]
        return vectors if (np.diff(back) > 0).all() else [v.index_select(0, self._moved(back)) for v in vectors]

    def parts(self, ids: Ragged, pad_to: int = 0, all_layers: bool = False, packed: bool = False) -> Iterator[_Part]:
        """A batch in parts of one width: the texts of each, states of all layers or the last, and the tokens.

        States have shape (texts, width, dimensions). ``packed``: from one row of all tokens. Where padding would change
        a text, texts of each length are a pass of their own.
        """
        if packed:
            yield from self._packed(ids, all_layers)
        elif not pad_to and self.traits.pads and np.ptp(ids.lengths):
            for length in np.unique(ids.lengths):
                rows = np.flatnonzero(ids.lengths == length)
                yield rows, *self.padded_states(ids.take(rows), all_layers=all_layers)
        else:
            yield np.arange(len(ids)), *self.padded_states(ids, pad_to, all_layers)

    def _packed(self, ids: Ragged, all_layers: bool) -> Iterator[_Part]:
        row = PackedRow.of(ids, self.model.config, self._moved, padded=self.model.training)
        with reading(row):
            states = self._states(
                all_layers, attention_mask=torch.ones_like(row.tokens), input_ids=row.tokens, position_ids=row.positions
            )
        for block in row.blocks:
            layers = tuple(block.unpacked(layer[0]) for layer in states)
            real = row.tokens.new_ones(len(block.rows), block.width) if block.real is None else block.real
            yield block.rows, layers, Tokens(real, partial(block.unpacked, row.tokens[0]), self.tokenizer)

    def _states(self, all_layers: bool, **inputs: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        output = self.model(**inputs, output_hidden_states=all_layers, return_dict=True)
        return tuple(output.hidden_states) if all_layers else (output.last_hidden_state,)

    def padded_states(self, ids: Ragged, pad_to: int = 0, all_layers: bool = False) -> _States:
        """States of all layers or the last, shape (texts, width, dimensions), and their tokens, by one padded pass."""
        width = max(pad_to, int(ids.lengths.max()))
        real = ids.mask(width)
        token_ids = self._moved(ids.padded(width, self.tokenizer.pad_token_id or 0))
        mask = self._moved(real.astype(np.int64))
        waits, fills = on_gpu(self.device), torch.is_autocast_enabled(self.device.type)
        with without_waiting(real) if waits else nullcontext(), fills_in_range() if fills else nullcontext():
            states = self._states(all_layers, input_ids=token_ids, attention_mask=mask)
        return states, Tokens(mask, lambda: token_ids, self.tokenizer)

    def _moved(self, array: NDArray[Any]) -> torch.Tensor:
        return moved(torch.from_numpy(array), self.device)


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Vectors of groups of texts; those of several words a text are filled up to the most words."""
    if parts[0].dim() == 3:
        most = max(part.shape[1] for part in parts)
        parts = [torch.nn.functional.pad(part, (0, 0, 0, most - part.shape[1])) for part in parts]
    return torch.cat(list(parts))


def load_transformer(
    path: Path, device: torch.device, configure: Callable[[Any], None] | None = None,
    poolings: Mapping[str, PoolingFunction] = POOLINGS, attention: str = "", precision: str = "fp32",
    base: Path | None = None,
) -> Transformer:  # fmt: skip
    """Load a backbone from a local directory, in float32; or an adapter, onto its backbone.

    Weights are read from safetensors, or with torch's weights-only unpickler if a model has none (as several of the
    papers' backbones); code in the directory is never run. Missing weights, which would be random, are an error, except
    for the pooler, which no pooling uses and masked language models lack. ``configure`` may change the configuration
    first (dropout rates); ``attention``: ``bidirectional`` lets a causal model read in both directions. ``precision``:
    where it is a half one, matrices that the file has in half precision are kept so: computing gives the same numbers.
    ``base``: where an adapter's backbone is, if not where the adapter says.
    """
    try:
        with torch.random.fork_rng(devices=[]):
            base = base or base_folder(path)
            config = read_config(base)
            kept = "fp32" not in (checkpoint_precision(config), precision)
            if configure:
                configure(config)
            if attention:
                set_attention(config)
            tokenizer = read_tokenizer(path)
            torch.manual_seed(0)  # the unused pooler is random: the same at each load
            placed = {"device_map": {"": device}} if on_gpu(device) and find_spec("accelerate") else {}
            dtype = config.dtype if kept else torch.float32
            model, whole, missing = open_model(base, config, dtype=dtype, **placed)
            if kept:
                keep_precision(whole)
            if base != path:
                open_adapter(whole, path)
            own_weights(model.to(device))
            let_pack(model)
    except MirrorbenchError:
        raise
    except Exception as error:  # damaged files may raise any exception in transformers
        raise unreadable(path, error) from error
    check_complete(path, config, tokenizer, missing)
    whole = None if whole is model else whole
    kept_in = precision if kept else "fp32"
    return Transformer(path, model.eval(), tokenizer, device, poolings, whole, kept_in)


def lower_casing_tokenizer(path: Path) -> Any:
    """A backbone's tokenizer as the papers' training code opens it: with ``do_lower_case=True``, whatever the backbone.

    In transformers 4.2.1, which that code asks for, the option reaches only tokenizers without a ``tokenizer.json``:
    WordPiece then lower-cases, and strips accents unless its settings say otherwise; byte-level BPE and the
    SentencePiece of CamemBERT and XLM-R have no such option. The tuned model keeps the tokenizer (released code:
    ``load_model`` and ``save_model`` of Mirror-BERT, ``load_bert`` of SapBERT).
    """
    path = tokenizer_folder(path)
    return read_tokenizer(path, **({} if (path / "tokenizer.json").is_file() else {"do_lower_case": True}))


def check_tokenizer(path: Path) -> None:
    """Raise where the tokenizer in a directory cannot be opened, or has no vocabulary."""
    try:
        tokenizer = read_tokenizer(path)
    except Exception as error:  # damaged files may raise any exception in transformers
        raise unreadable(path, error) from error
    check_vocabulary(path, tokenizer)
