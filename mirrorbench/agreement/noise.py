"""Noise: whether vectors differ as those of a model do whose numbers have fewer bits.

Rounding weights to the nearest number changes vectors in the same direction wherever it is done. Rounding in another
way changes some texts more than others, and much the same ones whichever way a model is rounded. So the model is
rounded here, and the changes of each text are compared, first in direction, then in size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.agreement.measures import Numbers, cosines_of
from mirrorbench.agreement.readings import ModelReader
from mirrorbench.core.encoder_protocol import Array
from mirrorbench.core.vectors import unit

if TYPE_CHECKING:
    import torch

SAME_DIRECTION = 0.5
"""Least median over texts of the cosine of the change with that by rounded weights. Rounding to nearest gives the same
weights everywhere, and so much the same changes: MiniLM and random models of 32 dimensions have .69 and more with the
same rounding (.73 and more for a model wholly in bf16), .21 and less with noise in the weights, another layer, token,
prompt, window or other texts."""
LEAST_CORRELATION = 0.7
"""Least correlation over texts of log(1 - cosine) with that of the rounded model (MiniLM on the included texts: .80 and
more for bf16, int8 and int4; .51 and less for another layer, token, prompt, tuning or other texts)."""
MOST_SPREAD = 3.0
"""Largest ratio of the 95 % and 5 % quantiles of these changes, divided by those of the rounded model (2.7 and less;
3.0 and more)."""
HALF_PRECISION_FACTOR = 10
"""Noise is that of half precision up to so many times what autocast to bf16 makes; weights in bf16 make 4 times."""
SAMPLE = 48
"""Number of texts with which the noise of a model is measured."""
LEAST_ERROR = 1e-9
"""Smaller differences of a cosine from 1 are those of single precision."""


def noise_words(reader: ModelReader, texts: Sequence[str], own: Array, other: Array) -> str:
    """Say whether other vectors are a model's own with the noise of fewer bits; empty if they are not.

    Args:
        reader: reads texts with the model.
        texts: the texts.
        own: the vectors of the model, shape (n, dimensions).
        other: the other vectors.
    """
    if own.shape != other.shape or len(texts) < 8:
        return ""
    rows = np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts))).astype(int)
    sample = [texts[row] for row in rows]
    own = own[rows]
    other = other[rows]
    half_precision_vectors = _in_half_precision(reader, sample)
    int8_vectors = _in_int8(reader, sample)
    int8_weights_vectors = _with_weights_in_int8(reader, sample)
    errors = _errors(own, other)
    half_precision_errors = _errors(own, half_precision_vectors)
    int8_errors = _errors(own, int8_vectors)
    error = float(np.median(errors))
    half_precision = float(np.median(half_precision_errors))
    int8 = float(np.median(int8_errors))

    is_half_precision = _have_same_direction(own, other, [_with_weights_in_bf16(reader, sample)])
    is_int8 = not is_half_precision and _have_same_direction(
        own, other, [int8_vectors, int8_weights_vectors]
    )
    # Rounded in another way, vectors change in another direction, but those of the same texts most.
    is_alike = _are_alike(errors, half_precision_errors) or _are_alike(errors, int8_errors)
    if is_alike and not is_half_precision and not is_int8:
        is_half_precision = error <= HALF_PRECISION_FACTOR * half_precision
        # One scale for each tensor of weights and activations makes the largest errors that int8 has.
        is_int8 = not is_half_precision and error <= int8
    if is_half_precision:
        measured = f"bf16 makes {half_precision:.1g} here"
        return f"noise as of half precision (median of 1 - cosine: {error:.1g}; {measured})"
    if is_int8:
        int8_weights = float(np.median(_errors(own, int8_weights_vectors)))
        measured = f"int8 weights make {int8_weights:.1g} here, with int8 activations {int8:.1g}"
        return f"noise of the size of int8 (median of 1 - cosine: {error:.1g}; {measured})"
    return ""


def _errors(own: Array, other: Array) -> Numbers:
    """Return 1 - cosine for each text."""
    errors: Numbers = np.maximum(1 - cosines_of(own, other), LEAST_ERROR)
    return errors


def _are_alike(errors: Numbers, errors_of_rounding: Numbers) -> bool:
    """Return whether the same texts change most, and all in the same proportion."""
    logarithms = np.log(errors)
    logarithms_of_rounding = np.log(errors_of_rounding)
    if logarithms.std() == 0 or logarithms_of_rounding.std() == 0:
        return False
    correlation = np.corrcoef(logarithms, logarithms_of_rounding)[0, 1]
    low, high = np.quantile(logarithms - logarithms_of_rounding, [0.05, 0.95])
    return bool(correlation >= LEAST_CORRELATION and np.exp(high - low) <= MOST_SPREAD)


def _have_same_direction(own: Array, other: Array, rounded_vectors: Sequence[Array]) -> bool:
    """Return whether vectors changed as by one of several roundings, in direction and not only in size."""
    own_unit = unit(own)
    change = unit(other) - own_unit
    for rounded in rounded_vectors:
        cosines = cosines_of(change, unit(rounded) - own_unit)
        if np.median(cosines) >= SAME_DIRECTION:
            return True
    return False


def _in_half_precision(reader: ModelReader, texts: Sequence[str]) -> Array:
    """Return the vectors of texts by the model under autocast to bf16."""
    import torch

    with torch.autocast(reader.transformer.device.type, dtype=torch.bfloat16):
        return reader.vectors(texts, [reader.own])[0]


def _with_weights_in_bf16(reader: ModelReader, texts: Sequence[str]) -> Array:
    """Return the vectors of texts by the model with all weights rounded to bf16."""
    weights = list(reader.transformer.model.parameters())
    with _changed(weights, lambda weight: weight.bfloat16().to(weight.dtype)):
        return reader.vectors(texts, [reader.own])[0]


def _with_weights_in_int8(reader: ModelReader, texts: Sequence[str]) -> Array:
    """Return the vectors of texts by the model with matrices in int8, one scale for each output."""
    weights = [layer.weight for layer in _linear_layers(reader.transformer.model)]
    with _changed(weights, lambda weight: _rounded(weight, weight.abs().amax(1, keepdim=True))):
        return reader.vectors(texts, [reader.own])[0]


def _in_int8(reader: ModelReader, texts: Sequence[str]) -> Array:
    """Return the vectors of texts by the model with weights and inputs of its matrices in int8.

    Each tensor has one scale.
    """
    layers = _linear_layers(reader.transformer.model)

    def round_input(
        layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        return (_rounded(inputs[0], inputs[0].abs().amax()), *inputs[1:])

    hooks = [layer.register_forward_pre_hook(round_input) for layer in layers]
    weights = [layer.weight for layer in layers]
    try:
        with _changed(weights, lambda weight: _rounded(weight, weight.abs().amax())):
            return reader.vectors(texts, [reader.own])[0]
    finally:
        for hook in hooks:
            hook.remove()


def _linear_layers(model: torch.nn.Module) -> list[torch.nn.Linear]:
    import torch

    return [module for module in model.modules() if isinstance(module, torch.nn.Linear)]


@contextmanager
def _changed(
    weights: Sequence[torch.Tensor], change: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """Change weights of a model in the block, and restore them after it."""
    import torch

    originals = [weight.detach().clone() for weight in weights]
    try:
        with torch.no_grad():
            for weight in weights:
                weight.copy_(change(weight))
        yield
    finally:
        with torch.no_grad():
            for weight, original in zip(weights, originals, strict=True):
                weight.copy_(original)


def _rounded(tensor: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
    """Return a tensor rounded to 255 levels between its largest values and the negative of them."""
    step = largest.clamp_min(1e-12) / 127
    return (tensor / step).round() * step
