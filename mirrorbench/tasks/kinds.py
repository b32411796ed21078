"""The built-in kinds of tasks, the tasks of built-in cards, and variants of tasks with other options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from mirrorbench.core.errors import PluginError, UsageError, unknown_name
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.plugins import Entry, Plugins, Registry, call
from mirrorbench.core.quoting import is_text, printable
from mirrorbench.core.specs import LEVELS, is_path_name, parse_params
from mirrorbench.data.card_files import builtin_cards, load_card
from mirrorbench.data.cards import CORPUS_KIND, Card
from mirrorbench.data.readers.rows import ENDINGS
from mirrorbench.storage.files import resolved
from mirrorbench.tasks.base import Task, TaskKind
from mirrorbench.tasks.pairs import PairClassification, PairSimilarity
from mirrorbench.tasks.words_in_context import SimilarityChange, UsageSimilarity, WordInContext

_KINDS: dict[str, type[TaskKind[Any]]] = {
    "pair-similarity": PairSimilarity,
    "pair-classification": PairClassification,
    "word-in-context": WordInContext,
    "usage-similarity": UsageSimilarity,
    "similarity-change": SimilarityChange,
}
"""The kinds on pairs; ``tasks.lexical`` registers the lexical ones."""

REQUIRED = {
    "name": str,
    "level": str,
    "main_metric": str,
    "title": str,
    "languages": tuple,
    "version": int,
}
"""The required attributes of a task and their types."""


@hookimpl
def register_task_kinds(register: Register) -> None:
    """Register the kinds of pairs."""
    for name, kind in _KINDS.items():
        register(name, kind)


@hookimpl
def register_tasks(register: Register) -> None:
    """Register one task for each built-in card of these kinds."""
    for card in builtin_cards().values():
        if card.kind in _KINDS:
            register(card)


@hookimpl
def register_corpora(register: Register) -> None:
    """Register one corpus for each corpus card."""
    for card in builtin_cards().values():
        if card.kind == CORPUS_KIND:
            register(card)


def as_task(value: Any, kinds: Registry[type[TaskKind[Any]]]) -> Task:
    """Return a task after checking it, or make one of a card or a card's path; a ``PluginError`` for anything else."""
    if isinstance(value, Task):
        return _checked_task(value)
    if isinstance(value, str | Path):
        value = load_card(Path(value))
    if not isinstance(value, Card):
        raise PluginError(
            f"register_tasks got a {type(value).__name__}",
            "Register a Task, a Card, or a card's path.",
        )
    if value.kind not in kinds:
        problem = f"card {value.name!r} is of the unknown kind {value.kind!r}"
        raise PluginError(problem, f"Kinds: {', '.join(kinds.names())}")
    return kinds[value.kind].from_card(value)


def _checked_task(task: Task) -> Task:
    """Set the title of a task to its name if it is empty, check the required attributes, and return the task.

    Raises:
        PluginError: an attribute is missing or of another type, or the level is unknown.
    """
    name = getattr(task, "name", "")
    task.title = getattr(task, "title", "") or name
    for attribute, type_ in REQUIRED.items():
        value = getattr(task, attribute, None)
        # An empty value, or a version of 0, counts as missing.
        if not value:
            fault = f"has no {attribute}"
        elif not isinstance(value, type_):
            fault = f"has {attribute} = {value!r}, which is not of type {type_.__name__}"
        else:
            continue
        hint = (
            f"Set the attribute in the class: {attribute} = ... (required: {', '.join(REQUIRED)})."
        )
        raise PluginError(f"the task {name!r} ({type(task).__name__}) {fault}", hint)
    if task.level not in LEVELS:
        raise PluginError(
            f"the task {name!r} has the level {task.level!r}", f"Levels: {', '.join(LEVELS)}"
        )
    return task


