"""The parts of ``gpu.py``: each checks or measures one thing, and yields rows of the table."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import isfinite
from pathlib import Path
from statistics import median
from types import ModuleType

import numpy as np
import released_loop
import torch
from gpu_bench import GIB, Bench, Row, right

import mirrorbench
from mirrorbench.core.devices import autocast, release_memory, use_deterministic_algorithms
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.training.loop import limits
from mirrorbench.training.losses import LOSSES, Objective, TokenizedPairs, objective_of
from mirrorbench.training.microbatch import MicroBatchReader

CPU = torch.device("cpu")
STS_TEXTS = 26_173
"""Distinct sentences of the seven STS sets."""
RELEASED_WORKERS = 16
"""Processes that tokenise in the released code (Mirror-BERT, ``train.py``)."""


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the norm of a difference, relative to that of ``other``."""
    left, wanted = (tensor.detach().double().cpu() for tensor in (one, other))
    return float((left - wanted).norm() / wanted.norm().clamp(min=1e-30))


def yes(answer: bool) -> str:
    """Return the answer as a word."""
    return "yes" if answer else "no"


def numbers(bench: Bench) -> Iterator[Row]:
    """Compare vectors and gradients with and without padding with the CPU's with padding in fp32."""
    texts, model = bench.texts(64), bench.opened(dropout=0.0)
    vectors, gradients = differentiated(bench.opened(CPU, dropout=0.0), texts, "fp32", packed=False)
    for precision, near, near_too in (("fp32", 1e-4, 1e-3), (bench.half, 0.02, 0.05)):
        for packed in (False, True):
            own, found = differentiated(model, texts, precision, packed)
            error = distance(own, vectors)
            worst, name = max(
                (distance(found[name], gradient), name) for name, gradient in gradients.items()
            )
            what = f"vectors and worst gradient, {precision}, {'packed' if packed else 'padded'}, against the CPU's"
            measured, verdict = (
                f"{error:.1e}, {worst:.1e} ({name})",
                right(error <= near and worst <= near_too),
            )
            yield Row(what, f"{near:g}, {near_too:g}", measured, verdict)


