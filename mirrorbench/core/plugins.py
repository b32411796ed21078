"""The plugin manager: loads built-in modules and plugins, and collects their registrations.

A plugin is found through the entry-point group ``mirrorbench``, or loaded from a file with ``--plugin FILE``. A broken
plugin of an entry point (for example with a mistyped hook name) is skipped with a warning, or is an error under
``MIRRORBENCH_STRICT_PLUGINS=1``; a broken file is always an error. ``core.entry_points`` leaves out plugins that the
user disabled.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Generic, TypeVar

import pluggy

from mirrorbench.core.entry_points import (
    DISABLE,
    command_points,
    plugin_points,
    top_package,
    unknown_disabled_names,
)
from mirrorbench.core.errors import (
    DuplicateNameError,
    MirrorbenchError,
    PluginError,
    unknown_name,
)
from mirrorbench.core.foreign_errors import defined_at, describe, place_of, remember_plugin
from mirrorbench.core.hooks import PROJECT, HookSpecs

_T = TypeVar("_T")

# The distribution, in messages and listings, of a plugin that belongs to no installed package.
_BUILT_IN = "built in"
_FILE = "file"
_LISTINGS = {"task": "mirrorbench list tasks", "corpus": "mirrorbench list corpora"}


@dataclass(frozen=True, slots=True)
class Entry(Generic[_T]):
    """A registered value; ``origin`` is the plugin that registered it, ``description`` a line for listings."""

    name: str
    value: _T
    origin: str
    description: str


class Registry(Generic[_T]):
    """Values by name, in the order of registration; ``noun`` is the singular noun for messages (``task``)."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._entries: dict[str, Entry[_T]] = {}

    def add(self, name: str, value: _T, origin: str, description: str = "") -> None:
        """Register ``value`` under ``name``; raise a ``DuplicateNameError`` that names both origins if it is taken."""
        if not _is_name(name):
            hint = "A name is a text without spaces and commas."
            raise PluginError(f"{origin} registers the {self.noun} {name!r:.60}", hint)
        if not isinstance(description, str):
            kind = type(description).__name__
            raise PluginError(
                f"{origin} describes the {self.noun} {name!r} with a {kind}, not a text"
            )
        if name in self._entries:
            raise name_taken(self.noun, name, self._entries[name].origin, origin)
        self._entries[name] = Entry(name, value, origin, description)

    def copied(self) -> Registry[_T]:
        """Return a copy; what is added to it is not added to this registry."""
        registry = copy(self)
        registry._entries = dict(self._entries)
        return registry

    def drop(self, origin: str) -> None:
        """Remove what a plugin registered."""
        self._entries = {
            name: entry for name, entry in self._entries.items() if entry.origin != origin
        }

    def __getitem__(self, name: str) -> _T:
        return self.entry(name).value

    def entry(self, name: str) -> Entry[_T]:
        """Return the entry called ``name``; raise an ``UnknownNameError`` with the nearest names if there is none."""
        if name not in self._entries:
            raise unknown_name(self.noun, name, list(self._entries), _LISTINGS.get(self.noun, ""))
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[_T]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def by_name(self) -> dict[str, _T]:
        """Return all values by name."""
        return {entry.name: entry.value for entry in self}

    def names(self) -> list[str]:
        """Return all names, in the order of registration."""
        return list(self._entries)


def _is_name(name: Any) -> bool:
    """Return whether a value is a text that can be typed as one name of a list with commas."""
    if not isinstance(name, str) or not name:
        return False
    return name.isprintable() and " " not in name and "," not in name


def name_taken(noun: str, name: str, owner: str, origin: str) -> DuplicateNameError:
    """Return the error for a name that ``owner`` has registered and ``origin`` registers again."""
    problem = f"the {noun} {name!r} is registered twice: by {owner} and by {origin}"
    return DuplicateNameError(problem, f"Take another name for that of {origin}.")


