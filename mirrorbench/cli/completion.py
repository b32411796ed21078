"""Completion of arguments in the shell. Names come from the plugins; torch is not imported for them.

Typer asks a function for the names of one argument. Names are looked up when the shell asks, not at import, since each
key press starts mirrorbench anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    return (name for name in _plugins().grids.names() if not name.startswith("."))


def _tables() -> Iterable[str]:
    papers = _plugins().papers
    return (
        name
        for e in papers
        for name in (e.name, *(f"{e.name}/{f.stem}" for f in e.value.glob("*.yaml")))
    )


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
"""Names by group; those of all other groups are registered by plugins."""


def complete(group: str) -> Any:
    """Return the ``autocompletion`` of an argument that takes names of a group.

    Several tasks are joined by a comma, a backbone and its method by ``+``, several corpora too.
    """

    def offered(incomplete: str) -> list[str]:
        before, mark, last = incomplete.rpartition(
            {"tasks": ",", "encoders": "+", "corpora": "+"}.get(group, "\n")
        )
        asked = "methods" if group == "encoders" and mark else group
        known = NAMES[asked]() if asked in NAMES else getattr(_plugins(), asked).names()
        return [f"{before}{mark}{name}" for name in known if name.startswith(last)]

    return offered
