"""Tasks under other options than their card's: ``bli-en-fr:train=1k`` is a task of its own, beside ``bli-en-fr``.

A kind of task names the options of its card that a user may set. The name keeps what was changed, so that results,
tables and identities hold the two apart.
"""

from __future__ import annotations

from dataclasses import replace

from mirrorbench.core.errors import UsageError
from mirrorbench.core.registry import Entry, Registry, unknown_name
from mirrorbench.core.specs import parse_params
from mirrorbench.data.cards import Card
from mirrorbench.tasks import Task
from mirrorbench.tasks.kinds import TASK_KINDS


class TaskRegistry(Registry[Task]):
    """Tasks by name, and their variants by ``NAME:KEY=VALUE,...``."""

    def __init__(self, kind: str = "task") -> None:
        super().__init__(kind)
        self._variants: dict[str, Entry[Task]] = {}

    def entry(self, name: str) -> Entry[Task]:
        """The task called ``name``, or its variant under other options.

        Raises:
            UnknownNameError: neither the task nor the option exists.
            UsageError: the task has no options, or a value has the wrong type.
        """
        base, colon, options = name.partition(":")
        if not colon:
            return super().entry(name)
        if name not in self._variants:
            entry = super().entry(base)
            self._variants[name] = replace(entry, name=name, value=variant(entry.value, name, options))
        return self._variants[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name.partition(":")[0] if isinstance(name, str) else name)


def variant(task: Task, name: str, options: str) -> Task:
    """A task of a card under other options.

    Args:
        task: the task as its card has it.
        name: what the variant is called.
        options: ``KEY=VALUE,...``; a key is one of the task's ``settable`` ones, its value of the same type.

    Raises:
        UnknownNameError: the task has no such option.
        UsageError: it has none at all, or a value is of another type than its default.
    """
    card = getattr(task, "card", None)
    if not isinstance(card, Card) or not task.settable:
        raise UsageError(f"the task {task.name} takes no options", f"Write --tasks {task.name}")
    given = dict(parse_params(options, name))
    for key, value in given.items():
        if key not in task.settable:
            raise unknown_name(f"option of the task {task.name}", key, list(task.settable))
        default = card.options.get(key, task.settable[key])
        if type(value) is not type(default):
            raise UsageError(f"{name}: {key}={value} is not of the kind of its default, {default!r}")
    label = f"{card.label or card.name} ({options})"
    return TASK_KINDS[card.kind](replace(card, name=name, label=label, options={**card.options, **given}))