class PluginWarning(UserWarning):
    """A plugin was skipped; the message names it, its version and the reason."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook and its registry.

    Attributes:
        noun: singular noun for messages (``task``, ``encoder``).
        add: ``(registry, origin, ...)``: adds an entry for one call of ``register``.
        make_registry: ``(noun, plugins)``: makes the empty registry.
    """

    noun: str
    add: Callable[..., None]
    make_registry: Callable[[str, Plugins], Registry[Any]] = lambda noun, plugins: Registry(noun)


def add_function(
    registry: Registry[Any], origin: str, name: str, value: Any, description: str = ""
) -> None:
    """Add a function to a registry: the ``add`` of a ``Hook``."""
    if not callable(value):
        kind = type(value).__name__
        raise PluginError(f"the {registry.noun} {name!r} of {origin} is a {kind}, not a function")
    registry.add(name, value, origin, description)


def _registry_property(hook: str, doc: str) -> Any:
    """Return a property of ``Plugins`` whose value is the registry of a hook."""
    return property(lambda self: self.registry(hook), doc=doc)


def call(
    entry: Entry[Any], returns: type[_T], function: Callable[..., _T], *args: Any, **kwargs: Any
) -> _T:
    """Call a function of a plugin; raise a ``PluginError`` if it fails or does not return a ``returns``."""
    try:
        value = function(*args, **kwargs)
        if not isinstance(value, returns):
            raise TypeError(f"it returned a {type(value).__name__}, not a {returns.__name__}")
    except MirrorbenchError:
        raise
    except Exception as error:
        problem = f"{entry.name!r} of {entry.origin} failed: {describe(error)}"
        raise PluginError(problem, "Its traceback: MIRRORBENCH_DEBUG=1") from error
    return value


