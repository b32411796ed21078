"""Traits of a model, measured by a few short passes, since no list of names holds the next architecture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.devices import autocast, lost_device, on_gpu, out_of_memory
from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError

if TYPE_CHECKING:
    import torch

_Transformer = Any
"""``models.transformer.Transformer``, a module that imports this one."""
LONG, SHORT = 12, 5
"""Tokens of the two texts of a batch, of which the short one is padded."""
BEYOND = 520
"""Tokens of a text longer than BERT's positions and short attention windows."""
ROUNDING = {"fp32": 1e-3, "bf16": 0.1, "fp16": 0.03}
"""Largest distance of equal states by rounding, in standard deviations of a dimension."""
_FAR = 0.3
"""Largest distance of vectors in half precision from those in fp32, relative to their length."""
HALVES = ("bf16", "fp16")
_BY_LONGEST = (
    '"rope_type": "longrope"',  # angles of rotary positions, from some thousand tokens on
    '"rope_type": "dynamic"',
    '"attention_type": "block_sparse"',  # attention by blocks, from some hundred tokens on
)
"""Settings by which the longest text of a pass changes how the others are read, beyond the texts measured here."""


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """Measured properties of a model; the defaults are BERT's."""

    causal: bool = False
    """Whether a token attends to earlier ones alone."""
    pads: bool = False
    """Whether padding changes a text's vectors, so that only texts of one length may be read together."""
    varies: bool = True
    """Whether vectors depend on the text, and states of a token on its context."""
    packs: bool = True
    """Whether texts in one row of tokens have the vectors of each alone."""
    layered: bool = True
    """Whether all layers have states of one shape, so that they can be averaged."""
    drops: bool = True
    """Whether two passes in training mode differ; measured in planning."""
    trains: bool = True
    """Whether it reads texts in training mode (Reformer: whole chunks alone); measured in planning."""
    typed: bool = False
    """Whether its tokenizer's token types, which other libraries use, change a text's vectors."""
    halves: tuple[str, ...] = HALVES
    """Half precisions with finite numbers near those in fp32."""


AS_BERT = ModelTraits()
"""Traits of BERT."""


def traits_of(transformer: _Transformer) -> ModelTraits:
    """Measure the traits of a model, except ``drops`` and ``trains``, by a dozen passes over at most 17 tokens.

    Raises:
        ModelUnavailableError: the model does not return a state of each token.
    """
    rounding = ROUNDING[transformer.kept]
    text, other_text = _texts(transformer)
    by_longest = reads_by_longest(transformer.model.config)
    with _side_effects_undone(transformer):
        alone, start, beside = (
            _states(transformer, row)[0] for row in (text, text[:SHORT], other_text[:SHORT])
        )
        if alone.dim() != 2 or len(alone) != LONG:
            raise ValueError(f"{LONG} tokens have states of shape {tuple(alone.shape)}")
        padded = _states(transformer, text, other_text[:SHORT])[1, :SHORT]
        elsewhere = _states(transformer, [other_text[0], *text[1:SHORT]])[0]
        return ModelTraits(
            causal=_apart(alone[:SHORT], start) <= rounding,
            pads=by_longest or _apart(beside, padded) > rounding,
            varies=min(_relative(start.mean(0), beside.mean(0)), _relative(start[1], elsewhere[1]))
            > 1e-2 * rounding,
            packs=not by_longest and _packs(transformer, text, other_text[:SHORT]),
            layered=_is_layered(transformer, text),
            typed=_is_typed(transformer, rounding),
            halves=tuple(
                half for half in HALVES if _is_near(transformer, text, alone.mean(0), half)
            ),
        )


def reads_by_longest(config: Any) -> bool:
    """Return whether the longest text of a pass may change how a model of this configuration reads the others."""
    settings = config.to_json_string(use_diff=False)
    return any(setting in settings for setting in _BY_LONGEST)


def drops(transformer: _Transformer) -> bool:
    """Return whether two passes in training mode differ.

    Raises:
        ModelUnavailableError: the model does not read a text of ``LONG`` tokens in training mode.
    """
    with _side_effects_undone(transformer):
        transformer.model.train()
        return _relative(*(_states(transformer, _texts(transformer)[0]) for _ in range(2))) > 0


@contextmanager
def _side_effects_undone(transformer: _Transformer) -> Iterator[None]:
    """Restore the model and random states after passes without gradients, and translate their errors."""
    import torch

    model, device = transformer.model, transformer.device
    training = model.training
    model.eval()
    try:
        with (
            torch.no_grad(),
            torch.random.fork_rng(devices=[device] if on_gpu(device) else []),
            torch.autocast(device.type, enabled=False),
        ):
            yield
    except MirrorbenchError:
        raise
    except Exception as error:  # architectures that want more than texts raise any exception
        if _of_device(error):
            raise
        raise ModelUnavailableError(
            f"the {model.config.model_type} model in {transformer.path} cannot be read by its tokens alone: "
            f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
            "Use another backbone, or read this one by sentence-transformers: sbert:path=DIRECTORY",
        ) from error
    finally:
        model.train(training)
        torch.clear_autocast_cache()  # shared with the context around, in whatever precision


