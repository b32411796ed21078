"""Any transformers encoder as a text encoder: one forward pass, as many readouts as are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mirrorbench.backbones import fingerprint
from mirrorbench.encoding.batching import TOKEN_BUDGET, by_length
from mirrorbench.encoding.inputs import Array, TextInput, checked
from mirrorbench.encoding.readout import Readout, pool
from mirrorbench.encoding.targets import Located, Positions, covering, cut_to, stripped, weights
from mirrorbench.errors import ModelUnavailableError, UsageError


@dataclass
class Transformer:
    """A backbone in memory: configuration, tokenizer and weights.

    Attributes:
        path: the directory that it came from.
        model: in float32, on ``device``, in evaluation mode.
        tokenizer: its tokenizer.
        device: where it runs.
    """

    path: Path
    model: Any
    tokenizer: Any
    device: torch.device

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.model.parameters())

    def tokenize(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Token ids of each text, special tokens included, cut to ``max_length``, not padded.

        Spaces around a text are stripped: byte-level tokenizers would make tokens of them.

        Raises:
            UsageError: the model has fewer positions than ``max_length``.
        """
        self._check_length(max_length)
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(
            [text.strip() for text in texts], truncation=True, max_length=max_length, padding=False
        )["input_ids"]
        return ids

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
            return Located([], [], 0, 0)
        texts, spans = zip(*(stripped(item) for item in inputs), strict=True)
        whole = self.tokenizer(list(texts), truncation=False, padding=False, return_offsets_mapping=True, verbose=False)
        located = Located([], [], 0, 0)
        cut = missing = 0
        for text, span, ids, offsets in zip(texts, spans, whole["input_ids"], whole["offset_mapping"], strict=True):
            target = covering(offsets, text, span)
            kept, positions = cut_to(ids, target, max_length, self._special_tokens)
            missing += not len(target)
            cut += len(positions) < len(target)
            located.ids.append(kept)
            located.targets.append(positions if len(positions) else np.arange(len(kept)))
        return replace(located, cut=cut, missing=missing)

    @cached_property
    def _special_tokens(self) -> tuple[int, int]:
        """How many special tokens the tokenizer puts before and after a text."""
        of_text = [number is not None for number in self.tokenizer("a", truncation=False).sequence_ids()]
        return of_text.index(True), of_text[::-1].index(True)

    def _check_length(self, max_length: int) -> None:
        limit = _positions(self.model.config)
        if limit and max_length > limit:
            raise UsageError(
                f"max_length={max_length}, but {self.path.name} has {limit} positions",
                f"Add max_length={limit} (or less) to the encoder spec.",
            )

    def forward(
        self,
        ids: Sequence[Sequence[int]],
        readouts: Sequence[Readout],
        pad_to: int = 0,
        targets: Sequence[Positions] | None = None,
    ) -> list[torch.Tensor]:
        """Vectors of a batch of token ids, one tensor (batch, dimensions) for each readout, with gradients.

        Args:
            ids: token ids of each text.
            readouts: what to read from the one pass.
            pad_to: pad to this many tokens instead of the longest text's.
            targets: positions of each target's tokens, as from ``locate``; needed by ``target`` readouts only.
        """
        width = max(pad_to, max(len(row) for row in ids))
        tokens = np.full((len(ids), width), self.tokenizer.pad_token_id or 0, dtype=np.int64)
        mask = np.zeros((len(ids), width), dtype=np.int64)
        for row, sequence in enumerate(ids):
            tokens[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        attention = torch.from_numpy(mask).to(self.device)
        keep_all = not all(r.last_layer_only for r in readouts)
        output = self.model(
            input_ids=torch.from_numpy(tokens).to(self.device),
            attention_mask=attention,
            output_hidden_states=keep_all,
            return_dict=True,
        )
        last = (output.last_hidden_state,)
        target = None if targets is None else torch.from_numpy(weights(targets, width)).to(self.device)
        return [pool(last if r.last_layer_only else output.hidden_states, attention, r, target) for r in readouts]


class TransformerEncoder:
    """A ``Transformer`` with a readout: the encoder behind ``base``, ``mirror`` and their kin.

    Args:
        transformer: the model.
        readout: what ``encode`` returns; ``encode_readouts`` gives several from the same passes.
        precision: ``fp32``, or ``bf16`` for autocast.
        fingerprint: identity of the weights; by default a checksum of the model's directory.
    """

    def __init__(
        self, transformer: Transformer, readout: Readout, precision: str = "fp32", fingerprint: str = ""
    ) -> None:
        self.transformer = transformer
        self.readout = readout
        self.precision = precision
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """Checksum of the weights; the readout and the precision are identified beside it."""
        return self._fingerprint or fingerprint(self.transformer.path)

    def encode(self, inputs: Sequence[TextInput] | Sequence[str]) -> Array:
        """Vectors of texts, float32 of shape (n, dimensions)."""
        return self.encode_readouts([as_input(i) for i in inputs], [self.readout])[0]

    def encode_readouts(
        self,
        inputs: Sequence[TextInput],
        readouts: Sequence[Readout],
        advance: Callable[[int], None] = lambda n: None,
    ) -> list[Array]:
        """Vectors of texts under several readouts, in as few passes as their lengths and paddings allow.

        Args:
            inputs: n texts.
            readouts: what to read.
            advance: called with the number of texts done, in the units of ``len(inputs)`` for all passes together.

        Returns:
            For each readout float32 of shape (n, dimensions).
        """
        passes: dict[tuple[int, str], list[Readout]] = {}
        for readout in dict.fromkeys(readouts):
            # Padding to a fixed length changes nothing but the pad positions, which only mean-padded reads; around a
            # target another part of a long text may be kept.
            own = readout.pooling if readout.pooling in ("mean-padded", "target") else ""
            passes.setdefault((readout.max_length, own), []).append(readout)
        results: dict[Readout, Array] = {}
        for number, group in enumerate(passes.values()):
            last = number == len(passes) - 1
            results.update(self._one_pass(inputs, group, advance if last else lambda n: None))
        return [results[readout] for readout in readouts]

    def lost_targets(self, inputs: Sequence[TextInput], readout: Readout) -> tuple[int, int]:
        """How many targets a ``target`` readout sees only a part of, and how many it does not see at all."""
        located = self.transformer.locate(inputs, readout.max_length)
        return located.cut, located.missing

    @torch.inference_mode()
    def _one_pass(
        self, inputs: Sequence[TextInput], readouts: list[Readout], advance: Callable[[int], None]
    ) -> dict[Readout, Array]:
        """Vectors under readouts that share their maximum length and what they keep and pad of a text."""
        model = self.transformer
        model.model.eval()
        max_length, pooling = readouts[0].max_length, readouts[0].pooling
        located = model.locate(inputs, max_length) if pooling == "target" else None
        ids = located.ids if located else model.tokenize([i.text for i in inputs], max_length)
        dimensions = model.model.config.hidden_size
        found = [np.empty((len(ids), dimensions), dtype=np.float32) for _ in readouts]
        fixed = max_length if pooling == "mean-padded" else 0
        for rows in by_length([len(i) for i in ids], TOKEN_BUDGET[model.device.type], fixed):
            targets = [located.targets[row] for row in rows] if located else None
            with autocast(model.device, self.precision):
                vectors = model.forward([ids[row] for row in rows], readouts, fixed, targets)
            for array, batch in zip(found, vectors, strict=True):
                array[rows] = batch.cpu().numpy()
            advance(len(rows))
        who = f"the model {model.path.name}"
        return {r: checked(array, len(inputs), who) for r, array in zip(readouts, found, strict=True)}


def as_input(value: TextInput | str) -> TextInput:
    """A plain string as an input without a target."""
    return TextInput(value) if isinstance(value, str) else value


def autocast(device: torch.device, precision: str) -> Any:
    """The context in which a model computes in ``precision``."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()


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


def open_transformer(path: Path, device: torch.device, configure: Callable[[Any], None] | None = None) -> Transformer:
    """Load a backbone from a local directory, in float32.

    Weights come from safetensors, or through torch's restricted weights-only loader where a model has none; code
    beside a model is never run.

    Args:
        path: as returned by ``mirrorbench.backbones.locate``.
        device: where to put it.
        configure: may change the configuration before the model is built (dropout rates).

    Raises:
        ModelUnavailableError: the files cannot be read, or are no encoder that transformers knows.
    """
    from pickle import UnpicklingError

    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    try:
        with quiet_transformers():
            config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            if configure:
                configure(config)
            tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # of weights that the files do not hold (an unused pooler): the same at each load
                model = AutoModel.from_pretrained(
                    path, config=config, local_files_only=True, trust_remote_code=False, dtype=torch.float32
                )
    except (
        OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError, EOFError, UnpicklingError,
        SafetensorError,
    ) as error:  # fmt: skip
        if isinstance(error, UnpicklingError):
            raise ModelUnavailableError(
                f"the weights in {path} are a pickle that holds more than tensors, or are damaged; they are not opened",
                "If you trust their source, convert them to safetensors elsewhere and use the result.",
            ) from error
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise ModelUnavailableError(
            f"the model in {path} cannot be opened: {type(error).__name__}: {first[:300]}",
            "It must be an encoder that transformers knows, with safetensors (or plain tensors in pytorch_model.bin).",
        ) from error
    if getattr(config, "is_encoder_decoder", False):
        model = model.get_encoder()
    return Transformer(path, model.to(device).eval(), tokenizer, device)


def _positions(config: Any) -> int:
    """How many tokens the model can take, 0 where nothing says so."""
    positions = int(getattr(config, "max_position_embeddings", 0) or 0)
    # RoBERTa's family numbers positions from padding_idx + 1, so two of its 514 are never used.
    offset = (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
    # DeBERTa's attention is relative: there is a limit only where absolute positions are added to the embeddings too.
    relative = getattr(config, "relative_attention", False) and not getattr(config, "position_biased_input", True)
    return 0 if relative or positions <= 0 else positions - offset


_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "roberta-prelayernorm", "xlm-roberta-xl", "mpnet")
