"""Vectors as deployments compute them, rightly or wrongly, by transformers alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Deployment:
    """How texts are read; the defaults are those of a right deployment, but for the window and the scale.

    Attributes:
        window: number of tokens to which texts are cut.
        scaled: whether vectors are scaled to length 1.
        pooling: ``mean``, ``first``, ``last`` or ``max``; or the mean over all positions of a batch of eight texts, in
            which padding is not attended to (``masked``), or is (``padded``).
        prefix: stands before each text.
        cut: the side on which long texts lose tokens.
        clean: changes each text.
        edit: changes the tokens of each text.
        layer: the layer whose states are pooled.
        numbers: ``fp32``; ``bf16`` for the whole model; ``int8`` for linear layers that are rounded with one scale;
            ``dynamic`` for torch's dynamic quantisation of them.
        finish: changes the array of vectors.
    """

    window: int
    scaled: bool
    pooling: str = "mean"
    prefix: str = ""
    cut: str = "right"
    clean: Callable[[str], str] = str
    edit: Callable[[list[int]], list[int]] = list
    layer: int = -1
    numbers: str = "fp32"
    finish: Callable[[Vectors], Vectors] = np.asarray


class PlainModel:
    """A tokenizer and a model of a directory; the tokenizer adds a token before each text, and perhaps one after it."""

    def __init__(self, path: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self._models = {"fp32": AutoModel.from_pretrained(path).eval()}

    def encode(self, texts: Sequence[str], deployment: Deployment) -> Vectors:
        """Return the vectors of texts by a deployment."""
        rows = []
        for text in texts:
            text = deployment.prefix + deployment.clean(text)
            row = self.tokenizer(text, verbose=False)["input_ids"]
            rows.append(deployment.edit(self._cut(row, deployment)))
        if deployment.pooling in ("padded", "masked"):
            vectors = self._with_padding(rows, deployment.pooling == "masked")
        else:
            vectors = self._without_padding(rows, deployment)
        if deployment.scaled:
            vectors = scaled(vectors)
        return deployment.finish(vectors)

    def _cut(self, row: list[int], deployment: Deployment) -> list[int]:
        """Cut the tokens of a text to a window, and keep those that the tokenizer adds."""
        if len(row) <= deployment.window:
            return row
        added = self.tokenizer.get_special_tokens_mask(row, already_has_special_tokens=True)
        n_end = 1 if added[-1] else 0
        n_text = deployment.window - 1 - n_end
        text = row[1 : len(row) - n_end]
        kept = text[:n_text] if deployment.cut == "right" else text[-n_text:]
        return [row[0], *kept, *row[len(row) - n_end :]]

    def _without_padding(self, rows: list[list[int]], deployment: Deployment) -> Vectors:
        model = self._model(deployment.numbers)
        vectors = []
        for row in rows:
            with torch.no_grad():
                output = model(torch.tensor([row]), output_hidden_states=True)
            states = output.hidden_states[deployment.layer][0].float().numpy()
            pooled = {
                "mean": states.mean(axis=0),
                "first": states[0],
                "last": states[-1],
                "max": states.max(axis=0),
            }
            vectors.append(pooled[deployment.pooling])
        return np.array(vectors)

    def _with_padding(self, rows: list[list[int]], is_masked: bool) -> Vectors:
        model = self._model("fp32")
        vectors: list[Vectors] = []
        for start in range(0, len(rows), 8):
            batch = rows[start : start + 8]
            width = max(map(len, batch))
            padded = [row + [0] * (width - len(row)) for row in batch]
            mask = torch.ones(len(batch), width, dtype=torch.long)
            if is_masked:
                for one_mask, row in zip(mask, batch, strict=True):
                    one_mask[len(row) :] = 0
            with torch.no_grad():
                states = model(torch.tensor(padded), attention_mask=mask).last_hidden_state
            vectors.extend(states.mean(dim=1).numpy())
        return np.array(vectors)

    def _model(self, numbers: str) -> torch.nn.Module:
        if numbers not in self._models:
            self._models[numbers] = _quantized(self._models["fp32"], numbers)
        return self._models[numbers]


def scaled(vectors: Vectors) -> Vectors:
    """Scale vectors to length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _quantized(original: torch.nn.Module, numbers: str) -> torch.nn.Module:
    """Return a copy of a model with numbers of fewer bits."""
    model = copy.deepcopy(original)
    if numbers == "bf16":
        return model.to(torch.bfloat16)
    if numbers == "dynamic":
        return torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                step = module.weight.abs().max() / 127
                module.weight.copy_((module.weight / step).round() * step)
    return model
