"""Tuning and encoding against the released procedure and sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import released_loop
import torch
from measuring import Table, alternate

from mirrorbench.core.inputs import TextInput
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.loading import open_for_tuning
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import mirror_preset, word_spans
from mirrorbench.training.recipes import Recipe

CPU = torch.device("cpu")
LENGTH = 64
"""Tokens that the released evaluation pads to."""


def recipe(level: str, loss: str = "ntxent") -> Recipe:
    """The paper's recipe for one epoch with a masked mean, as both sides of a comparison run it."""
    return replace(mirror_preset(level, "bert", "paper"), pooling="mean", loss=loss, epochs=1)


def tuning(table: Table, path: Path, sentences: list[str], words: list[str], n: int, rounds: int) -> None:
    """A tuning on sentences and one on words, each from its first text to its last step; loading left out."""
    table.title("Tuning, fp32, masked mean: the released procedure padded to 50 tokens (sentences) and 25 (words)")
    for level, texts in (("sentence", sentences), ("word", words)):
        chosen = texts[: max(200, n // 200 * 200)]
        own, other, note = _tunings(path, chosen, recipe(level), rounds)
        table.add(f"tuning, {len(chosen)} {level}s", "mirrorbench", "padded, two passes", own, other, note)


def _tunings(path: Path, texts: list[str], plan: Recipe, rounds: int) -> Any:
    registered = {entry.name: entry.value for entry in load_plugins(discover=False).augmentations}
    reports = []
    ours = open_for_tuning(path, plan, registered, CPU)
    theirs = open_for_tuning(path, plan, registered, CPU)

    def fast() -> None:
        reports.append(tune_backbone(ours, texts, plan, 0, registered))

    def plain() -> None:
        views = released_loop.Views(theirs.tokenizer, plan.train_max_length, int(plan.rate("span_mask")))
        released_loop.tune(theirs.model, texts, views, plan.batch_size, plan.temperature)

    own, other = alternate([fast, plain], rounds)
    cost = reports[-1].cost
    return own, other, f"{cost['tokens_per_second']:.0f} tokens/s, {100 * cost['padding']:.0f}% padding"


def encoding(table: Table, path: Path, sentences: list[str], words: list[str], n: int, rounds: int) -> None:
    """Words, sentences, and both with longer texts among them, against the padded loop and sentence-transformers."""
    table.title("Encoding, fp32, masked mean: padded to 64 tokens, and sentence-transformers at two batch sizes")
    encoder = TransformerEncoder(load_transformer(path, CPU), Pooling("mean", max_length=LENGTH))
    peer = _sentence_transformer(path)
    # Two sentences in one make the longer texts: a third each of words, sentences and those.
    long = [f"{one} {other}" for one, other in zip(sentences[: n // 3], sentences[n // 3 :], strict=False)]
    mixed = [*words[: n // 3], *sentences[: n // 3], *long]
    for name, texts in (("words", words[:n]), ("sentences", sentences[:n]), ("mixed lengths", mixed)):
        _encodings(table, name, texts, encoder, peer, rounds)
    if peer is None:
        print("\nNot measured: sentence-transformers is not installed.")


def _encodings(table: Table, name: str, texts: list[str], encoder: TransformerEncoder, peer: Any, rounds: int) -> None:
    model = encoder.transformer
    works: dict[str, Callable[[], Any]] = {
        "mirrorbench": lambda: encoder.encode(texts),
        "padded loop": lambda: released_loop.encode(model.model, model.tokenizer, texts, LENGTH),
    }
    for size in (32, 128) if peer is not None else ():
        options = {"batch_size": size, "normalize_embeddings": False, "show_progress_bar": False}
        works[f"sentence-transformers, {size}"] = partial(peer.encode, texts, **options)
    own, *others = alternate(list(works.values()), rounds)
    ours = encoder.encode(texts)
    for key, other in zip(list(works)[1:], others, strict=True):
        note = f"differ by {np.abs(ours - works[key]()).max():.0e}"
        table.add(f"encoding, {len(texts)} texts: {name}", "mirrorbench", key, own, other, note)


def _sentence_transformer(path: Path) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        return None
    model = SentenceTransformer(str(path), device="cpu", local_files_only=True)
    model.max_seq_length = LENGTH
    # Its last module normalises; without it both give the mean itself.
    return SentenceTransformer(modules=[model[0], model[1]], device="cpu")


def context(table: Table, path: Path, sentences: list[str], n: int, rounds: int) -> None:
    """A word in each sentence, read at its tokens from the top four layers, against the sentences alone."""
    table.title("Words in context: at most 1.3 times the seconds of the sentences alone, a ratio of at least 0.77")
    transformer = load_transformer(path, CPU)
    items = [_with_target(text) for text in sentences[:n]]
    target = TransformerEncoder(transformer, Pooling("target", "-4:", LENGTH))
    mean = TransformerEncoder(transformer, Pooling("mean", "-1:", LENGTH))
    own, other = alternate([lambda: target.encode(items), lambda: mean.encode(sentences[:n])], rounds)
    table.add(f"encoding, {n} texts", "words in context", "sentences", own, other)
    many = [items[i % len(items)] for i in range(10_000)]
    texts = [item.text for item in many]
    works = [lambda: transformer.locate(many, LENGTH), lambda: transformer.tokenize(texts, LENGTH)]
    own, other = alternate(works, rounds)
    table.add("tokenising alone, 10000 texts", "with targets", "without", own, other)


def _with_target(text: str) -> TextInput:
    spans = word_spans(text)
    return TextInput(text, (spans[len(spans) // 2],) if spans else ())