def differentiated(
    model: Transformer, texts: Sequence[str], precision: str, packed: bool
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return vectors of texts in training mode, and gradients of a function of them, but those that are 0 in theory."""
    model.model.train().zero_grad()
    with autocast(model.device, precision):
        vectors = model.forward(model.tokenize(texts, 50), [Pooling("mean")], packed=packed)[0]
    vectors.float().sin().sum().backward()
    return vectors, {
        name: weight.grad.clone()
        for name, weight in model.model.named_parameters()
        if weight.grad is not None and not name.endswith("key.bias")
    }


def draws(bench: Bench) -> Iterator[Row]:
    """Check that vectors that are computed twice, to save memory, have the same dropout both times."""
    model, n = bench.opened(), bench.size(400, 40)
    ids = model.tokenize(bench.texts(n) * 2, 50)
    pairs = TokenizedPairs(ids, None, torch.arange(n))
    model.model.train()
    objective = objective_of(LOSSES[bench.recipe.loss], model, bench.recipe)
    reader = MicroBatchReader(objective, bench.precision, True)
    parts, _ = reader.split(pairs, len(ids.values) // 4, np.random.default_rng(0))
    first, second = (
        [part.detach() for part in reader.read(parts, keep=keep)] for keep in (False, True)
    )
    same = all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    varied = not torch.equal(*first[0].chunk(2))
    what = "dropout: the same without gradients as with them; another for each view"
    yield Row(what, "yes, yes", f"{yes(same)}, {yes(varied)}", right(same and varied))


def waits(bench: Bench) -> Iterator[Row]:
    """Count the waits of a step of tuning for the device: those of 8 steps less those of 4."""
    model, said = bench.opened(), {}
    for steps in (1, 4, 8):  # the first one warms up
        texts = bench.texts(steps * bench.recipe.batch_size)
        with warnings.catch_warnings(record=True) as caught, bench.telling_waits():
            warnings.simplefilter("always")
            bench.tuned(model, texts)
        said[steps] = [warning for warning in caught if "synchroniz" in str(warning.message)]
    more = len(said[8]) - len(said[4])
    places = sorted({f"{Path(warning.filename).name}:{warning.lineno}" for warning in said[8]})
    what = "waits for the device in 8 steps of tuning more than in 4"
    yield Row(
        what, "0", f"{more}; any: {', '.join(places) or 'none'}", bench.right_on_gpu(more <= 0)
    )


def tuning(bench: Bench) -> Iterator[Row]:
    """Measure an epoch over 10,000 sentences, and the released loop on the same device."""
    texts, model, reports = bench.texts(bench.size(10_000, 60)), bench.opened(), []

    def work() -> None:
        reports.append(bench.tuned(model, texts))

    first, *warm = (bench.seconds(work) for _ in range(bench.size(4, 2)))
    took, report, what = (
        median(warm),
        reports[-1],
        f"tuning {len(texts)} sentences, {bench.precision}",
    )
    measured = (
        f"{took:.2f} s, {first:.2f} the first time; {report.steps} steps, {report.tokens} tokens"
    )
    yield Row(what, "1 s warm (0.6 possible)", measured, bench.reached(took <= 1))
    finite = all(map(isfinite, report.losses)) and all(
        bool(w.isfinite().all()) for w in model.model.parameters()
    )
    yield Row(
        "its losses and weights",
        "finite",
        f"{report.losses[0]:.3f} to {report.losses[-1]:.3f}",
        right(finite),
    )
    yield Row("its memory beyond the weights", "", f"{bench.peak(work) / GIB:.2f} GiB")
    weights = sum(weight.numel() for weight in model.model.encoder.parameters())
    done, most = (
        6 * weights * report.tokens / took,
        bench.products_per_second(),
    )  # forwards 2, backwards 4 a weight
    yield Row(
        "its speed and that of a square bf16 product",
        "",
        f"{done / 1e12:.1f}, {most / 1e12:.1f} TFLOP/s",
    )
    if bench.precision != "fp32":
        slow = min(
            bench.seconds(lambda: bench.tuned(model, texts, precision="fp32")) for _ in range(2)
        )
        yield Row(f"tuning {len(texts)} sentences, fp32", "", f"{slow:.2f} s")
    recipe, workers = bench.recipe, bench.size(RELEASED_WORKERS, 1)
    views = released_loop.Views(
        model.tokenizer, recipe.train_max_length, int(recipe.rate("span_mask"))
    )
    released = partial(
        released_loop.tune,
        model.model,
        texts,
        views,
        recipe.batch_size,
        recipe.temperature,
        workers,
    )
    theirs = min(bench.seconds(released) for _ in range(bench.size(3, 1)))
    what = f"the released loop against it: AMP, {workers} processes that tokenise"
    yield Row(
        what,
        "5 times",
        f"{theirs:.2f} s: {theirs / took:.1f} times",
        bench.reached(theirs >= 5 * took),
    )
    busy = bench.kernel_seconds(work)
    measured = f"{busy / took:.0%}; {busy:.2f} s of kernels by the profiler"
    yield Row(
        "the GPU's share of the time of tuning", "60 %", measured, bench.reached(busy >= 0.6 * took)
    )


def encoding(bench: Bench) -> Iterator[Row]:
    """Encode as many texts as the seven STS sets have, in both precisions and by the released loop."""
    texts, some = bench.texts(bench.size(STS_TEXTS, 100)), bench.size(500, 100)
    reference = bench.encoder(device=CPU).encode(texts[:some])
    for precision, near, aim in (("fp32", 1e-4, "1 s warm, 5 s cold"), (bench.half, 0.02, "")):
        began = time.perf_counter()
        encoder = bench.encoder(precision)
        vectors = encoder.encode(texts)
        cold = time.perf_counter() - began
        work = partial(encoder.encode, texts)
        took, memory = median(bench.seconds(work) for _ in range(3)), bench.peak(work)
        measured = f"{took:.2f} s, {cold:.2f} the first time with loading; {memory / GIB:.2f} GiB beyond the weights"
        verdict = bench.reached(took <= 1 and cold <= 5) if aim else ""
        yield Row(f"encoding {len(texts)} texts, {precision}", aim, measured, verdict)
        error = distance(torch.from_numpy(vectors[:some]), torch.from_numpy(reference))
        yield Row(
            f"{some} of these vectors against the CPU's",
            f"{near:g}",
            f"{error:.1e}",
            right(error <= near),
        )
    model = encoder.transformer
    theirs = bench.seconds(partial(released_loop.encode, model.model, model.tokenizer, texts, 64))
    yield Row("the released loop for them, AMP", "", f"{theirs:.2f} s")


def search(bench: Bench) -> Iterator[Row]:
    """Search a million names for ten thousand mentions; a mention is a name with some noise."""
    names, mentions = bench.size(1_000_000, 2_000), bench.size(10_000, 50)
    rng, topk = np.random.default_rng(0), neighbours().topk
    keys = rng.standard_normal((names, 768), dtype=np.float32)
    wanted = rng.integers(0, names, mentions)
    queries = keys[wanted] + 0.5 * rng.standard_normal((mentions, 768), dtype=np.float32)
    work = partial(topk, queries, keys, 5, device=str(bench.device))
    memory, took = bench.peak(work), bench.seconds(work)
    verdict = bench.reached(took <= 5 and memory <= 8e9)
    measured = f"{took:.2f} s, {memory / 1e9:.2f} GB on the device"
    yield Row(
        f"searching {names} names for {mentions} mentions, 768 dimensions",
        "5 s, 8 GB",
        measured,
        verdict,
    )
    (found, scores), few = work(), topk(queries[:20], keys, 5)
    same = np.array_equal(found[:20], few[0]) and np.array_equal(scores[:20], few[1])
    hits = float((found[:, 0] == wanted).mean())
    what = "found; neighbours and similarities as on the CPU"
    yield Row(what, "100 %, yes", f"{hits:.1%}, {yes(same)}", right(hits == 1 and same))


def neighbours() -> ModuleType:
    """Import the search without the rest of ``mirrorbench.tasks``, whose imports may be missing."""
    package = ModuleType("mirrorbench.tasks")
    package.__path__ = [str(Path(mirrorbench.__file__).parent / "tasks")]
    sys.modules.setdefault(package.__name__, package)
    return importlib.import_module("mirrorbench.tasks.lexical.nearest_neighbours")


def memory(bench: Bench) -> Iterator[Row]:
    """Encode and tune while something else holds memory that they would use."""
    texts, encoder, vectors = bench.texts(bench.size(8_192, 60)), bench.encoder(), []
    needed = bench.peak(lambda: vectors.append(encoder.encode(texts)))
    before, failures = encoder.transformer.budget, bench.failures()
    ballast = bench.filled(needed // 2)
    vectors.append(encoder.encode(texts))
    del ballast
    release_memory(bench.device)  # else the tuning would live in what was its block
    failures, error = bench.failures() - failures, distance(*map(torch.from_numpy, vectors))
    what = "encoding with half of its memory: allocations that failed, tokens a batch, the same vectors"
    measured = f"{failures}, {before} to {encoder.transformer.budget}, {error:.1e}"
    yield Row(what, "1, fewer, 1e-5", measured, bench.right_on_gpu(failures > 0 and error <= 1e-5))
    texts, model, held = bench.texts(4 * bench.recipe.batch_size), bench.opened(), []
    needed, room = (
        bench.peak(lambda: bench.tuned(model, texts)),
        limits(Objective(model, bench.recipe)),
    )
    failures = bench.failures()

    def advance(done: int) -> None:
        if not held:  # after the first step: the budget is set, and the next steps find less memory
            held.append(bench.filled(needed // 8))  # AdamW's state is there already

    report = bench.tuned(model, texts, advance=advance)
    failures, less = bench.failures() - failures, limits(Objective(model, bench.recipe))
    held.clear()
    what = (
        "tuning that loses seven eighths of its memory on the way: allocations that failed, losses"
    )
    good = failures > 0 and all(map(isfinite, report.losses))
    yield Row(what, "1, finite", f"{failures}, {report.losses}", bench.right_on_gpu(good))
    what = "tokens of a micro-batch, kept at once for the gradients; with memory and without"
    good = less[0] == room[0] and less[1] < room[1]
    yield Row(what, "the same, fewer", f"{room}; {less}", bench.right_on_gpu(good))


def repeats(bench: Bench) -> Iterator[Row]:
    """Check that tuning and encoding twice give the same bits, with torch's deterministic algorithms and without."""
    texts = bench.texts(4 * bench.recipe.batch_size)
    for option, algorithms in (("", nullcontext), ("--deterministic", deterministic)):
        states = []
        with algorithms():
            for _ in range(2):
                model = bench.opened()
                took = bench.seconds(partial(bench.tuned, model, texts))
                encoded = TransformerEncoder(model, Pooling("mean")).encode(texts)
                states.append([*model.model.state_dict().values(), torch.from_numpy(encoded)])
        same = all(torch.equal(one, other) for one, other in zip(*states, strict=True))
        what = f"4 steps and encoding, twice: the same bits {option}".strip()
        yield Row(
            what, option and "yes", f"{yes(same)}; {took:.2f} s", right(same) if option else ""
        )


@contextmanager
def deterministic() -> Iterator[None]:
    """Use deterministic algorithms for a while, as ``--deterministic`` does."""
    use_deterministic_algorithms()
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    part.__name__: part
    for part in (numbers, draws, waits, tuning, encoding, search, memory, repeats)
}
