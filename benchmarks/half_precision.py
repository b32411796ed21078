"""Encoding and tuning in fp32 and bf16 on this processor, beside sentence-transformers and OpenVINO.

    python benchmarks/half_precision.py [STSB] [--rounds N] [--only TEXT]

STSB (default ``../shared/data/sts/stsb/sts-test.csv``) is the test file of STS-b. All sentences of its pairs are encoded
by MiniLM with at most 256 tokens, by each system in turn; OpenVINO (``pip install openvino``) is left out where it is
missing. Of each are printed seconds, processor seconds, and Spearman's correlation of the cosines with the ratings. Tuned
are the first 2,000 sentences with Mirror-BERT's recipe.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from measuring import alternate, machine
from numpy.typing import NDArray
from scipy.stats import spearmanr

from mirrorbench.core.devices import has_amx
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import locate
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.runs.encoder_loading import open_for_tuning
from mirrorbench.runs.registry import load_plugins
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import mirror_preset

CPU = torch.device("cpu")
WINDOW, BATCH, TUNED = 256, 32, 2_000
Encode = Callable[[list[str]], NDArray[np.float32]]


def pairs_of(path: Path) -> list[tuple[str, str, float]]:
    """Read two sentences and their rating."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [(row[5].strip(), row[6].strip(), float(row[4])) for row in rows]


def systems(model: Path) -> Iterator[tuple[str, str, Encode]]:
    """Yield name, precision and encoding of each system."""
    pooling = Pooling("mean", max_length=WINDOW)
    for precision in ("fp32", "bf16"):
        yield "mirrorbench", precision, _ours(model, pooling, precision)
    for precision in ("fp32", "bf16"):
        yield "sentence-transformers", precision, _sentence_transformers(model, precision)
    if find_spec("openvino"):
        for precision in ("fp32", "bf16"):
            yield "OpenVINO", precision, _openvino(model, precision)


def _ours(model: Path, pooling: Pooling, precision: str) -> Encode:
    encoder = TransformerEncoder(load_transformer(model, CPU), pooling, precision)
    return lambda texts: encoder.encode([TextInput(text) for text in texts])


def _sentence_transformers(model: Path, precision: str) -> Encode:
    from sentence_transformers import SentenceTransformer

    dtype = {"fp32": "float32", "bf16": "bfloat16"}[precision]
    opened = SentenceTransformer(
        str(model), device="cpu", local_files_only=True, model_kwargs={"dtype": dtype}
    )
    opened.max_seq_length = WINDOW
    return lambda texts: (
        opened.encode(texts, batch_size=BATCH, convert_to_tensor=True, show_progress_bar=False)
        .float()
        .numpy()
    )


def _openvino(model: Path, precision: str) -> Encode:
    """The transformer compiled by OpenVINO, in batches of similar length as those of sentence-transformers."""
    import openvino

    transformer = load_transformer(model, CPU)
    tokenizer = transformer.tokenizer
    example = dict(tokenizer(["a text", "another one"], padding=True, return_tensors="pt"))
    converted = openvino.convert_model(transformer.model, example_input=example)
    hint = {"fp32": "f32", "bf16": "bf16"}[precision]
    options = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = openvino.compile_model(converted, "CPU", options)

    def encode(texts: list[str]) -> NDArray[np.float32]:
        order = np.argsort([-len(text) for text in texts])
        vectors: Any = None
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            batch = tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=WINDOW,
                return_tensors="np",
            )
            states = compiled(dict(batch))[0]
            mask = batch["attention_mask"][:, :, None]
            means = (states * mask).sum(axis=1) / mask.sum(axis=1)
            vectors = np.empty((len(texts), means.shape[1]), "f4") if vectors is None else vectors
            vectors[rows] = means
        return vectors  # type: ignore[no-any-return]

    return encode


def cosines(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the cosines of neighbours, of which each two are a pair."""
    units = vectors.astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return (units[::2] * units[1::2]).sum(axis=1)  # type: ignore[no-any-return]


def encoding(model: Path, pairs: list[tuple[str, str, float]], rounds: int) -> None:
    """Print a line for each system and precision."""
    texts = [text for pair in pairs for text in pair[:2]]
    ratings = [rating for *_, rating in pairs]
    found = list(systems(model))
    times = alternate([lambda encode=encode: encode(texts) for *_, encode in found], rounds)
    print(
        f"\n| encoding {len(texts):,} sentences | precision | seconds | processor seconds | times as fast as in fp32 | Spearman |"
    )
    print("|---|---|---|---|---|---|")
    seconds = {
        (name, precision): median(own.processor)
        for (name, precision, _), own in zip(found, times, strict=True)
    }
    for (name, precision, encode), own in zip(found, times, strict=True):
        correlation = spearmanr(cosines(encode(texts)), ratings)[0]
        spent = seconds[name, precision]
        gain = seconds[name, "fp32"] / spent
        print(
            f"| {name} | {precision} | {median(own.wall):.2f} | {spent:.2f} | {gain:.2f} | {correlation:.4f} |",
            flush=True,
        )


def tuning(model: Path, texts: list[str], rounds: int) -> None:
    """Print the seconds of one epoch of tuning in each precision."""
    registered = {entry.name: entry.value for entry in load_plugins(discover=False).augmentations}
    recipe = replace(mirror_preset("sentence", "bert", "paper"), pooling="mean", epochs=1)

    def tuned(precision: str) -> None:
        opened = open_for_tuning(model, recipe, registered, CPU, precision=precision)
        tune_backbone(opened, texts, recipe, 0, registered, precision=precision)

    own, half = alternate([lambda: tuned("fp32"), lambda: tuned("bf16")], rounds)
    print(f"\n| tuning on {len(texts):,} sentences | seconds | processor seconds | times as fast |")
    print("|---|---|---|---|")
    for name, times in (("fp32", own), ("bf16", half)):
        gain = median(own.processor) / median(times.processor)
        print(f"| {name} | {median(times.wall):.1f} | {median(times.processor):.1f} | {gain:.2f} |")


def main() -> None:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path("../shared/data/sts/stsb/sts-test.csv")
    parser.add_argument("stsb", type=Path, nargs="?", default=default)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["encoding", "tuning"], default="")
    options = parser.parse_args()
    amx = "with AMX" if has_amx() else "without AMX"
    print(f"{machine()}; {amx}; {torch.get_num_threads()} threads")
    model, pairs = locate(parse_spec("minilm"), "en", True), pairs_of(options.stsb)
    if options.only != "tuning":
        encoding(model, pairs, options.rounds)
    if options.only != "encoding":
        tuning(model, [text for pair in pairs for text in pair[:2]][:TUNED], options.rounds)


if __name__ == "__main__":
    main()
