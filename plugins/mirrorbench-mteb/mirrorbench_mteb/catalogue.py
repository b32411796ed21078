"""A list of MTEB's tasks in a file, since importing mteb would cost every command seconds.

``make_catalogue.py`` beside the package regenerates the file from the installed mteb. Newer tasks go through
``from_mteb``. Dataset and revision come from the installed mteb.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")
PREFIX = "mteb-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One subset of a task of MTEB.

    Attributes:
        name: of the mirrorbench task: ``mteb-NAME``, or ``mteb-NAME-SUBSET`` where there are several.
        task: MTEB's name.
        type: ``STS`` or ``PairClassification``.
        subset: MTEB's ``hf_subset``.
        split: ``test``, or the first of the task's splits where it has none of that name.
        languages: two-letter codes where there are such.
    """

    name: str
    task: str
    type: str
    subset: str
    split: str
    languages: tuple[str, ...]


@cache
def catalogue() -> dict[str, Entry]:
    """The tasks by mirrorbench's name."""
    rows = _content()["tasks"]
    return {row["name"]: Entry(**{**row, "languages": tuple(row["languages"])}) for row in rows}


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def entries(task: Any, codes: Mapping[str, str] | None = None) -> list[Entry]:
    """The entries of one task of MTEB, one for each of its subsets.

    Args:
        task: the task object.
        codes: two-letter codes of MTEB's three-letter ones, by default those of the file; a language that has none
            keeps its three letters.
    """
    codes = _content()["languages"] if codes is None else codes
    metadata = task.metadata
    split = "test" if "test" in metadata.eval_splits else metadata.eval_splits[0]
    scripts = metadata.hf_subsets_to_langscripts
    several = len(scripts) > 1
    return [
        Entry(
            f"{PREFIX}{metadata.name}-{subset}" if several else f"{PREFIX}{metadata.name}",
            metadata.name,
            metadata.type,
            subset,
            split,
            tuple(dict.fromkeys(codes.get(code := script.partition("-")[0], code) for script in languages)),
        )
        for subset, languages in scripts.items()
    ]
