"""A table of named things and the plugins that registered them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, TypeVar

from mirrorbench.core.errors import DuplicateNameError, PluginError, UnknownNameError

_T = TypeVar("_T")

MOST_NAMED = 30  # names that an error lists in full, where a command lists them too
_LISTINGS = {"task": "mirrorbench list tasks", "corpus": "mirrorbench list corpora"}


@dataclass(frozen=True, slots=True)
class Entry(Generic[_T]):
    """One registered thing; ``origin`` is the plugin that registered it, ``description`` a line for listings."""

    name: str
    value: _T
    origin: str
    description: str


class Registry(Generic[_T]):
    """Names to values, in the order of registration; ``kind`` is the singular noun for messages (``task``)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[_T]] = {}
        self._any_name = False

    def add(self, name: str, value: _T, origin: str, description: str = "") -> None:
        """Register ``value`` under ``name``; a taken name is a ``DuplicateNameError`` that names both origins."""
        if not (isinstance(name, str) and name) or not (self._any_name or _can_be_typed(name)):
            hint = "A name is a text without spaces and commas."
            raise PluginError(f"{origin} registers the {self.kind} {name!r:.60}", hint)
        if not isinstance(description, str):
            raise PluginError(f"{origin} describes the {self.kind} {name!r} by a {type(description).__name__}")
        if name in self._entries:
            problem = f"the {self.kind} {name!r} is registered twice: by {self._entries[name].origin} and by {origin}"
            raise DuplicateNameError(problem, "Block one of them: MIRRORBENCH_DISABLE_PLUGINS=<plugin name>")
        self._entries[name] = Entry(name, value, origin, description)

    def open_to_any_name(self) -> Registry[_T]:
        """A copy that accepts any text as a name, also one that cannot stand on a command line."""
        twin = copy(self)
        twin._any_name, twin._entries = True, dict(self._entries)
        return twin

    def keep(self, names: Iterable[str]) -> None:
        """Drop what is registered under other names."""
        self._entries = {name: self._entries[name] for name in names}

    def __getitem__(self, name: str) -> _T:
        return self.entry(name).value

    def entry(self, name: str) -> Entry[_T]:
        """The entry called ``name``; otherwise an ``UnknownNameError`` with the nearest names."""
        try:
            return self._entries[name]
        except KeyError:
            raise unknown_name(self.kind, name, list(self._entries), _LISTINGS.get(self.kind, "")) from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[_T]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def by_name(self) -> dict[str, _T]:
        """All values."""
        return {entry.name: entry.value for entry in self}

    def names(self) -> list[str]:
        """All names, in the order of registration."""
        return list(self._entries)


def _can_be_typed(name: str) -> bool:
    return name.isprintable() and not set(name) & {" ", ","}


def unknown_name(kind: str, name: str, known: list[str], listing: str = "") -> UnknownNameError:
    """The error for a name that is not in ``known``; the hint has the nearest names or the command ``listing``."""
    if near := get_close_matches(name, known, n=3, cutoff=0.5):
        hint = f"Did you mean {' or '.join(near)}?"
    elif listing and len(known) > MOST_NAMED:
        hint = f"The {len(known):,} known names are listed by: {listing}"
    else:
        hint = f"Known: {', '.join(known) or 'none'}"
    return UnknownNameError(f"unknown {kind} {name!r}", hint)
