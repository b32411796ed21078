"""Traits of a model, measured by a few short passes, since no list of names covers the next architecture."""

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
"""``models.transformer.Transformer``; that module imports this one."""
LONG = 12
"""Tokens of the long text of a batch."""
SHORT = 5
"""Tokens of the short text of a batch, which is padded."""
BEYOND = 520
"""Tokens of a text that is longer than short attention windows, and than BERT's positions."""
ROUNDING = {"fp32": 1e-3, "bf16": 0.1, "fp16": 0.03}
"""Largest distance of equal states by rounding, in standard deviations of a dimension."""
_FAR = 0.3
"""Largest distance of vectors in half precision from those in fp32, relative to their length."""
HALVES = ("bf16", "fp16")
_BY_LONGEST = (
    # Angles of rotary positions depend on the longest text, from some thousand tokens on.
    '"rope_type": "longrope"',
    '"rope_type": "dynamic"',
    # Attention goes by blocks, from some hundred tokens on.
    '"attention_type": "block_sparse"',
)
"""Settings with which the longest text of a pass, if longer than those measured here, changes how others are read."""


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """Measured properties of a model; the defaults are BERT's."""

    causal: bool = False
    """Whether a token attends only to earlier ones."""
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
    """Whether the model reads any text in training mode (Reformer reads only whole chunks); measured in planning."""
    typed: bool = False
    """Whether the token types of the tokenizer, which other libraries use, change a text's vectors."""
    halves: tuple[str, ...] = HALVES
    """Half precisions whose vectors are finite and near those in fp32."""


AS_BERT = ModelTraits()
"""Traits of BERT."""


