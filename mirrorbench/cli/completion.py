"""What the shell offers for an argument. Names come from the plugins; torch is not imported for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mirrorbench.core.specs import LEVELS, PROTOCOLS

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


def _suites() -> Iterable[str]:
    from mirrorbench.data.cardfile import builtin_suites

    return builtin_suites()


def _backbones() -> Iterable[str]:
    from mirrorbench.models.backbones import BACKBONES

    return BACKBONES


def _grids() -> Iterable[str]:
    from mirrorbench.runs.grids import grids_folder

    return (file.stem for file in grids_folder().glob("*.yaml"))


def _tables(plugins: Plugins) -> Iterable[str]:
    return (name for e in plugins.papers for name in (e.name, *(f"{e.name}/{f.stem}" for f in e.value.glob("*.yaml"))))


_FIXED: dict[str, Iterable[str]] = {
    "devices": ("auto", "cpu", "cuda", "cuda:0", "mps"), "precisions": ("auto", "fp32", "bf16", "fp16"),
    "protocols": PROTOCOLS, "levels": LEVELS,
    "notes": ("none", "short", "all"), "paper formats": ("markdown", "latex", "html", "csv", "json"),
}  # fmt: skip
_WITHOUT_PLUGINS: dict[str, Callable[[], Iterable[str]]] = {
    "suites": _suites, "backbones": _backbones, "grids": _grids,
}  # fmt: skip
_OF_PLUGINS: dict[str, Callable[[Plugins], Iterable[str]]] = {
    "tasks": lambda plugins: [*_suites(), *plugins.tasks.names()],
    "data": lambda plugins: [*_suites(), *plugins.tasks.names(), *plugins.corpora.names()],
    "encoders": lambda plugins: [*_backbones(), *plugins.encoders.names()],
    "methods": lambda plugins: plugins.methods.names(),
    "corpora": lambda plugins: plugins.corpora.names(),
    "formats": lambda plugins: plugins.renderers.names(),
    "executors": lambda plugins: plugins.executors.names(),
    "tables": _tables,
}


def names(kind: str) -> list[str]:
    """All names of a kind."""
    if kind in _FIXED:
        return list(_FIXED[kind])
    if kind in _WITHOUT_PLUGINS:
        return list(_WITHOUT_PLUGINS[kind]())
    from mirrorbench.runs.builtin import plugins

    return list(_OF_PLUGINS[kind](plugins()))


def complete(kind: str) -> Any:
    """The ``autocompletion`` of an argument.

    Several tasks are joined by a comma, a backbone and its method by ``+``, several corpora too.
    """

    def offered(incomplete: str) -> list[str]:
        before, mark, last = incomplete.rpartition({"tasks": ",", "encoders": "+", "corpora": "+"}.get(kind, "\n"))
        known = names("methods" if kind == "encoders" and mark else kind)
        return [f"{before}{mark}{name}" for name in known if name.startswith(last)]

    return offered