def _of_device(error: Exception) -> bool:
    """Return whether an error is the device's instead of the model's."""
    return (isinstance(error, RuntimeError) and out_of_memory(error)) or bool(lost_device(error))


def _texts(transformer: _Transformer) -> tuple[list[int], list[int]]:
    """Return two texts of ordinary tokens from all over the vocabulary, without a token in common."""
    known = min(len(transformer.tokenizer), transformer.vocabulary)
    ordinary = np.setdiff1d(np.arange(known), transformer.tokenizer.all_special_ids)
    if len(ordinary) < 2:
        raise ModelUnavailableError(
            f"the tokenizer in {transformer.path} has no token that the model's vocabulary of {known} holds",
            "Compare tokenizer.json with the vocab_size in config.json.",
        )
    ids = ordinary[np.linspace(0, len(ordinary) - 1, 2 * LONG).astype(np.int64)]
    return ids[::2].tolist(), ids[1::2].tolist()


def _states(transformer: _Transformer, *rows: list[int], precision: str = "") -> torch.Tensor:
    """Return the last layer's states of rows of token ids, float32 of shape (rows, width, dimensions)."""
    from mirrorbench.models.batching import Ragged

    with autocast(transformer.device, precision or transformer.kept):
        layers: list[torch.Tensor] = transformer.padded_states(Ragged.of(rows))[0]
    return layers[-1].float()


def _packs(transformer: _Transformer, text: list[int], short: list[int]) -> bool:
    """Return whether texts in one row have the states of each alone."""
    from mirrorbench.models.batching import Ragged
    from mirrorbench.models.packing import PACKED

    if transformer.model.config._attn_implementation != PACKED:
        return False
    few = 0 < transformer.positions < BEYOND
    text = [
        transformer.tokenizer.mask_token_id or text[0],
        *text[1:],
    ]  # ESM counts mask tokens over the whole row
    texts = [
        np.resize(text, LONG if few else BEYOND).tolist(),
        short,
    ]  # a long text shows attention windows
    row = Ragged.of(
        texts + [short] * (transformer.positions // SHORT if few else 0)
    )  # longer than the positions
    try:
        with autocast(transformer.device, transformer.kept):
            packed = [part[1][-1][-1].float() for part in transformer.parts(row, packed=True)]
    except Exception as error:  # attention of so many architectures fails in as many ways
        if _of_device(error):
            raise
        return False
    alone = (_states(transformer, text)[0] for text in texts)
    return all(
        _apart(*pair) <= ROUNDING[transformer.kept] for pair in zip(alone, packed, strict=True)
    )


def _apart(states: torch.Tensor, others: torch.Tensor) -> float:
    """Return the largest difference of states, in standard deviations of a dimension, as the median over dimensions."""
    # Not the maximum: single dimensions of large models are a thousand times as large as all others, and rounded so.
    others = others[: len(states)]
    scale = states.std(0).clamp(min=1e-6 * float(states.abs().max()) + 1e-30)
    return float(((states - others).abs().amax(0) / scale).median())


def _relative(vector: torch.Tensor, another: torch.Tensor) -> float:
    return float((vector - another).norm() / vector.norm().clamp(min=1e-30))


def _is_near(transformer: _Transformer, text: list[int], vector: torch.Tensor, half: str) -> bool:
    import torch

    if transformer.kept not in ("fp32", half):
        return False
    torch.clear_autocast_cache()
    try:
        half_vector = _states(transformer, text, precision=half)[0].mean(0)
    except (
        RuntimeError
    ) as error:  # an operation without half precision, or without it on this device
        if _of_device(error):
            raise
        return False
    return _relative(vector, half_vector) < _FAR


def _is_typed(transformer: _Transformer, rounding: float) -> bool:
    import torch

    model, given = transformer.model, transformer.tokenizer("a")
    if (
        not given.get("token_type_ids")
        or "token_type_ids" not in signature(model.forward).parameters
    ):
        return False
    given["input_ids"] = transformer.missing_embeddings.without(given["input_ids"])
    ids, types = (
        torch.tensor([given[key]], device=transformer.device)
        for key in ("input_ids", "token_type_ids")
    )
    with autocast(transformer.device, transformer.kept):
        alone, typed = (
            model(input_ids=ids, token_type_ids=value).last_hidden_state.float()
            for value in (None, types)
        )
    return _relative(alone, typed) > rounding


def _is_layered(transformer: _Transformer, text: list[int]) -> bool:
    from mirrorbench.models.batching import Ragged

    try:
        with autocast(transformer.device, transformer.kept):
            return (
                len(
                    {
                        layer.shape
                        for layer in transformer.padded_states(Ragged.of([text]), all_layers=True)[
                            0
                        ]
                    }
                )
                == 1
            )
    except (TypeError, AttributeError, KeyError):  # no states of layers, or of other shapes
        return False
