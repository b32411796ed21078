"""Deprecated import paths, which forward to the current modules until version 0.3.

Only paths that the documentation, or the packages made by ``mirrorbench plugin new``, ever named are listed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED: dict[str, tuple[str, ...]] = {
    "mirrorbench.core.checksums": ("mirrorbench.storage.checksums",),
    "mirrorbench.core.files": (
        "mirrorbench.storage.files",
        "mirrorbench.storage.leases",
        "mirrorbench.storage.output_folders",
    ),
    "mirrorbench.core.inputs": ("mirrorbench.core.encoder_protocol", "mirrorbench.core.vectors"),
    "mirrorbench.core.shown": ("mirrorbench.core.quoting",),
    "mirrorbench.data.cardfile": ("mirrorbench.data.card_files",),
    "mirrorbench.data.formats": (
        "mirrorbench.data.parsers",
        "mirrorbench.data.readers.dataset_tables",
    ),
    "mirrorbench.data.formats.contexts": ("mirrorbench.data.parsers.datasets.contexts",),
    "mirrorbench.data.formats.lines": (
        "mirrorbench.data.readers.line_parts",
        "mirrorbench.data.parsers.lines",
    ),
    "mirrorbench.data.rows": (
        "mirrorbench.data.readers.rows",
        "mirrorbench.data.readers.columns",
        "mirrorbench.data.readers.parquet",
    ),
    "mirrorbench.data.textfiles": (
        "mirrorbench.data.readers.text",
        "mirrorbench.data.readers.files",
        "mirrorbench.data.readers.values",
        "mirrorbench.data.readers.json_lines",
        "mirrorbench.data.readers.marks",
    ),
    "mirrorbench.models.directories": ("mirrorbench.models.model_files",),
    "mirrorbench.models.encoder": ("mirrorbench.models.transformer_encoder",),
    "mirrorbench.models.systems": ("mirrorbench.models.encoder_systems",),
    "mirrorbench.reports.papers": ("mirrorbench.papers",),
    "mirrorbench.reports.papers.targets": ("mirrorbench.papers.targets",),
    "mirrorbench.runs.cache": ("mirrorbench.storage.cache",),
    "mirrorbench.runs.cache_entries": ("mirrorbench.storage.cache_entries",),
    "mirrorbench.runs.loading": (
        "mirrorbench.workspace_functions",
        "mirrorbench.workspace_classes",
    ),
    "mirrorbench.runs.recipe": ("mirrorbench.runs.recipe_resolution",),
    "mirrorbench.runs.results": ("mirrorbench.storage.results", "mirrorbench.runs.outcomes"),
    "mirrorbench.runs.run": (
        "mirrorbench.workspace_functions",
        "mirrorbench.workspace_classes",
        "mirrorbench.runs.corpus_overlap",
    ),
    "mirrorbench.training.objective": ("mirrorbench.training.losses",),
}
"""Current modules with the names of each deprecated path."""


class MovedModuleFinder(MetaPathFinder):
    """Finder of the deprecated import paths."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a forwarding module for a path in ``MOVED``."""
        if fullname not in MOVED:
            return None
        return ModuleSpec(fullname, _ForwardingLoader(), is_package=True)


class _ForwardingLoader(Loader):
    """Loader of modules whose names are looked up in the current modules."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module a ``__getattr__``, which looks names up in the current modules and warns."""
        old_path = module.__name__

        def look_up(name: str) -> Any:
            # Python asks modules for __path__ and the like, which are not forwarded.
            new_paths = () if name.startswith("__") else MOVED[old_path]
            for new_path in new_paths:
                new_module = import_module(new_path)
                if hasattr(new_module, name):
                    message = (
                        f"{old_path}.{name} is {new_path}.{name} now; "
                        "the old path will be removed in 0.3"
                    )
                    warnings.warn(message, DeprecationWarning, stacklevel=2)
                    return getattr(new_module, name)
            raise AttributeError(f"module {old_path!r} has no attribute {name!r}")

        module.__dict__["__getattr__"] = look_up


def forward_moved_modules() -> None:
    """Make the deprecated paths importable; called when mirrorbench is imported."""
    if not any(isinstance(finder, MovedModuleFinder) for finder in sys.meta_path):
        # This finder comes first: a folder that an update left behind would be found as a namespace package.
        sys.meta_path.insert(0, MovedModuleFinder())
