"""The list of MTEB's tasks in a file, since importing mteb would cost every command seconds.

``make_catalogue.py`` beside the package regenerates the file from the installed mteb. Newer tasks are converted by
``from_mteb``. Dataset and revision are those of the installed mteb.
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
        name: name of the mirrorbench task: ``mteb-NAME``, or ``mteb-NAME-SUBSET`` if there are several subsets.
        task: name of MTEB's task.
        type: ``STS`` or ``PairClassification``.
        subset: MTEB's ``hf_subset``.
        split: ``test``, or the first split of a task without one of that name.
        languages: two-letter codes, or three letters for languages without one.
    """

    name: str
    task: str
    type: str
    subset: str
    split: str
    languages: tuple[str, ...]


@cache
def catalogue() -> dict[str, Entry]:
    """Return the entries by the name of their mirrorbench task."""
    rows = _content()["tasks"]
    return {row["name"]: Entry(**{**row, "languages": tuple(row["languages"])}) for row in rows}


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def entries(task: Any, codes: Mapping[str, str] | None = None) -> list[Entry]:
    """Return the entries of a task of MTEB, one for each of its subsets.

    Args:
        task: the task object.
        codes: two-letter codes by MTEB's three-letter ones, by default those of the file; other languages keep their
            three letters.
    """
    codes = _content()["languages"] if codes is None else codes
    metadata = task.metadata
    split = "test" if "test" in metadata.eval_splits else metadata.eval_splits[0]
    subsets = metadata.hf_subsets_to_langscripts
    task_entries = []
    for subset, language_scripts in subsets.items():
        name = f"{PREFIX}{metadata.name}"
        if len(subsets) > 1:
            name += f"-{subset}"
        # A dictionary keeps the order of codes without repeats: two scripts may have one language.
        languages: dict[str, None] = {}
        for language_script in language_scripts:
            code = language_script.partition("-")[0]
            languages[codes.get(code, code)] = None
        task_entries.append(
            Entry(name, metadata.name, metadata.type, subset, split, tuple(languages))
        )
    return task_entries
