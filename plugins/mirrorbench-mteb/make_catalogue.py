"""Write mirrorbench_mteb/catalogue.json from the installed mteb: ``python make_catalogue.py`` (needs langcodes)."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import langcodes
import mteb
from mirrorbench_mteb.catalogue import FILE, entries

KINDS = ["STS", "PairClassification"]
SAME_QUESTION = {"cosine_spearman", "max_ap", "max_accuracy"}
"""A task of these types whose main score is another one (``alpha_auc``) asks another question, and is left out."""


def ask_mteb() -> dict[str, Any]:
    """The public tasks of the installed mteb on text alone, superseded ones too (results are published on them)."""
    tasks = mteb.get_tasks(
        task_types=KINDS, exclude_superseded=False, exclude_aggregate=True, modalities=["text"],
        exclusive_modality_filter=True,
    )  # fmt: skip
    fitting = [task for task in tasks if task.metadata.main_score in SAME_QUESTION]
    codes = sorted({language for task in fitting for language in task.metadata.languages})
    languages = {code: langcodes.standardize_tag(code, macro=True) for code in codes}
    rows = [asdict(entry) for task in fitting for entry in entries(task, languages)]
    rows = sorted(({**row, "languages": list(row["languages"])} for row in rows), key=lambda row: row["name"].lower())
    return {"mteb": version("mteb"), "languages": languages, "tasks": rows}


if __name__ == "__main__":
    FILE.write_text(json.dumps(ask_mteb(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
