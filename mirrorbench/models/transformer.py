"""Any transformers encoder in memory: one forward pass, as many poolings as are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mirrorbench.core.errors import UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.models.backbones import positions
from mirrorbench.models.batching import TOKEN_BUDGET
from mirrorbench.models.modelfiles import read_model
from mirrorbench.models.packing import BERT_LIKE, PackedAttention, Packing, position_ids
from mirrorbench.models.pooling import Pooling, pool
from mirrorbench.models.ragged import Ragged
from mirrorbench.models.targets import Located, covering, cut_to, stripped, weights


@dataclass
class Transformer:
    """A backbone in memory: configuration, tokenizer and weights.

    Attributes:
        path: the directory that it came from.
        model: in float32, on ``device``, in evaluation mode.
        tokenizer: its tokenizer.
        device: where it runs.
        budget: tokens in a batch of the encoding, padding included; halved when the device runs out of memory.
    """

    path: Path
    model: Any
    tokenizer: Any
    device: torch.device
    budget: int = field(init=False)

    def __post_init__(self) -> None:
        self.budget = TOKEN_BUDGET[self.device.type]

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.model.parameters())

    def tokenize(self, texts: Sequence[str], max_length: int) -> Ragged:
        """Token ids of each text, special tokens included, cut to ``max_length``, not padded.

        Spaces around a text are stripped: byte-level tokenizers would make tokens of them.

        Raises:
            UsageError: the model has fewer positions than ``max_length``.
        """
        self._check_length(max_length)
        if not texts:
            return Ragged.of([])
        stripped_texts = [text.strip() for text in texts]
        found = self.tokenizer(stripped_texts, truncation=True, max_length=max_length, padding=False, **_IDS_ONLY)
        return Ragged.of(found["input_ids"])

    def locate(self, inputs: Sequence[TextInput], max_length: int) -> Located:
        """Token ids of each input as ``tokenize`` gives them, and where the target is among them.

        A text that is too long is cut to a window around its target instead of at its end.

        Raises:
            UsageError: the model has fewer positions than ``max_length``, or its tokenizer knows no offsets.
        """
        self._check_length(max_length)
        if not self.tokenizer.is_fast:
            raise UsageError(
                f"pooling=target, but the tokenizer of {self.path.name} does not say which characters a token is",
                "Use a model with a tokenizer.json, or another pooling.",
            )
        if not inputs:
            return Located(Ragged.of([]), Ragged.of([]), np.empty(0, dtype=np.int64), 0, 0)
        texts, spans = zip(*(stripped(item) for item in inputs), strict=True)
        whole = self.tokenizer(
            list(texts), truncation=False, padding=False, return_offsets_mapping=True, verbose=False, **_IDS_ONLY
        )
        kept_ids, targets = [], []
        cut = missing = 0
        for text, span, ids, offsets in zip(texts, spans, whole["input_ids"], whole["offset_mapping"], strict=True):
            target = covering(offsets, text, span)
            kept, positions = cut_to(ids, target, max_length, self._special_tokens)
            missing += not len(target)
            cut += len(positions) < len(target)
            kept_ids.append(kept)
            targets.append(positions if len(positions) else np.arange(len(kept)))
        moved = np.flatnonzero([len(ids) > max_length for ids in whole["input_ids"]])
        return Located(Ragged.of(kept_ids), Ragged.of(targets), moved, cut, missing)

    @cached_property
    def _special_tokens(self) -> tuple[int, int]:
        """How many special tokens the tokenizer puts before and after a text."""
        of_text = [number is not None for number in self.tokenizer("a", truncation=False).sequence_ids()]
        return of_text.index(True), of_text[::-1].index(True)

    def _check_length(self, max_length: int) -> None:
        limit = positions(lambda key: getattr(self.model.config, key, None))
        if limit and max_length > limit:
            raise UsageError(
                f"max_length={max_length}, but {self.path.name} has {limit} positions",
                f"Add max_length={limit} (or less) to the encoder spec.",
            )

    def forward(
        self,
        ids: Ragged,
        poolings: Sequence[Pooling],
        pad_to: int = 0,
        targets: Ragged | None = None,
        packed: bool = False,
    ) -> list[torch.Tensor]:
        """Vectors of a batch of token ids, one tensor (batch, dimensions) for each pooling, with gradients.

        Nothing here waits for the device.

        Args:
            ids: token ids of each text.
            poolings: what to read from the one pass.
            pad_to: pad to this many tokens instead of the longest text's.
            targets: positions of each target's tokens, as from ``locate``; needed by ``target`` poolings only.
            packed: compute no padding; for models that ``can_pack``, and with ``pad_to=0`` only.
        """
        keep_all = not all(r.last_layer_only for r in poolings)
        if packed:
            layers, mask = self._packed_states(ids, keep_all)
        else:
            layers, mask = self._padded_states(ids, max(pad_to, int(ids.lengths.max())), keep_all)
        target = None if targets is None else self._moved(weights(targets, mask.shape[1]))
        return [pool(layers[-1:] if r.last_layer_only else layers, mask, r, target) for r in poolings]

    def _padded_states(self, ids: Ragged, width: int, keep_all: bool) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """All layers' states, or the last one's, shape (texts, width, dimensions), and where they are of tokens."""
        real = ids.mask(width)
        mask = self._moved(real.astype(np.int64))
        output = self.model(
            input_ids=self._moved(ids.padded(width, self.tokenizer.pad_token_id or 0)),
            attention_mask=self._attention_mask(mask, bool(real.all())),
            output_hidden_states=keep_all,
            return_dict=True,
        )
        return output.hidden_states if keep_all else (output.last_hidden_state,), mask

    def _packed_states(self, ids: Ragged, keep_all: bool) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """As ``_padded_states``, from one row of all tokens."""
        packing = Packing.of(ids, self._moved)
        tokens = self._moved(ids.values.astype(np.int64))[None]
        with PackedAttention(packing):
            output = self.model(
                input_ids=tokens,
                token_type_ids=torch.zeros_like(tokens),
                position_ids=self._moved(position_ids(ids, self.model.config))[None],
                output_hidden_states=keep_all,
                return_dict=True,
            )
        rows = output.hidden_states if keep_all else (output.last_hidden_state,)
        return tuple(packing.padded(states[0]) for states in rows), packing.real

    def _moved(self, array: NDArray[Any]) -> torch.Tensor:
        """An array on the device, on its way there while the host goes on."""
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    def _attention_mask(self, mask: torch.Tensor, whole: bool) -> torch.Tensor | None:
        """What the model is told of the padding, shape (batch, tokens) unless it can take what it would make of that.

        Of a mask of two dimensions transformers asks the device whether it masks anything at all, and waits for the
        answer, which the host knows.
        """
        config = self.model.config
        if config.model_type not in BERT_LIKE or config._attn_implementation != "sdpa":
            return mask
        return None if whole else mask.bool()[:, None, None, :].expand(-1, -1, mask.shape[1], -1)


_IDS_ONLY = {"return_attention_mask": False, "return_token_type_ids": False}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' reports and bars: the unused head of a masked language model is no news at each load."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def load_transformer(path: Path, device: torch.device, configure: Callable[[Any], None] | None = None) -> Transformer:
    """Load a backbone from a local directory, in float32.

    Args:
        path: as returned by ``mirrorbench.models.backbones.locate``.
        device: where to put it.
        configure: may change the configuration before the model is built (dropout rates).

    Raises:
        ModelUnavailableError: as of ``mirrorbench.models.modelfiles.read_model``.
    """
    with quiet_transformers():
        config, tokenizer, model = read_model(path, configure)
    if getattr(config, "is_encoder_decoder", False):
        model = model.get_encoder()
    return Transformer(path, model.to(device).eval(), tokenizer, device)
