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
    """List the public text-only tasks of the installed mteb; superseded ones too, as they have published results."""
    tasks = mteb.get_tasks(
        task_types=TYPES,
        exclude_superseded=False,
        exclude_aggregate=True,
        modalities=["text"],
        exclusive_modality_filter=True,
    )
    fitting = [task for task in tasks if task.metadata.main_score in SIMILARITY_SCORES]
    codes = sorted({language for task in fitting for language in task.metadata.languages})
    languages = {code: langcodes.standardize_tag(code, macro=True) for code in codes}
    rows = [asdict(entry) for task in fitting for entry in entries(task, languages)]
    rows = sorted(
        ({**row, "languages": list(row["languages"])} for row in rows),
        key=lambda row: row["name"].lower(),
    )
    return {"mteb": version("mteb"), "languages": languages, "tasks": rows}


if __name__ == "__main__":
    FILE.write_text(
        json.dumps(installed_catalogue(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
