"""Tuning and encoding against the released procedure, sentence-transformers and ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import released_loop
import torch
from measuring import Table, alternate

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.models.batching import even_batches
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.runs.encoder_loading import open_for_tuning
from mirrorbench.runs.registry import load_plugins
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import mirror_preset, word_spans
from mirrorbench.training.recipes import Recipe

CPU = torch.device("cpu")
Encode = Callable[[list[str]], Any]
LENGTH = 64
"""Length in tokens to which the released evaluation pads."""


def recipe(level: str, loss: str = "ntxent") -> Recipe:
    """Return the paper's recipe for one epoch with a masked mean, for both sides of a comparison."""
    return replace(mirror_preset(level, "bert", "paper"), pooling="mean", loss=loss, epochs=1)


def tuning(
    table: Table, path: Path, sentences: list[str], words: list[str], n: int, rounds: int
) -> None:
    """Measure tuning on sentences and on words, each from its first text to its last step, without loading."""
    table.title(
        "Tuning, fp32, masked mean: the released procedure padded to 50 tokens (sentences) and 25 (words)"
    )
    for level, texts in (("sentence", sentences), ("word", words)):
        chosen = texts[: max(200, n // 200 * 200)]
        own, other, note = _tunings(path, chosen, recipe(level), rounds)
        table.add(
            f"tuning, {len(chosen)} {level}s", "mirrorbench", "padded, two passes", own, other, note
        )


def _tunings(path: Path, texts: list[str], plan: Recipe, rounds: int) -> Any:
    registered = {entry.name: entry.value for entry in load_plugins(discover=False).augmentations}
    reports = []
    ours = open_for_tuning(path, plan, registered, CPU)
    theirs = open_for_tuning(path, plan, registered, CPU)

    def fast() -> None:
        reports.append(tune_backbone(ours, texts, plan, 0, registered))

    def plain() -> None:
        views = released_loop.Views(
            theirs.tokenizer, plan.train_max_length, int(plan.rate("span_mask"))
        )
        released_loop.tune(theirs.model, texts, views, plan.batch_size, plan.temperature)

    own, other = alternate([fast, plain], rounds)
    cost = reports[-1].cost
    return (
        own,
        other,
        f"{cost['tokens_per_second']:.0f} tokens/s, {100 * cost['padding']:.0f}% padding",
    )


def encoding(table: Table, path: Path, texts: dict[str, list[str]], rounds: int) -> None:
    """Compare with sentence-transformers, ONNX Runtime, and the model's matrix products, on texts of three kinds."""
    table.title("Encoding, fp32, masked mean, at most 64 tokens")
    encoder = TransformerEncoder(load_transformer(path, CPU), Pooling("mean", max_length=LENGTH))
    peers = {**_sentence_transformers(path), **_onnx_runtime(path)}
    for name, some in texts.items():
        _encodings(table, f"{len(some)} {name}", some, encoder, peers, rounds)
    for peer in {"sentence-transformers", "ONNX Runtime"} - {name.split(",")[0] for name in peers}:
        print(f"\nNot measured: {peer} is not installed.")


def _encodings(
    table: Table,
    name: str,
    texts: list[str],
    encoder: TransformerEncoder,
    peers: dict[str, Encode],
    rounds: int,
) -> None:
    model = encoder.transformer
    works: dict[str, Callable[[], Any]] = {
        "mirrorbench": lambda: encoder.encode(texts),
        "padded loop": lambda: released_loop.encode(model.model, model.tokenizer, texts, LENGTH),
        **{peer: partial(encode, texts) for peer, encode in peers.items()},
        "its matrix products alone": _products(encoder, texts),
    }
    own, *others = alternate(list(works.values()), rounds)
    ours = encoder.encode(texts)
    for key, other in zip(list(works)[1:], others, strict=True):
        vectors = works[key]()
        note = "" if vectors is None else f"differ by {np.abs(ours - vectors).max():.0e}"
        table.add(f"encoding, {name}", "mirrorbench", key, own, other, note)


def _products(encoder: TransformerEncoder, texts: list[str]) -> Callable[[], None]:
    """Return all products of tokens and weights, in rows of as many tokens, and nothing else of the model."""
    model = encoder.transformer
    lengths = model.tokenize(texts, LENGTH).lengths
    rows = [int(lengths[batch].sum()) for batch in even_batches(lengths, model.budget)]
    layers = [
        module for module in model.model.encoder.modules() if isinstance(module, torch.nn.Linear)
    ]
    states = {
        (n, layer.in_features): torch.randn(n, layer.in_features) for n in rows for layer in layers
    }

    @torch.inference_mode()
    def compute() -> None:
        for n in rows:
            for layer in layers:
                layer(states[n, layer.in_features])

    return compute


def _sentence_transformers(path: Path) -> dict[str, Encode]:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return {}
    model = SentenceTransformer(str(path), device="cpu", local_files_only=True)
    model.max_seq_length = LENGTH
    # Its last module normalises; without it both give the mean itself.
    plain = SentenceTransformer(modules=[model[0], model[1]], device="cpu")
    options = {"normalize_embeddings": False, "show_progress_bar": False}
    return {
        f"sentence-transformers, {n}": partial(plain.encode, batch_size=n, **options)
        for n in (32, 128)
    }


class _LastStates(torch.nn.Module):
    """The last layer's states, for torch's exporter, which hands inputs over by their order."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return states


def _onnx_runtime(path: Path) -> dict[str, Encode]:
    """The same model in ONNX Runtime, texts sorted by length as in sentence-transformers; torch exports it."""
    try:
        import onnx  # noqa: F401  (torch writes with it)
        from onnxruntime import InferenceSession
    except ImportError:
        return {}
    model = load_transformer(path, CPU)
    buffer, example = BytesIO(), torch.ones(2, 8, dtype=torch.long)
    names, axes = ["input_ids", "attention_mask"], {0: "texts", 1: "tokens"}
    model.model.set_attn_implementation("eager")
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            _LastStates(model.model),
            (example, example),
            buffer,
            dynamo=False,
            input_names=names,
            output_names=["states"],
            dynamic_axes=dict.fromkeys([*names, "states"], axes),
            opset_version=17,
        )
    session = InferenceSession(buffer.getvalue(), providers=["CPUExecutionProvider"])

    def encode(texts: list[str], size: int) -> Any:
        ids, vectors = (
            model.tokenize(texts, LENGTH),
            np.empty((len(texts), model.dimensions), np.float32),
        )
        order = np.argsort(-ids.lengths, kind="stable")
        for rows in np.split(order, range(size, len(texts), size)):
            batch, width = ids.take(rows), int(ids.lengths[rows[0]])
            mask = batch.mask(width)
            inputs = {"input_ids": batch.padded(width, 0), "attention_mask": mask.astype(np.int64)}
            states = session.run(["states"], inputs)[0] * mask[:, :, None]
            vectors[rows] = states.sum(1) / mask.sum(1)[:, None]
        return vectors

    return {"ONNX Runtime, 32": partial(encode, size=32)}


def context(table: Table, path: Path, sentences: list[str], n: int, rounds: int) -> None:
    """Compare a word in each sentence, read at its tokens from the top four layers, with the sentences alone."""
    table.title(
        "Words in context: at most 1.3 times the seconds of the sentences alone, a ratio of at least 0.77"
    )
    transformer = load_transformer(path, CPU)
    items = [_with_target(text) for text in sentences[:n]]
    target = TransformerEncoder(transformer, Pooling("target", "-4:", LENGTH))
    mean = TransformerEncoder(transformer, Pooling("mean", "-1:", LENGTH))
    own, other = alternate(
        [lambda: target.encode(items), lambda: mean.encode(sentences[:n])], rounds
    )
    table.add(f"encoding, {n} texts", "words in context", "sentences", own, other)
    many = [items[i % len(items)] for i in range(10_000)]
    texts = [item.text for item in many]
    works = [lambda: transformer.locate(many, LENGTH), lambda: transformer.tokenize(texts, LENGTH)]
    own, other = alternate(works, rounds)
    table.add("tokenising alone, 10000 texts", "with targets", "without", own, other)


def _with_target(text: str) -> TextInput:
    spans = word_spans(text)
    return TextInput(text, (spans[len(spans) // 2],) if spans else ())
