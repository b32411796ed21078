"""Files of a test's own, and what a parser reads in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from helpers.format_samples import SAMPLES
from mirrorbench.data.items import Pair
from mirrorbench.data.parsers import parse
from mirrorbench.runs.registry import load_plugins

PARSERS = load_plugins(discover=False).parsers
SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def on_disk(folder: Path, files: Mapping[str, str | bytes]) -> dict[str, Path]:
    """Write files, texts in UTF-8 with their line ends as they are; where each one is."""
    paths = {name: folder / name for name in files}
    for name, content in files.items():
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


def run(parser: str, folder: Path, files: Mapping[str, str | bytes], **options: Any) -> list[Any]:
    """What a parser reads in files that are written into a folder."""
    return PARSERS[parser](on_disk(folder, files), options)


def read_sample(name: str, folder: Path, changes: Mapping[str, bytes], **options: Any) -> list[Any]:
    """What is read in a sample with some files changed or added."""
    sample = SAMPLES[name]
    paths = on_disk(folder, sample.written({**sample.files, **changes}))
    return parse(PARSERS.entry(sample.parser), paths, {**sample.options, **options})


def simple(pairs: Iterable[Pair]) -> list[tuple[str, str, str, float, str]]:
    """Pairs as plain values."""
    return [(pair.id, pair.left, pair.right, pair.gold, pair.subset) for pair in pairs]
