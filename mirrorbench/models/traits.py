"""Traits of a model, as a few short passes show them, since no list of names holds the next architecture.

Tried is whether an early token sees later ones, whether padding changes a text, whether two texts differ, whether texts
in one row of tokens stay apart, whether token types change a text, and what half precision leaves of the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mirrorbench.core.devices import autocast, lost_device, on_gpu, out_of_memory
from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError

if TYPE_CHECKING:
    import torch

LONG, SHORT = 12, 5
"""Tokens of the two texts that are tried together, so that the short one is padded."""
BEYOND = 520
"""Tokens of a text longer than BERT can read, and than short windows of attention."""
_ROUNDING = {"fp32": 1e-3, "bf16": 0.1, "fp16": 0.03}
"""How far apart equal states may be by rounding, in standard deviations of a dimension."""
_FAR = 0.3
"""How far half precision may be from fp32, in parts of a vector's length."""
HALVES = ("bf16", "fp16")


class OpenedModel(Protocol):
    """The parts of a ``Transformer`` that are tried."""

    path: Path
    model: Any
    tokenizer: Any
    device: torch.device
    kept: str

    @property
    def vocabulary(self) -> int: ...  # noqa: D102
    @property
    def positions(self) -> int: ...  # noqa: D102
    @property
    def padded_states(self) -> Callable[..., tuple[Sequence[torch.Tensor], Any]]: ...  # noqa: D102
    @property
    def parts(self) -> Callable[..., Any]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """The properties of a model that were seen when it was tried; the defaults are BERT's."""

    causal: bool = False
    """Whether a token sees only what stands before it."""
    pads: bool = False
    """Whether padding changes a text's vectors, so that only texts of one length may be read together."""
    varies: bool = True
    """Whether different texts have different vectors, and a token another one beside other tokens."""
    packs: bool = True
    """Whether texts in one row of tokens have the vectors of each alone."""
    layered: bool = True
    """Whether all layers have states of one shape, so that they can be averaged."""
    drops: bool = True
    """Whether two passes in training mode differ; tried where it is planned."""
    trains: bool = True
    """Whether it reads texts in training mode (Reformer: whole chunks alone); tried where it is planned."""
    typed: bool = False
    """Whether the token types that its tokenizer gives, which other libraries hand on, change a text's vectors."""
    halves: tuple[str, ...] = HALVES
    """The half precisions whose numbers are finite and near those in fp32."""


AS_BERT = ModelTraits()
"""The traits of BERT."""


def traits_of(transformer: OpenedModel) -> ModelTraits:
    """The traits of a model in memory, by a dozen passes over at most 17 tokens; not ``drops`` and ``trains``.

    Raises:
        ModelUnavailableError: the model does not give each token of a text a state.
    """
    rounding = _ROUNDING[transformer.kept]
    text, other_text = _texts(transformer)
    # Its rotary angles depend on the longest text of a pass, from some thousand tokens on.
    by_longest = '"rope_type": "longrope"' in transformer.model.config.to_json_string()
    with _trying(transformer):
        alone, start, beside = (_states(transformer, row)[0] for row in (text, text[:SHORT], other_text[:SHORT]))
        if alone.dim() != 2 or len(alone) != LONG:
            raise ValueError(f"{LONG} tokens have states of shape {tuple(alone.shape)}")
        padded = _states(transformer, text, other_text[:SHORT])[1, :SHORT]
        elsewhere = _states(transformer, [other_text[0], *text[1:SHORT]])[0]
        return ModelTraits(
            causal=_apart(alone[:SHORT], start) <= rounding,
            pads=by_longest or _apart(beside, padded) > rounding,
            varies=min(_relative(start.mean(0), beside.mean(0)), _relative(start[1], elsewhere[1])) > 1e-2 * rounding,
            packs=not by_longest and _packs(transformer, text, other_text[:SHORT]),
            layered=_is_layered(transformer, text),
            typed=_is_typed(transformer, rounding),
            halves=tuple(half for half in HALVES if _is_near(transformer, text, alone.mean(0), half)),
        )


def drops(transformer: OpenedModel) -> bool:
    """Whether two passes in training mode differ.

    Raises:
        ModelUnavailableError: the model does not read such a text in training mode.
    """
    with _trying(transformer):
        transformer.model.train()
        return _relative(*(_states(transformer, _texts(transformer)[0]) for _ in range(2))) > 0


@contextmanager
def _trying(transformer: OpenedModel) -> Iterator[None]:
    """Passes without gradients that leave the model and what is drawn as they were, and say why they fail."""
    import torch

    model, device = transformer.model, transformer.device
    training, attention = model.training, getattr(model, "attention_type", None)
    model.eval()
    try:
        with (
            torch.no_grad(), torch.random.fork_rng(devices=[device] if on_gpu(device) else []),
            torch.autocast(device.type, enabled=False),
        ):  # fmt: skip
            yield
    except MirrorbenchError:
        raise
    except Exception as error:  # architectures that want more than texts raise any exception
        if (isinstance(error, RuntimeError) and out_of_memory(error)) or lost_device(error):
            raise
        raise ModelUnavailableError(
            f"the {model.config.model_type} model in {transformer.path} cannot be read by its tokens alone: "
            f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
            "Use another backbone, or what sentence-transformers makes of this one: sbert:path=DIRECTORY",
        ) from error
    finally:
        model.train(training)
        torch.clear_autocast_cache()  # which a context around it shares, in whatever precision
        if attention != getattr(model, "attention_type", None):  # BigBird reads short texts another way, for good
            model.set_attention_type(attention)


