"""Write mirrorbench_mteb/catalogue.json from the installed mteb: ``python make_catalogue.py`` (needs langcodes)."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import langcodes
import mteb
from mirrorbench_mteb.catalogue import FILE, entries

TYPES = ["STS", "PairClassification"]
SIMILARITY_SCORES = {"cosine_spearman", "max_ap", "max_accuracy"}
"""Main scores of tasks that ask for similarity; tasks with others (``alpha_auc``) are left out."""


def installed_catalogue() -> dict[str, Any]:
    """Return the version of the installed mteb, its languages, and its similarity tasks on text, sorted by name.

    Superseded tasks are included, since results for them are published.
    """
    tasks = mteb.get_tasks(
        task_types=TYPES,
        exclude_superseded=False,
        exclude_aggregate=True,
        modalities=["text"],
        exclusive_modality_filter=True,
    )
    similarity_tasks = [task for task in tasks if task.metadata.main_score in SIMILARITY_SCORES]
    codes = sorted({language for task in similarity_tasks for language in task.metadata.languages})
    # Two-letter codes, where there is one, by MTEB's three-letter ones.
    languages = {code: langcodes.standardize_tag(code, macro=True) for code in codes}
    rows = []
    for task in similarity_tasks:
        for entry in entries(task, languages):
            rows.append({**asdict(entry), "languages": list(entry.languages)})
    rows.sort(key=lambda row: row["name"].lower())
    return {"mteb": version("mteb"), "languages": languages, "tasks": rows}


if __name__ == "__main__":
    FILE.write_text(
        json.dumps(installed_catalogue(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