def _distribution(point: EntryPoint) -> str:
    """Return name and version of the distribution that has an entry point."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"


class Plugins:
    """The loaded plugins, and all that they and mirrorbench itself registered.

    mirrorbench makes one such object for the process. A plugin receives it as ``workspace.plugins``, or as the argument
    of a function registered by ``register_tables``; it is not subclassed. To get a separate one, as tests do, call
    ``load_plugins``, and pass the object to ``mirrorbench.Session(plugins=...)``; the constructor is for mirrorbench.

    Each attribute named after a hook is a registry (``plugins.tasks`` for ``register_tasks``). A registry keeps the
    order of registration:

    - ``registry[name]`` is the registered value; an unknown name is a ``UsageError`` with the nearest names.
    - ``name in registry``, ``len(registry)``, ``registry.names()`` (a list) and ``registry.by_name()`` (a dict).
    - ``registry.entry(name)``, and iteration over the registry, give entries with the attributes ``name``, ``value``,
      ``origin`` (the plugin that registered it) and ``description``.

    Args:
        hooks: the hooks by name.
        builtin: names of the built-in modules.
        discover: also load the installed plugins that are not disabled.

    Attributes:
        encoders: functions ``(spec, context) -> Encoder``.
        methods: objects of the class ``Method``.
        poolings: functions ``(states, tokens) -> vectors``.
        losses: functions, and subclasses of ``Objective``.
        augmentations: objects with ``name``, ``function``, ``on`` and ``probability``, as they were registered.
        parsers: functions ``(files, options) -> items``.
        task_kinds: subclasses of ``TaskKind``.
        tasks: objects of the class ``Task``; those of cards are made by their kind.
        readers: functions ``(name, path, options) -> Task | None``.
        corpora: objects of the classes ``Card`` and ``GeneratedCorpus``.
        metrics: functions ``(scores, gold) -> float | None``.
        renderers: objects with ``render``, a function ``(table, **options) -> str``, and ``endings``.
        papers: paths of folders.
        executors: objects with ``execute``, a function ``(job) -> Iterator[CellOutcome]``, and ``device``.
        grids: functions, as they were registered.
        analyses: functions, likewise.
        tables: functions, likewise.
        tools: functions, likewise.
        files: absolute paths of the files that ``add_file`` loaded.

    Raises:
        PluginError: a hook of a plugin failed, at the first use of a registry (see ``hookimpl``).

    Example:
        >>> from pathlib import Path
        >>> from mirrorbench.plugin import load_plugins
        >>> code = '''
        ... from mirrorbench import hookimpl
        ... @hookimpl
        ... def register_renderers(register):
        ...     register("labels", as_labels, "the labels of the rows", endings=(".txt",))
        ... def as_labels(table):
        ...     return ", ".join(row.label for row in table.rows)
        ... '''
        >>> _ = Path("labels.py").write_text(code)
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add_file(Path("labels.py"))
        >>> plugins.renderers["labels"].endings
        ('.txt',)
        >>> plugins.renderers.entry("labels").origin
        'labels.py'
        >>> "quick-sts" in plugins.tasks, "spearman" in plugins.metrics
        (True, True)
    """

    def __init__(
        self,
        hooks: Mapping[str, Hook],
        builtin: Sequence[str],
        discover: bool = True,
    ) -> None:
        self._hooks = hooks
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(HookSpecs)
        # Files that add_file loaded, for workers in other processes.
        self.files: list[Path] = []
        # Checksums of these files by the name of their plugin.
        self._checksums: dict[str, str] = {}
        # Distributions of all loaded plugins by name; ``_BUILT_IN`` and ``_FILE`` stand for plugins without one.
        self._distributions = dict.fromkeys(builtin, _BUILT_IN)
        self._registries: dict[str, Registry[Any]] = {}
        for name in builtin:
            self._manager.register(import_module(name), name=name)
        # Raises an error for a hook with an unknown name.
        self._manager.check_pending()
        if not discover:
            return
        for name in unknown_disabled_names():
            message = f"{DISABLE} names {name!r}, which is not the name of an installed plugin"
            warnings.warn(message, PluginWarning, stacklevel=2)
        for point in plugin_points():
            dist = _distribution(point)
            try:
                self.add(point.load(), point.name, dist)
            # A plugin may raise anything, and must not stop the others unless MIRRORBENCH_STRICT_PLUGINS is 1.
            except (Exception, SystemExit) as error:
                self._warn_or_raise(f"{point.name} ({dist})", error)

    def __contains__(self, plugin: object) -> bool:
        return bool(self._manager.is_registered(plugin))

    def _warn_or_raise(self, plugin: str, error: BaseException, is_file: bool = False) -> None:
        """Warn that a broken plugin is skipped.

        Raises:
            PluginError: the plugin is a file (``--plugin FILE``), or ``MIRRORBENCH_STRICT_PLUGINS`` is 1.
        """
        # Python names the function behind ``register``, which authors of plugins do not know.
        reason = re.sub(r"\b_?add_\w+\(\)", "register()", describe(error))
        if is_file or os.environ.get("MIRRORBENCH_STRICT_PLUGINS") == "1":
            hint = error.hint if isinstance(error, MirrorbenchError) else ""
            raise PluginError(f"plugin {plugin} failed: {reason}", hint) from error
        warnings.warn(f"plugin {plugin} skipped: {reason}", PluginWarning, stacklevel=2)

    def add(self, plugin: Any, name: str, distribution: str = _FILE) -> None:
        """Register a plugin object, such as a module; ``distribution`` is the package that it comes from.

        Raises:
            PluginError: a plugin of this name is loaded, or the object has no hooks or an invalid one.
        """
        if name in self._distributions:
            raise PluginError(
                f"plugin {name!r} is loaded already, from {self._distributions[name]}"
            )
        try:
            self._manager.register(plugin, name=name)
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            self._manager.unregister(name=name)
            raise self._invalid_hook(plugin, name, error) from error
        if not self._manager.get_hookcallers(plugin):
            self._manager.unregister(plugin)
            hooks = ", ".join(self._hooks)
            advice = f"Mark a function with @mirrorbench.hookimpl and call it as one of the hooks: {hooks}"
            raise PluginError(f"plugin {name!r} has no hook", advice)
        self._distributions[name] = distribution
        # Registries that were made before lack what this plugin registers.
        self._registries.clear()
        # From now on, errors may name lines of its code.
        remember_plugin(plugin)

    def _invalid_hook(
        self, plugin: Any, name: str, error: pluggy.PluginValidationError
    ) -> PluginError:
        """Return the error for a hook that pluggy refused, with the nearest name if its name is unknown."""
        problem = " ".join(str(error).split("hookimpl definition: ")[-1].split())
        hint = f"A hook takes one argument, called register. Hooks: {', '.join(self._hooks)}"
        unknown_hook = re.match(r"unknown hook '(\w+)'", problem)
        if unknown_hook:
            hook = unknown_hook[1]
            place = defined_at(getattr(plugin, hook, None))
            problem = f"unknown hook {hook!r}{place}"
            nearest = get_close_matches(hook, list(self._hooks), n=1)
            if nearest:
                hint = f"Did you mean {nearest[0]}?"
        return PluginError(f"plugin {name!r}: {problem}", hint)

    def add_file(self, path: Path) -> None:
        """Load one Python file as a plugin (``--plugin FILE``).

        Raises:
            PluginError: there is no such file, it is not Python, it raises, or it is not a plugin.
        """
        if not path.is_file():
            raise PluginError(f"no plugin file {path}")
        spec = importlib.util.spec_from_file_location(f"mirrorbench_plugin_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise PluginError(f"{path} is not a Python file", "A plugin is a file ending in .py")
        module = importlib.util.module_from_spec(spec)
        # As an import does, before the code runs: dataclasses and pickle look for their module there.
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[spec.name]
            raise PluginError(f"plugin file {path} failed: {describe(error)}") from error
        self.add(module, str(path))
        self.files.append(path.resolve())
        content_hash = hashlib.sha256(path.read_bytes()).digest()
        # Hashed twice, like the content of other files, because identities of stored results hold that checksum.
        self._checksums[str(path)] = hashlib.sha256(content_hash).hexdigest()

    def checksum_of_file(self, hook: str, name: str) -> str:
        """Return the checksum of the plugin file that registered a name; empty for any other name.

        A file has no version that would tell an edited file from the earlier one, as a package has. Modules that the
        file imports are not read.
        """
        registry = self.registry(hook)
        if name not in registry:
            return ""
        return self._checksums.get(registry.entry(name).origin, "")

    def extended(self, hook: str, *args: Any, **kwargs: Any) -> Plugins:
        """Return a copy in which ``register(*args, **kwargs)`` of a hook was called."""
        registry = self.registry(hook).copied()
        self._hooks[hook].add(registry, "this process", *args, **kwargs)
        plugins = copy(self)
        plugins._registries = {**self._registries, hook: registry}
        return plugins

    def registry(self, hook: str) -> Registry[Any]:
        """Return the registry of a hook, filled at first use.

        All hooks of the plugins that are not built in are called then, so that a broken plugin is skipped, or refused,
        before any of its registrations is used.
        """
        if hook not in self._registries:
            self._fill(hook)
            for other in self._third_party_hooks():
                if other not in self._registries:
                    self._fill(other)
        return self._registries[hook]

    def _third_party_hooks(self) -> list[str]:
        """Return the hooks that plugins which are not built in implement."""
        hooks: dict[str, None] = {}
        for name, plugin in self._manager.list_name_plugin():
            if plugin is not None and self._distributions[name] != _BUILT_IN:
                callers = self._manager.get_hookcallers(plugin) or ()
                hooks.update(dict.fromkeys(caller.name for caller in callers))
        return list(hooks)

    def _fill(self, name: str) -> None:
        """Make the registry of a hook, and call the hook in each plugin."""
        hook = self._hooks[name]
        registry = hook.make_registry(hook.noun, self)
        self._registries[name] = registry
        try:
            for impl in getattr(self._manager.hook, name).get_hookimpls():
                register = partial(hook.add, registry, impl.plugin_name)
                self._call_hook(impl, registry, register)
        except BaseException:
            del self._registries[name]
            raise

    def _call_hook(self, impl: Any, registry: Registry[Any], register: Callable[..., None]) -> None:
        """Call a plugin's implementation of a hook, which adds entries to ``registry`` by calling ``register``.

        If it fails, a plugin file is an error; an installed plugin is skipped with a warning, or is an error under
        ``MIRRORBENCH_STRICT_PLUGINS=1``. What it registered is removed. An error of a built-in module is raised
        unchanged.

        Raises:
            PluginError: the plugin failed.
        """
        plugin = impl.plugin_name
        # The plugin may have been skipped when another of its hooks failed.
        if plugin not in self._distributions:
            return
        dist = self._distributions[plugin]
        if dist == _BUILT_IN:
            impl.function(register)
            return
        try:
            returned = impl.function(register)
            if returned is not None:
                hook_name = impl.function.__name__
                kind = type(returned).__name__
                raise PluginError(
                    f"its {hook_name} returned a {kind}; a hook calls register and returns nothing"
                )
        # A plugin may raise anything.
        except (Exception, SystemExit) as error:
            # A PluginError is shown by its message alone, so the message must name the line of the plugin.
            if isinstance(error, PluginError):
                place = place_of(error)
                if place:
                    error.message += f" ({place})"
            # A plugin file loses what it registered by this hook, an installed plugin all of its hooks.
            if dist == _FILE:
                registry.drop(plugin)
                # Raised as it is, since its message names the plugin already.
                if isinstance(error, DuplicateNameError):
                    raise
                self._warn_or_raise(plugin, error, is_file=True)
            else:
                self._skip(plugin)
                self._warn_or_raise(f"{plugin} ({dist})", error)

    def _skip(self, name: str) -> None:
        """Remove a plugin and all that it registered."""
        self._manager.unregister(name=name)
        del self._distributions[name]
        for registry in self._registries.values():
            registry.drop(name)

    def listing(self) -> list[dict[str, Any]]:
        """Return a row for each plugin, in the order of loading: its name, distribution, hooks and commands."""
        rows: list[dict[str, Any]] = []
        # Commands belong to the first plugin of their package. Those of packages without a plugin follow at the end.
        commands_left = command_points()
        for name, plugin in self._manager.list_name_plugin():
            # pluggy also lists names that it blocked, without a plugin.
            if plugin is None:
                continue
            callers = self._manager.get_hookcallers(plugin) or ()
            package = getattr(plugin, "__name__", "").partition(".")[0]
            commands = [point for point in commands_left if top_package(point) == package]
            commands_left = [point for point in commands_left if point not in commands]
            row = {
                "name": name,
                "distribution": self._distributions[name],
                "hooks": sorted(caller.name for caller in callers),
                "commands": sorted(point.name for point in commands),
            }
            rows.append(row)
        for point in commands_left:
            row = {
                "name": point.name,
                "distribution": _distribution(point),
                "hooks": [],
                "commands": [point.name],
            }
            rows.append(row)
        return rows

    encoders = _registry_property("register_encoders", "Encoder systems, which have no method.")
    methods = _registry_property("register_methods", "Methods applied to a backbone.")
    poolings = _registry_property("register_poolings", "Poolings of token states to a vector.")
    losses = _registry_property("register_losses", "Losses of a tuning.")
    augmentations = _registry_property(
        "register_augmentations", "Augmentations that make the two views of a string."
    )
    parsers = _registry_property("register_parsers", "Readers of the files that cards name.")
    task_kinds = _registry_property("register_task_kinds", "Kinds of tasks, by name.")
    tasks = _registry_property("register_tasks", "All tasks.")
    readers = _registry_property("register_readers", "Readers of a user's own data.")
    corpora = _registry_property("register_corpora", "All tuning corpora that have a name.")
    metrics = _registry_property("register_metrics", "All metrics.")
    papers = _registry_property("register_papers", "Folders of papers' tables.")
    renderers = _registry_property("register_renderers", "All table formats.")
    executors = _registry_property("register_executors", "Executors of cells.")
    tools = _registry_property("register_tools", "Tools of a session beside runs.")
    tables = _registry_property("register_tables", "Tables of papers, read and measured.")
    analyses = _registry_property("register_analyses", "Analyses of spaces of vectors.")
    grids = _registry_property(
        "register_grids", "Runs of many blocks, by name, and by the ending of files that hold them."
    )
