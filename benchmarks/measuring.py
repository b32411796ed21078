"""Common code of the benchmarks: alternating runs, ratios of their medians, and the table of results."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from statistics import median

Work = Callable[[], object]


@dataclass
class Table:
    """Rows of ratios, printed as Markdown as they come."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def title(self, text: str) -> None:
        """Print a heading, and the head of a table."""
        print(
            f"\n## {text}\n\n| what | here | compared with | seconds here | there | times as fast | (processor time) |"
        )
        print("|---|---|---|---|---|---|---|", flush=True)

    def add(
        self, what: str, here: str, there: str, own: Times, other: Times, note: str = ""
    ) -> None:
        """Add a row: the ratio of the speeds of ``own`` and ``other``."""
        wall = [b / a for a, b in zip(own.wall, other.wall, strict=True)]
        processor = median(b / a for a, b in zip(own.processor, other.processor, strict=True))
        cells = (
            what,
            here,
            there,
            f"{median(own.wall):.3g}",
            f"{median(other.wall):.3g}",
            f"**{median(wall):.2f}** ({min(wall):.2f} to {max(wall):.2f})",
            f"{processor:.2f}" + (f"; {note}" if note else ""),
        )
        self.rows.append(cells)
        print(f"| {' | '.join(cells)} |", flush=True)


@dataclass
class Times:
    """Seconds of each run: on the wall clock, and of all processors together."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def alternate(works: Sequence[Work], rounds: int, warm_up: bool = True) -> list[Times]:
    """Run each work once a round, one after the other, so that whatever disturbs the machine disturbs them all.

    Args:
        works: what to run.
        rounds: how often.
        warm_up: run each once before, unmeasured.
    """
    times = [Times() for _ in works]
    for number in range(rounds + warm_up):
        for work, own in zip(works, times, strict=True):
            wall, processor = time.perf_counter(), _processor()
            work()
            if number >= warm_up:
                own.wall.append(time.perf_counter() - wall)
                own.processor.append(max(_processor() - processor, 1e-9))
    return times


def _processor() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def machine() -> str:
    """Describe processor, cores and versions in one line."""
    import torch

    packages = (
        "torch",
        "transformers",
        "tokenizers",
        "numpy",
        "sentence-transformers",
        "faiss-cpu",
    )
    versions = [f"{name} {found}" for name in packages if (found := _version(name))]
    threads = f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    system = f"{platform.system()} {platform.machine()}"
    return ", ".join(
        [_processor_name(), system, threads, f"Python {platform.python_version()}", *versions]
    )


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            )
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
