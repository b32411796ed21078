"""The built-in plugins, the checks of what each hook registers, and the lookup of task names.

Modules of packages above this one are named here, not imported: ``load_plugins`` loads them as it loads a plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mirrorbench.core.errors import PluginError, UnknownNameError, unknown_name
from mirrorbench.core.plugins import Hook, Plugins, Registry, add_function, name_taken
from mirrorbench.core.specs import Value
from mirrorbench.data.card_files import builtin_suites, load_cards
from mirrorbench.data.cards import Card
from mirrorbench.data.corpora import GeneratedCorpus
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.models.encoder_systems import open_with_keys
from mirrorbench.models.transformations import POST_KEYS
from mirrorbench.runs.ladder import POOLING_KEYS
from mirrorbench.runs.outcomes import CellOutcome
from mirrorbench.tasks.base import TaskKind
from mirrorbench.tasks.kinds import TaskRegistry, as_task
from mirrorbench.training.augmentations import Augmentation
from mirrorbench.training.methods import Method
from mirrorbench.training.recipes import OUTSIDE_KEYS, RECIPE_KEYS

BUILTIN_PLUGINS = (
    "mirrorbench.training.methods",
    "mirrorbench.training.losses",
    "mirrorbench.models.pooling",
    "mirrorbench.training.augmentations",
    "mirrorbench.data.parsers",
    "mirrorbench.tasks.kinds",
    "mirrorbench.runs.executors",
    "mirrorbench.tasks.metrics",
    "mirrorbench.reports.renderers",
    "mirrorbench.analysis",
    "mirrorbench.own_data",
    "mirrorbench.runs.grids",
    "mirrorbench.tasks.lexical",
    "mirrorbench.reports.html",
    "mirrorbench.papers",
    "mirrorbench.runs.pool",
    "mirrorbench.models.sbert",
    "mirrorbench.models.cross_encoder",
    "mirrorbench.models.word_vectors",
    "mirrorbench.runs.stored_vectors",
    "mirrorbench.training.static_distillation",
    "mirrorbench.runs.installation",
)
"""Modules that register the built-in parts, in the order of listings."""


SPEC_KEYS = frozenset((*RECIPE_KEYS, *OUTSIDE_KEYS, *POST_KEYS, *POOLING_KEYS))
"""Keys of encoder specs other than augmentations."""


class Executor(NamedTuple):
    """A way to compute cells, registered by ``register_executors``."""

    execute: Callable[[Any], Iterator[CellOutcome]]
    """The function from a ``runs.executors.Job`` to the outcomes of its cells."""
    device: Callable[[str, Mapping[str, Value]], str] | None
    """The function from ``--device`` and the options to the device of workers elsewhere; ``None`` for workers on this
    machine."""


class Renderer(NamedTuple):
    """A format of tables, registered by ``register_renderers``."""

    render: Callable[..., str]
    """The function from a ``reports.table.Table`` to its text."""
    endings: tuple[str, ...]
    """Endings of the names of files in this format."""


def _add_renderer(
    registry: Registry[Any],
    origin: str,
    name: str,
    render: Any,
    description: str = "",
    endings: Sequence[str] = (),
) -> None:
    if not callable(render):
        raise PluginError(
            f"the renderer {name!r} of {origin} is a {type(render).__name__}, not a function"
        )
    for entry in registry:
        for ending in set(endings) & set(entry.value.endings):
            raise name_taken("ending of files", ending, entry.origin, origin)
    registry.add(name, Renderer(render, tuple(endings)), origin, description)


def _add_method(
    registry: Registry[Any], origin: str, name: str, method: Any, description: str = ""
) -> None:
    if not isinstance(method, Method):
        raise PluginError(
            f"the method {name!r} of {origin} is a {type(method).__name__}",
            "Register a Method of mirrorbench.plugin.",
        )
    if method.name != name:
        raise PluginError(
            f"the method {name!r} of {origin} has the name {method.name!r}",
            f"Write register({name!r}, Method({name!r}, ...)).",
        )
    registry.add(name, method, origin, description)


def _add_augmentation(
    registry: Registry[Any],
    origin: str,
    name: str,
    function: Any,
    on: str = "text",
    description: str = "",
    probability: bool = False,
) -> None:
    if name in SPEC_KEYS and origin not in BUILTIN_PLUGINS:
        raise name_taken("key of encoder specs", name, "mirrorbench", origin)
    if not re.fullmatch("[a-z][a-z0-9_]*", str(name)):
        raise PluginError(
            f"{origin} registers the augmentation {name!r}, which cannot be a key of encoder specs",
            "Its name consists of lower-case letters, digits and underscores.",
        )
    augmentation = Augmentation(name, function, on, probability)
    if on == "model":
        expected = "a ModelAugmentation"
        is_expected = callable(getattr(function, "configure", None))
    else:
        expected = "a function"
        is_expected = callable(function)
    if not is_expected:
        kind = type(function).__name__
        raise PluginError(f"the augmentation {name!r} of {origin} is a {kind}, not {expected}")
    registry.add(name, augmentation, origin, description)


def _add_executor(
    registry: Registry[Any],
    origin: str,
    name: str,
    execute: Any,
    description: str = "",
    device: Any = None,
) -> None:
    functions = [execute]
    if device:
        functions.append(device)
    for value in functions:
        if not callable(value):
            raise PluginError(
                f"the executor {name!r} of {origin} is a {type(value).__name__}, not a function"
            )
    registry.add(name, Executor(execute, device), origin, description)


def _add_kind(
    registry: Registry[Any], origin: str, name: str, kind: Any, description: str = ""
) -> None:
    if not (isinstance(kind, type) and issubclass(kind, TaskKind)):
        raise PluginError(
            f"the task kind {name!r} of {origin} is not a subclass of mirrorbench.tasks.TaskKind"
        )
    registry.add(name, kind, origin, description)


def _add_encoder(
    registry: Registry[Any],
    origin: str,
    name: str,
    open_encoder: Any,
    description: str = "",
    keys: Mapping[str, type] | None = None,
) -> None:
    taken_keys = [key for key in keys or () if key in POST_KEYS]
    if taken_keys and origin not in BUILTIN_PLUGINS:
        raise PluginError(
            f"the encoder {name!r} of {origin} has the key {taken_keys[0]!r}, which transforms the vectors of any encoder",
            f"Give it another name than {', '.join(POST_KEYS)}.",
        )
    if keys is not None and callable(open_encoder):
        open_encoder = open_with_keys(open_encoder, keys, f"the encoder {name!r} of {origin}")
    add_function(registry, origin, name, open_encoder, description)
    # Only built-in modules register backbones as encoder systems, too, such as sbert.
    if name in BACKBONES and origin not in BUILTIN_PLUGINS:
        raise name_taken("encoder", name, "the backbones of mirrorbench", origin)


def _add_task(registry: TaskRegistry, origin: str, task: Any) -> None:
    sources = load_cards(Path(task)) if isinstance(task, str | Path) else [task]
    for source in sources:
        added = as_task(source, registry.kinds)
        # A built-in task may have the name of a suite: that of the task alone, such as wic.
        if added.name in builtin_suites() and origin not in BUILTIN_PLUGINS:
            raise name_taken("task", added.name, "the suites of mirrorbench", origin)
        registry.add(added.name, added, origin, added.title)


def _add_corpus(registry: Registry[Any], origin: str, corpus: Any) -> None:
    corpora: Sequence[Card | GeneratedCorpus]
    if isinstance(corpus, Card | GeneratedCorpus):
        corpora = [corpus]
    elif isinstance(corpus, str | Path):
        corpora = load_cards(Path(corpus))
    else:
        kind = type(corpus).__name__
        raise PluginError(
            f"{origin} registers a corpus that is a {kind}",
            "Register a Card, the path of one, or a GeneratedCorpus.",
        )
    for added in corpora:
        registry.add(added.name, added, origin, added.title)


def _add_paper(
    registry: Registry[Any], origin: str, name: str, folder: Any, description: str = ""
) -> None:
    if not Path(folder).is_dir():
        raise PluginError(
            f"the paper {name!r} of {origin}: {folder} is not a folder",
            "Name the folder of its tables.",
        )
    registry.add(name, Path(folder), origin, description)


HOOKS = {
    "register_encoders": Hook("encoder", _add_encoder),
    "register_methods": Hook("method", _add_method),
    "register_poolings": Hook("pooling", add_function),
    "register_losses": Hook("loss", add_function),
    "register_augmentations": Hook("augmentation", _add_augmentation),
    "register_parsers": Hook("parser", add_function),
    "register_task_kinds": Hook("task kind", _add_kind),
    "register_tasks": Hook("task", _add_task, TaskRegistry),
    "register_readers": Hook("reader", add_function),
    "register_corpora": Hook("corpus", _add_corpus),
    "register_metrics": Hook("metric", add_function),
    "register_renderers": Hook("renderer", _add_renderer),
    "register_papers": Hook("paper", _add_paper),
    "register_executors": Hook("executor", _add_executor),
    "register_tools": Hook("tool", add_function),
    "register_tables": Hook("set of tables", add_function),
    "register_analyses": Hook("analysis", add_function),
    "register_grids": Hook("grid", add_function),
}


def cards(plugins: Plugins) -> dict[str, Card]:
    """Return the cards of all registered tasks and corpora, by name."""
    candidates = [getattr(entry.value, "card", None) for entry in plugins.tasks]
    candidates += plugins.corpora.by_name().values()
    return {card.name: card for card in candidates if isinstance(card, Card)}


def load_plugins(discover: bool = True) -> Plugins:
    """Load the built-in parts, and the installed plugins, into a new ``Plugins`` object.

    Tests and notebooks of a plugin call it to try the plugin apart from the process-wide plugins: add the plugin by
    ``plugins.add(module, name)`` or ``plugins.add_file(path)``, then look names up, or pass the object to
    ``mirrorbench.Session(plugins=plugins)``. Code that mirrorbench calls uses ``workspace.plugins`` instead.

    Args:
        discover: whether to load also the packages with an entry point in the group ``mirrorbench``, except those that
            ``MIRRORBENCH_DISABLE_PLUGINS`` names. A package that cannot be loaded is skipped with a warning.

    Raises:
        PluginError: a package cannot be loaded, and ``MIRRORBENCH_STRICT_PLUGINS=1`` is set.

    Example:
        >>> from mirrorbench import Session, hookimpl
        >>> from mirrorbench.plugin import Pair, PairSimilarity, load_plugins
        >>> pairs = [Pair("1", "a cat", "a kitten", 4.5), Pair("2", "a cat", "a bus", 0.5)]
        >>> class AnimalsPlugin:
        ...     @hookimpl
        ...     def register_tasks(self, register):
        ...         register(PairSimilarity("animals", pairs, level="sentence"))
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add(AnimalsPlugin(), "animals")
        >>> plugins.tasks["animals"].title
        'animals'
        >>> session = Session(plugins=plugins, device="cpu")
        >>> "animals" in session.workspace.plugins.tasks
        True
    """
    return Plugins(HOOKS, BUILTIN_PLUGINS, discover)


@cache
def plugins() -> Plugins:
    """Return the process-wide plugins, loaded at first use."""
    return load_plugins()


def expand_tasks(names: Iterable[str], plugins: Plugins) -> tuple[str, ...]:
    """Return task names with suites expanded, without repeats, in the order given.

    A grid or an analysis of a plugin calls it for names that a user wrote, since a ``Request`` has no suites.

    Args:
        names: names of tasks and suites (``mirrorbench list suites``), and paths of own data, with a slash
            (``./data``).
        plugins: with the tasks, such as ``workspace.plugins``.

    Raises:
        UsageError: a name is neither a task nor a suite; the message names the nearest ones.

    Example:
        >>> from mirrorbench.plugin import expand_tasks, load_plugins
        >>> expand_tasks(["quick-wic", "quick"], load_plugins(discover=False))
        ('quick-wic', 'quick-sts', 'quick-simlex')
    """
    suites = builtin_suites()
    tasks: dict[str, None] = {}
    for name in names:
        if name not in suites and name not in plugins.tasks:
            if Path(name.partition(":")[0]).exists():
                hint = f"If it is your own file or folder, write it with a slash: ./{name}"
                raise UnknownNameError(f"unknown task or suite {name!r}", hint)
            listing = "mirrorbench list tasks; suites by: mirrorbench list suites"
            raise unknown_name("task or suite", name, [*suites, *plugins.tasks.names()], listing)
        tasks.update(dict.fromkeys(suites.get(name, [name])))
    return tuple(tasks)