def _texts(transformer: OpenedModel) -> tuple[list[int], list[int]]:
    """Two texts of ordinary tokens from all over the vocabulary, without a token in common."""
    known = min(len(transformer.tokenizer), transformer.vocabulary)
    ordinary = np.setdiff1d(np.arange(known), transformer.tokenizer.all_special_ids)
    if len(ordinary) < 2:
        raise ModelUnavailableError(
            f"the tokenizer in {transformer.path} has no token that the model's vocabulary of {known} holds",
            "Compare tokenizer.json with the vocab_size in config.json.",
        )
    ids = ordinary[np.linspace(0, len(ordinary) - 1, 2 * LONG).astype(np.int64)]
    return ids[::2].tolist(), ids[1::2].tolist()


def _states(transformer: OpenedModel, *rows: list[int], precision: str = "") -> torch.Tensor:
    """The last layer's states of rows of token ids, float32 of shape (rows, width, dimensions)."""
    from mirrorbench.models.batching import Ragged

    with autocast(transformer.device, precision or transformer.kept):
        return transformer.padded_states(Ragged.of(rows))[0][-1].float()


def _packs(transformer: OpenedModel, text: list[int], short: list[int]) -> bool:
    """Whether texts in one row have the states of each alone: short ones in a row beyond the model's positions.

    Beside a text beyond BERT's positions, where the model has more: windows of attention show there. It holds mask
    tokens, whose share ESM takes over the row.
    """
    from mirrorbench.models.batching import Ragged
    from mirrorbench.models.packing import PACKED

    if transformer.model.config._attn_implementation != PACKED:
        return False
    few = 0 < transformer.positions < BEYOND
    text = [transformer.tokenizer.mask_token_id or text[0], *text[1:]]
    texts = [np.resize(text, LONG if few else BEYOND).tolist(), short]
    row = Ragged.of(texts + [short] * (transformer.positions // SHORT if few else 0))
    try:
        with autocast(transformer.device, transformer.kept):
            packed = [part[1][-1][-1].float() for part in transformer.parts(row, packed=True)]
    except Exception as error:  # what the attention of so many architectures takes fails in as many ways
        if (isinstance(error, RuntimeError) and out_of_memory(error)) or lost_device(error):
            raise
        return False
    alone = (_states(transformer, text)[0] for text in texts)
    return all(_apart(*pair) <= _ROUNDING[transformer.kept] for pair in zip(alone, packed, strict=True))


def _apart(states: torch.Tensor, others: torch.Tensor) -> float:
    """How far states are apart that may be equal, in standard deviations, in the dimension in the middle.

    Single dimensions of large models are a thousand times as large as all others, with a rounding to match.
    """
    others = others[: len(states)]
    scale = states.std(0).clamp(min=1e-6 * float(states.abs().max()) + 1e-30)
    return float(((states - others).abs().amax(0) / scale).median())


def _relative(vector: torch.Tensor, another: torch.Tensor) -> float:
    return float((vector - another).norm() / vector.norm().clamp(min=1e-30))


def _is_near(transformer: OpenedModel, text: list[int], vector: torch.Tensor, half: str) -> bool:
    import torch

    if transformer.kept not in ("fp32", half):
        return False
    torch.clear_autocast_cache()
    try:
        half_vector = _states(transformer, text, precision=half)[0].mean(0)
    except RuntimeError as error:  # an operation that a half precision, or this device's, lacks
        if out_of_memory(error) or lost_device(error):
            raise
        return False
    return _relative(vector, half_vector) < _FAR


def _is_typed(transformer: OpenedModel, rounding: float) -> bool:
    import torch

    model, given = transformer.model, transformer.tokenizer("a")
    if not given.get("token_type_ids") or "token_type_ids" not in signature(model.forward).parameters:
        return False
    ids, types = (torch.tensor([given[key]], device=transformer.device) for key in ("input_ids", "token_type_ids"))
    with autocast(transformer.device, transformer.kept):
        alone, typed = (model(input_ids=ids, token_type_ids=some).last_hidden_state.float() for some in (None, types))
    return _relative(alone, typed) > rounding


def _is_layered(transformer: OpenedModel, text: list[int]) -> bool:
    from mirrorbench.models.batching import Ragged

    try:
        with autocast(transformer.device, transformer.kept):
            return len({layer.shape for layer in transformer.padded_states(Ragged.of([text]), all_layers=True)[0]}) == 1
    except (TypeError, AttributeError, KeyError):  # it keeps no states of its layers, or other ones
        return False
