"""Build the generated part of ``plugins.md``: the hooks, and the names that a plugin may import."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import mirrorbench.plugin
from mirrorbench.core.hooks import HookSpecs

PAGE = Path(__file__).resolve().with_name("plugins.md")
BEGIN, END = "<!-- made from the code by docs/generate.py -->", "<!-- end of what is made -->"
PURPOSES = {
    "cli.completion": "completion in the shell",
    "cli.display": "options of commands, printing",
    "cli.progress": "progress of a run",
    "storage.checksums": "checksums of files",
    "core.devices": "devices and precision",
    "core.errors": "errors for users",
    "storage.files": "files, the cache folder",
    "storage.leases": "leases on shared folders",
    "core.hooks": "hooks",
    "core.identity": "versions and hashes",
    "core.encoder_protocol": "inputs of encoders",
    "core.plugins": "the plugin manager",
    "core.schema": "YAML",
    "core.quoting": "users' texts in messages",
    "core.specs": "encoder specs",
    "core.vectors": "similarities",
    "data.archives": "zip, tar, Debian packages",
    "data.card_files": "reading cards",
    "data.cards": "cards",
    "data.corpora": "tuning corpora",
    "data.readers.dataset_tables": "tables of data sets",
    "data.parsers.datasets.contexts": "words in context",
    "data.items": "items of tasks",
    "data.readers.rows": "rows of users' files",
    "data.readers.columns": "columns of users' files",
    "data.readers.files": "bytes of files",
    "data.readers.json_lines": "JSON lines",
    "data.readers.marks": "marked words",
    "data.readers.parquet": "Parquet files",
    "data.readers.values": "numbers and ids in files",
    "data.store": "the data directory",
    "data.readers.text": "lines of text",
    "models.backbones": "backbones and their files",
    "models.batching": "batches",
    "models.fingerprints": "identity of backbones",
    "models.model_files": "model directories",
    "models.transformer_encoder": "texts to vectors",
    "models.families": "families of models",
    "models.opening": "opening models",
    "models.pooling": "pooling and prompts",
    "models.encoder_systems": "encoders of plugins",
    "models.transformer": "transformers models",
    "reports.comparable": "comparable results",
    "reports.leaderboard": "leaderboards",
    "reports.renderers": "tables as text",
    "reports.renderers.notes": "notes below tables",
    "reports.renderers.numbers": "numbers and metrics as texts",
    "reports.renderers.tex": "LaTeX",
    "reports.renderers.text": "Markdown",
    "reports.renderers.titles": "titles of tables",
    "reports.selection": "tables of papers",
    "reports.statistics.comparisons": "comparisons",
    "reports.statistics.estimates": "corrected p-values",
    "reports.statistics.influence": "influences of items",
    "reports.statistics.items": "scores of items",
    "reports.table": "tables",
    "runs.registry": "plugins and names of tasks",
    "storage.cache": "the cache",
    "runs.cells": "cells",
    "runs.executors": "executors",
    "runs.outcomes": "outcomes of runs",
    "runs.plan": "plans of runs",
    "storage.results": "stored results",
    "runs.requests": "requests for a run",
    "runs.recipe_resolution": "checks of specs",
    "runs.workspace": "what hooks receive",
    "workspace_functions": "planning and running with a workspace",
    "runs.worker_context": "settings of workers",
    "runs.environment": "versions and device",
    "session": "all commands in Python",
    "tasks.base": "tasks",
    "tasks.metrics": "metrics",
    "tasks.thresholds": "thresholds",
    "tasks.pairs": "tasks on pairs",
    "training.augmentations": "augmentations",
    "training.held_out": "held-out texts",
    "training.methods": "methods",
}
"""What the names of each module are for."""


def page() -> str:
    """Return the page with its generated part renewed."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([f"{before}{BEGIN}", "", *hooks(), "", *names(), "", f"{END}{after}"])


def hooks() -> Iterator[str]:
    """Yield the section on hooks: what each registers, and what that must do."""
    yield from ("## Hooks", "")
    for name, function in vars(HookSpecs).items():
        if name.startswith("register_"):
            text = inspect.cleandoc(function.__doc__ or "").replace("``", "`")
            yield f"- **`{name}`** {' '.join(text.split())}"


def names() -> Iterator[str]:
    """Yield the table of all names of the public interface, by module."""
    yield from ("## Names to import", "")
    yield "Plugins import these names with `from mirrorbench.plugin import NAME`; `help(NAME)` describes them in full. Other"
    yield "names of mirrorbench may change without notice."
    yield from ("", "| for | module | names |", "|---|---|---|")
    ordered = sorted(mirrorbench.plugin.MODULES.items(), key=lambda item: item[1])
    for module, group in groupby(ordered, key=lambda item: item[1].removeprefix("mirrorbench.")):
        yield f"| {PURPOSES[module]} | `{module}` | {', '.join(f'`{name}`' for name, _ in group)} |"
