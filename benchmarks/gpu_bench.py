"""Common code of the parts of ``gpu.py``: rows of its table, models, texts, and measures of seconds and memory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from measuring import Work
from torch.profiler import ProfilerActivity, profile

from mirrorbench.core.devices import on_gpu, tuning_precision
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.training.augmentations import Augmentation, Dropout, functions_and_rates, span_mask
from mirrorbench.training.loop import TuningReport, tune_backbone
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.recipes import Recipe

AUGMENTATIONS = {
    "dropout": Augmentation("dropout", Dropout(), "model", probability=True),
    "span_mask": Augmentation("span_mask", span_mask),
}
GIB = 1 << 30
WRONG = "**wrong**"


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    aim: str
    measured: str
    verdict: str = ""

    def __str__(self) -> str:
        return f"| {self.what} | {self.aim} | {self.measured} | {self.verdict} |"


def right(holds: bool) -> str:
    """Return the verdict on a necessary condition."""
    return "right" if holds else WRONG


@dataclass(frozen=True)
class Bench:
    """The device, a model's folder, texts and sizes of all parts."""

    device: torch.device
    mini: bool
    path: Path
    lines: list[str]

    @property
    def recipe(self) -> Recipe:
        """Mirror-BERT's recipe for sentences: one epoch, batches of 200, masked mean, dropout and span mask."""
        recipe = mirror_preset("sentence", "bert", "paper")
        return replace(recipe, batch_size=20) if self.mini else recipe

    @property
    def precision(self) -> str:
        """The default precision of tuning."""
        return tuning_precision(self.device)

    @property
    def half(self) -> str:
        """The half precision of the measurements."""
        return self.precision if on_gpu(self.device) else "bf16"

    def size(self, full: int, mini: int) -> int:
        """Return the size for a full or a mini run."""
        return mini if self.mini else full

    def texts(self, n: int) -> list[str]:
        """Return n distinct texts."""
        lines = self.lines
        return [f"{lines[i % len(lines)]} {i // len(lines) or ''}".strip() for i in range(n)]

    def opened(
        self, device: torch.device | None = None, dropout: float | None = None
    ) -> Transformer:
        """Load the model, with the recipe's dropout or another."""
        recipe = (
            self.recipe
            if dropout is None
            else replace(self.recipe, augment=(("dropout", dropout),))
        )

        def configure(config: object) -> None:
            for augmentation, rate in functions_and_rates(recipe.augment, AUGMENTATIONS, "model"):
                augmentation.configure(config, rate)

        return load_transformer(self.path, device or self.device, configure)

    def tuned(self, model: Transformer, texts: Sequence[str], **options: Any) -> TuningReport:
        """Tune for an epoch over the texts."""
        return tune_backbone(
            model, texts, self.recipe, 0, AUGMENTATIONS, **{"precision": self.precision, **options}
        )

    def encoder(
        self, precision: str = "fp32", device: torch.device | None = None
    ) -> TransformerEncoder:
        """Return an encoder with a masked mean."""
        return TransformerEncoder(self.opened(device), Pooling("mean"), precision, "random weights")

    def wait(self) -> None:
        """Wait until the device has done all its work."""
        if on_gpu(self.device):
            torch.cuda.synchronize(self.device)

    def seconds(self, work: Work) -> float:
        """Measure the seconds until the device has done the work."""
        self.wait()
        started = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - started

    def kernel_seconds(self, work: Work) -> float:
        """Measure the seconds in which the device computed or copied anything, by torch's profiler."""
        device = "CUDA" if on_gpu(self.device) else "CPU"
        with profile(activities=[getattr(ProfilerActivity, device)]) as seen:
            work()
            self.wait()
        spans = sorted(
            (event.time_range.start, event.time_range.end)
            for event in seen.events()
            if event.device_type.name == device and not event.is_user_annotation
        )
        total = until = 0.0
        for start, end in spans:  # microseconds; those of several streams may overlap
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total / 1e6

    def products_per_second(self) -> float:
        """Measure operations a second of a square bf16 product of random numbers."""
        size = self.size(8192, 128)
        one = torch.randn(size, size, device=self.device, dtype=torch.bfloat16)
        return (
            10
            * 2
            * size**3
            / min(self.seconds(lambda: [one @ one for _ in range(10)]) for _ in range(3))
        )

    def peak(self, work: Work) -> int:
        """Measure the most bytes on the device during the work, less those before it; 0 on a CPU."""
        if not on_gpu(self.device):
            work()
            return 0
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        work()
        return torch.cuda.max_memory_allocated(self.device) - before

    def filled(self, leave: int) -> torch.Tensor:
        """Return a tensor that takes all memory of the device but ``leave`` bytes; nothing on a CPU."""
        if not on_gpu(self.device):
            return torch.empty(0)
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self.device)
        return torch.empty(max(0, free - leave), dtype=torch.uint8, device=self.device)

    def failures(self) -> int:
        """Return the number of failed allocations on the device; 0 on a CPU."""
        return torch.cuda.memory_stats(self.device)["num_ooms"] if on_gpu(self.device) else 0

    @contextmanager
    def telling_waits(self) -> Iterator[None]:
        """Warn at every wait for the device."""
        tell = torch.cuda.set_sync_debug_mode if on_gpu(self.device) else str
        tell("warn")
        try:
            yield
        finally:
            tell("default")

    def reached(self, aim: bool) -> str:
        """Return the verdict on an aim of speed or memory; none for a small model or a CPU."""
        return "" if self.mini or not on_gpu(self.device) else "reached" if aim else "**missed**"

    def right_on_gpu(self, holds: bool) -> str:
        """Return the verdict on a condition that only a GPU can show."""
        return right(holds) if on_gpu(self.device) else ""
