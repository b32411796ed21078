"""Completion of arguments in the shell, with names from the plugins.

Names are looked up when the shell asks for them, not at import. Each key press starts mirrorbench anew, so this module
imports little, and never torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from mirrorbench.core.specs import LEVELS, PROTOCOLS

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


def _plugins() -> Plugins:
    from mirrorbench.runs.registry import plugins

    return plugins()


def _suites() -> Iterable[str]:
    from mirrorbench.data.card_files import builtin_suites

    return builtin_suites()


def _backbones() -> Iterable[str]:
    from mirrorbench.models.backbones import BACKBONES

    return BACKBONES


def _grids() -> Iterable[str]:
    # Names that start with a dot are endings of grid files, such as .yaml.
    return (name for name in _plugins().grids.names() if not name.startswith("."))


def _tables() -> Iterator[str]:
    """Yield each paper, followed by its tables."""
    for entry in _plugins().papers:
        yield entry.name
        for file in entry.value.glob("*.yaml"):
            yield f"{entry.name}/{file.stem}"


NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "devices": lambda: ("auto", "cpu", "cuda", "cuda:0", "mps"),
    "precisions": lambda: ("auto", "fp32", "bf16", "fp16"),
    "protocols": lambda: PROTOCOLS,
    "levels": lambda: LEVELS,
    "notes": lambda: ("none", "short", "all"),
    "suites": _suites,
    "backbones": _backbones,
    "grids": _grids,
    "tables": _tables,
    "tasks": lambda: [*_suites(), *_plugins().tasks.names()],
    "data": lambda: [*_suites(), *_plugins().tasks.names(), *_plugins().corpora.names()],
    "encoders": lambda: [*_backbones(), *_plugins().encoders.names()],
}
"""Functions that return the names of a group, for groups that are not a registry of the plugins."""
_SEPARATORS = {"tasks": ",", "encoders": "+", "corpora": "+"}
"""What separates several names in one argument, by group; in an encoder, the backbone and its method."""


def complete(group: str) -> Any:
    """Return the ``autocompletion`` of an argument that takes names of a group.

    Several tasks are joined by a comma, several corpora by ``+``, as are a backbone and its method. Only the last name
    is completed.
    """

    def completions(incomplete: str) -> list[str]:
        prefix, last_name = _split_last_name(group, incomplete)
        names = _names("methods" if group == "encoders" and prefix else group)
        return [prefix + name for name in names if name.startswith(last_name)]

    return completions


def _split_last_name(group: str, text: str) -> tuple[str, str]:
    """Return the text up to its last separator, that one included, and the unfinished name after it."""
    if group not in _SEPARATORS:
        return "", text
    names, separator, last_name = text.rpartition(_SEPARATORS[group])
    return names + separator, last_name


def _names(group: str) -> Iterable[str]:
    if group in NAMES:
        return NAMES[group]()
    names: Iterable[str] = getattr(_plugins(), group).names()
    return names
