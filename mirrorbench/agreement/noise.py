"""Noise: whether vectors differ as those of a model do whose numbers have fewer bits.

Rounding changes some texts more than others, and much the same ones whichever way a model is rounded. So the model is
rounded here, and the changes of each text are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from mirrorbench.agreement.measures import Numbers, cosines_of
from mirrorbench.agreement.readings import ModelReader
from mirrorbench.core.encoder_protocol import Array

if TYPE_CHECKING:
    import torch

LEAST_CORRELATION = 0.7
"""Least correlation over texts of log(1 - cosine) with that of the rounded model (MiniLM on the included texts: .80 and
more for bf16, int8 and int4; .51 and less for another layer, token, prompt, tuning or other texts)."""
MOST_SPREAD = 3.0
"""Largest ratio of the 95 % and 5 % quantiles of these changes, divided by those of the rounded model (2.7 and less;
3.0 and more)."""
HALF_PRECISION_FACTOR = 10
"""Noise is that of half precision up to so many times what autocast to bf16 makes; weights in bf16 make 4 times."""
INT8_FACTOR = 3
"""And that of int8 up to so many times what int8 weights and activations make, with one scale for each tensor."""
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
    errors = _errors(own[rows], other[rows])
    half_precision_errors = _errors(own[rows], _in_half_precision(reader, sample))
    int8_errors = _errors(own[rows], _in_int8(reader, sample))
    if not (_are_alike(errors, half_precision_errors) or _are_alike(errors, int8_errors)):
        return ""
    error = float(np.median(errors))
    half_precision = float(np.median(half_precision_errors))
    int8 = float(np.median(int8_errors))
    if error <= HALF_PRECISION_FACTOR * half_precision:
        measured = f"bf16 makes {half_precision:.1g} here"
        return f"noise as of half precision (median of 1 - cosine: {error:.1g}; {measured})"
    if error <= INT8_FACTOR * int8:
        measured = f"int8 weights and activations make {int8:.1g} here"
        return f"noise as of int8 or fewer bits (median of 1 - cosine: {error:.1g}; {measured})"
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


def _in_half_precision(reader: ModelReader, texts: Sequence[str]) -> Array:
    """Return the vectors of texts by the model under autocast to bf16."""
    import torch

    with torch.autocast(reader.transformer.device.type, dtype=torch.bfloat16):
        return reader.vectors(texts, [reader.own])[0]


def _in_int8(reader: ModelReader, texts: Sequence[str]) -> Array:
    """Return the vectors of texts by the model with weights and inputs of its matrices in int8."""
    with _rounded_matrices(reader.transformer.model):
        return reader.vectors(texts, [reader.own])[0]


@contextmanager
def _rounded_matrices(model: torch.nn.Module) -> Iterator[None]:
    """Round the weights and inputs of a model's linear layers to 8 bits, one scale for each tensor."""
    import torch

    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    weights = [layer.weight.detach().clone() for layer in layers]

    def round_input(
        layer: torch.nn.Module, inputs: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        return (_rounded(inputs[0]), *inputs[1:])

    hooks = [layer.register_forward_pre_hook(round_input) for layer in layers]
    try:
        with torch.no_grad():
            for layer in layers:
                layer.weight.copy_(_rounded(layer.weight))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for layer, weight in zip(layers, weights, strict=True):
                layer.weight.copy_(weight)


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor rounded to 255 levels between its largest value and the negative of it."""
    step = tensor.abs().amax().clamp_min(1e-12) / 127
    return (tensor / step).round() * step