class TaskRegistry(Registry[Task]):
    """Tasks by name, and, as ``NAME:KEY=VALUE,...``, variants with other options than those of the card.

    The name of a variant includes its options, so that it has its own results and table columns. A name with a slash is
    the path of a user's own data, from which a registered reader makes a task.
    """

    def __init__(self, noun: str, plugins: Plugins) -> None:
        super().__init__(noun)
        self.kinds: Registry[type[TaskKind[Any]]] = plugins.task_kinds
        self.readers: Registry[Any] = plugins.readers
        self._variants: dict[str, Entry[Task]] = {}

    def entry(self, name: str) -> Entry[Task]:
        """Return the task, the variant or the task on own data called ``name``.

        Raises:
            UnknownNameError: no task or option has this name.
            UsageError: the options are wrong, or no reader knows the data.
        """
        base, colon, options = name.partition(":")
        if not colon and not is_path_name(base):
            return super().entry(name)
        if name not in self._variants:
            if is_path_name(base):
                entry = self._own_data_entry(name, base, options)
            else:
                base_entry = super().entry(base)
                task = _variant(base_entry.value, name, options)
                entry = replace(base_entry, name=name, value=task)
            self._variants[name] = entry
        return self._variants[name]

    def _own_data_entry(self, name: str, path: str, options: str) -> Entry[Task]:
        """Return the task called ``name`` on a user's own data; ``UsageError`` if no reader knows their format."""
        data_path = Path(path).expanduser()
        params = dict(parse_params(options, name)) if options else {}
        if not data_path.exists():
            hint = "Give the path of your data, such as ./data"
            name_alone = path.removeprefix("./")
            if name_alone in self:
                hint = f"{name_alone} is a task of mirrorbench: mirrorbench run -t {name_alone}"
            raise UsageError(f"there is no file or folder {path}", hint)
        # Results are stored under the path and, for a path such as ".", under the name that it stands for.
        if not is_text(f"{path}{resolved(data_path).name}"):
            problem = f"the path {printable(path)} is not UTF-8, but results are stored under it"
            raise UsageError(problem, "Rename it.")
        # The first reader, in the order of registration, that knows the format makes the task.
        for reader in self.readers:
            # ``object`` lets ``call`` accept every result, since None is allowed; the type is checked below.
            task = call(reader, object, reader.value, name, data_path, params)
            if task is None:  # another format
                continue
            if not isinstance(task, Task):
                described = f"the reader {reader.name!r}{defined_at(reader.value)}"
                problem = f"{described} of {reader.origin} returned a {type(task).__name__}"
                raise PluginError(
                    problem, "It must return a Task, or None for data in another format."
                )
            return Entry(name, _checked_task(task), reader.origin, reader.description)
        hint = f"It must be a file ending in {ENDINGS} (also .gz), or a folder or .zip of these: docs/own_data.md"
        if data_path.suffix.lower() in _OTHER_SPREADSHEETS:
            hint = "Save it as an Excel workbook (.xlsx), or as CSV (UTF-8)."
        raise UsageError(f"no installed reader can read {path}", hint)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        base = name.partition(":")[0]
        return is_path_name(base) or super().__contains__(base)


_OTHER_SPREADSHEETS = (".xls", ".xlsb", ".xltx", ".ods", ".numbers")
"""Endings of spreadsheets that are not read."""


def _variant(task: Task, name: str, options: str) -> Task:
    """Return a task like ``task``, made from its card with the options ``KEY=VALUE,...`` set, under the name ``name``.

    Raises:
        UsageError: the task takes no options, an option is not ``settable``, or its value's type differs from that of
            the default.
    """
    if not isinstance(task, TaskKind) or not task.card or not task.settable:
        raise UsageError(f"the task {task.name} takes no options", f"Write --tasks {task.name}")
    card = task.card
    new_options = dict(parse_params(options, name))
    for key, value in new_options.items():
        if key not in task.settable:
            raise unknown_name(f"option of the task {task.name}", key, list(task.settable))
        default = card.options.get(key, task.settable[key])
        if type(value) is not type(default):
            raise UsageError(
                f"{name}: {key}={value} is not of the type of its default, {default!r}"
            )
    label = f"{card.label or card.name} ({options})"
    variant = msgspec.structs.replace(
        card, name=name, label=label, options={**card.options, **new_options}
    )
    return type(task).from_card(variant)