def traits_of(transformer: _Transformer) -> ModelTraits:
    """Measure the traits of a model, except ``drops`` and ``trains``, by a dozen short passes.

    Raises:
        ModelUnavailableError: the model does not return a state of each token.
    """
    rounding = ROUNDING[transformer.matrix_precision]
    text, other_text = _texts(transformer)
    beginning = text[:SHORT]
    short = other_text[:SHORT]
    depends_on_longest = reads_by_longest(transformer.model.config)
    with _side_effects_undone(transformer):
        text_states = _states(transformer, text)[0]
        beginning_states = _states(transformer, beginning)[0]
        short_states = _states(transformer, short)[0]
        if text_states.dim() != 2 or len(text_states) != LONG:
            raise ValueError(f"{LONG} tokens have states of shape {tuple(text_states.shape)}")
        # Causal if the tokens that follow change nothing at the beginning.
        causal = _difference(text_states[:SHORT], beginning_states) <= rounding

        # In a batch, the long text makes padding after the short one, whose states must not change.
        _, padded_states = _states(transformer, text, short)
        pads = depends_on_longest or _difference(short_states, padded_states[:SHORT]) > rounding

        # The vector must depend on the text, and the second token's state on the first token. Differences far below
        # rounding do not count.
        changed_first = [short[0], *beginning[1:]]
        changed_states = _states(transformer, changed_first)[0]
        between_texts = _relative_distance(beginning_states.mean(0), short_states.mean(0))
        between_contexts = _relative_distance(beginning_states[1], changed_states[1])
        varies = min(between_texts, between_contexts) > 1e-2 * rounding

        packs = not depends_on_longest and _packs(transformer, text, short)
        layered = _is_layered(transformer, text)
        typed = _is_typed(transformer, rounding)
        # Half precisions in which the text's vector is near this one.
        vector = text_states.mean(0)
        halves = [half for half in HALVES if _is_near(transformer, text, vector, half)]
    return ModelTraits(
        causal=causal,
        pads=pads,
        varies=varies,
        packs=packs,
        layered=layered,
        typed=typed,
        halves=tuple(halves),
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
        text, _ = _texts(transformer)
        first_pass = _states(transformer, text)
        second_pass = _states(transformer, text)
        return _relative_distance(first_pass, second_pass) > 0


@contextmanager
def _side_effects_undone(transformer: _Transformer) -> Iterator[None]:
    """Let passes inside the ``with`` block run in evaluation mode without gradients, and restore the state after it.

    Exceptions of the model become a ``ModelUnavailableError``.
    """
    import torch

    model = transformer.model
    device = transformer.device
    training = model.training
    model.eval()
    try:
        with (
            torch.no_grad(),
            # The CPU's random state is restored in any case, a GPU's only if it is named.
            torch.random.fork_rng(devices=[device] if on_gpu(device) else []),
            torch.autocast(device.type, enabled=False),
        ):
            yield
    except MirrorbenchError:
        raise
    except Exception as error:  # architectures that want more than texts raise any exception
        if _is_device_error(error):
            raise
        raise ModelUnavailableError(
            f"the {model.config.model_type} model in {transformer.path} cannot be read by its tokens alone: "
            f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
            "Use another backbone, or read this one by sentence-transformers: sbert:path=DIRECTORY",
        ) from error
    finally:
        model.train(training)
        # The cache is shared with an outer autocast context, which may have another precision.
        torch.clear_autocast_cache()


def _is_device_error(error: Exception) -> bool:
    """Return whether an error is the device's instead of the model's."""
    if isinstance(error, RuntimeError) and out_of_memory(error):
        return True
    return bool(lost_device(error))


def _texts(transformer: _Transformer) -> tuple[list[int], list[int]]:
    """Return the ids of two texts of ``LONG`` ordinary tokens each, spread over the vocabulary, none in common.

    A tokenizer without ordinary tokens that the model knows raises a ``ModelUnavailableError``.
    """
    size = min(len(transformer.tokenizer), transformer.vocabulary)
    ordinary = np.setdiff1d(np.arange(size), transformer.tokenizer.all_special_ids)
    if len(ordinary) < 2:
        raise ModelUnavailableError(
            f"the tokenizer in {transformer.path} has no token that the model's vocabulary of {size} holds",
            "Compare tokenizer.json with the vocab_size in config.json.",
        )
    ids = ordinary[np.linspace(0, len(ordinary) - 1, 2 * LONG).astype(np.int64)]
    return ids[::2].tolist(), ids[1::2].tolist()


def _states(transformer: _Transformer, *rows: list[int], precision: str = "") -> torch.Tensor:
    """Return the last layer's states of rows of token ids, padded, float32 of shape (rows, width, dimensions)."""
    from mirrorbench.models.ragged import Ragged

    with autocast(transformer.device, precision or transformer.matrix_precision):
        layers, _ = transformer.padded_states(Ragged.of(rows))
    states: torch.Tensor = layers[-1].float()
    return states


def _packs(transformer: _Transformer, text: list[int], short: list[int]) -> bool:
    """Return whether texts in one row of tokens have the same states as each text alone."""
    from mirrorbench.models.packing import PACKED
    from mirrorbench.models.ragged import Ragged

    if transformer.model.config._attn_implementation != PACKED:
        return False
    # Put a long text and one or more equal short ones into a row. A mask token shows whether mask tokens are counted
    # over the whole row, as ESM does.
    text_with_mask = [transformer.tokenizer.mask_token_id or text[0], *text[1:]]
    if 0 < transformer.positions < BEYOND:
        # A row longer than the positions shows whether they are counted over the whole row.
        long_text = text_with_mask
        n_short = 1 + transformer.positions // SHORT
    else:
        # A long text shows whether attention windows are kept.
        long_text = np.resize(text_with_mask, BEYOND).tolist()
        n_short = 1
    row = Ragged.of([long_text, *[short] * n_short])
    packed_states = []
    try:
        with autocast(transformer.device, transformer.matrix_precision):
            # The first part is the long text, the second one are the short texts.
            for _, layers, _ in transformer.batch_parts(row, packed=True):
                last_text = layers[-1][-1]
                packed_states.append(last_text.float())
    except Exception as error:  # attention of so many architectures fails in as many ways
        if _is_device_error(error):
            raise
        return False
    # Compare with each text read alone.
    for tokens, states in zip([long_text, short], packed_states, strict=True):
        difference = _difference(_states(transformer, tokens)[0], states)
        # False for NaN, too.
        is_rounding = difference <= ROUNDING[transformer.matrix_precision]
        if not is_rounding:
            return False
    return True


def _difference(states: torch.Tensor, others: torch.Tensor) -> float:
    """Return how far states of tokens differ: the median over dimensions of the largest difference over tokens.

    The unit is the standard deviation of each dimension. ``others`` may have further tokens at the end.
    """
    # Not the maximum over dimensions: in large models single ones are a thousand times larger, with as large rounding.
    others = others[: len(states)]
    scale = states.std(0).clamp(min=1e-6 * float(states.abs().max()) + 1e-30)
    return float(((states - others).abs().amax(0) / scale).median())


def _relative_distance(vector: torch.Tensor, another: torch.Tensor) -> float:
    """Return the distance of two vectors, relative to the length of the first one."""
    return float((vector - another).norm() / vector.norm().clamp(min=1e-30))


def _is_near(transformer: _Transformer, text: list[int], vector: torch.Tensor, half: str) -> bool:
    """Return whether a text's vector in a half precision is near ``vector``, the one in the model's own precision.

    A model with matrices in the other half precision, or an operation without half precision, makes it false.
    """
    import torch

    if transformer.matrix_precision not in ("fp32", half):
        return False
    torch.clear_autocast_cache()
    try:
        half_vector = _states(transformer, text, precision=half)[0].mean(0)
    except RuntimeError as error:
        # Some operation has no half precision, at least on this device.
        if _is_device_error(error):
            raise
        return False
    return _relative_distance(vector, half_vector) < _FAR


def _is_typed(transformer: _Transformer, rounding: float) -> bool:
    """Return whether the token types of the tokenizer change the states of a text."""
    import torch

    model = transformer.model
    encoded = transformer.tokenizer("a")
    if not encoded.get("token_type_ids"):
        return False
    if "token_type_ids" not in signature(model.forward).parameters:
        return False
    readable = transformer.missing_embeddings.replace_missing(encoded["input_ids"])
    ids = torch.tensor([readable], device=transformer.device)
    types = torch.tensor([encoded["token_type_ids"]], device=transformer.device)
    with autocast(transformer.device, transformer.matrix_precision):
        # Without types, as this package reads texts, and with them.
        untyped_output = model(input_ids=ids, token_type_ids=None)
        typed_output = model(input_ids=ids, token_type_ids=types)
    untyped = untyped_output.last_hidden_state.float()
    typed = typed_output.last_hidden_state.float()
    return _relative_distance(untyped, typed) > rounding


def _is_layered(transformer: _Transformer, text: list[int]) -> bool:
    """Return whether the model returns the states of all layers, and in one shape."""
    from mirrorbench.models.ragged import Ragged

    try:
        with autocast(transformer.device, transformer.matrix_precision):
            layers, _ = transformer.padded_states(Ragged.of([text]), all_layers=True)
            shapes = {layer.shape for layer in layers}
    except (TypeError, AttributeError, KeyError):
        return False
    return len(shapes) == 1
