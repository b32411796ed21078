"""The plugin manager: the one door for built-ins and third parties alike.

A plugin is found through the entry-point group ``mirrorbench`` or loaded from a single file with ``--plugin FILE``.
Entry points are loaded one by one: a broken one is a warning that names it, and stops nobody else. (A mistyped hook
name counts as broken; in a file it is an error at once.)

Environment:
    MIRRORBENCH_DISABLE_PLUGINS: comma-separated names of entry points that must not be loaded.
    MIRRORBENCH_STRICT_PLUGINS: ``1`` makes a broken plugin an error instead of a warning.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pluggy

from mirrorbench.core.errors import DuplicateNameError, MirrorbenchError, PluginError
from mirrorbench.core.hooks import PROJECT, HookSpecs
from mirrorbench.core.registry import Registry


class PluginWarning(UserWarning):
    """A plugin was skipped; the message names it, its version and the reason."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What the names registered through one hook stand for.

    Attributes:
        noun: in the singular, for messages (``task``, ``encoder``).
        add: ``(registry, origin, ...)``, how one call of ``register`` becomes an entry.
        registry: the class of their registry.
    """

    noun: str
    add: Callable[..., None]
    registry: Callable[[str], Registry[Any]] = Registry


def add_function(registry: Registry[Any], origin: str, name: str, value: Any, description: str = "") -> None:
    """The ``add`` of a ``Kind`` whose things are functions."""
    if not callable(value):
        raise PluginError(f"the {registry.kind} {name!r} of {origin} is a {type(value).__name__}, not a function")
    registry.add(name, value, origin, description)


def _registered(hook: str, doc: str) -> Any:
    """A property: the registry of a hook."""

    def registry(self: Plugins) -> Registry[Any]:
        return self.registry(hook)

    return property(registry, doc=doc)


def _in_one_line(error: BaseException) -> str:
    text = error.message if isinstance(error, MirrorbenchError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


class Plugins:
    """The loaded plugins and what they registered.

    Args:
        kinds: what can be registered, by the name of its hook.
        builtin: dotted names of the modules that are plugins of this package.
        discover: whether to load entry points besides the built-ins (tests switch it off).
    """

    def __init__(self, kinds: Mapping[str, Kind], builtin: Sequence[str], discover: bool = True) -> None:
        self._kinds, self._builtin = kinds, tuple(builtin)
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(HookSpecs)
        self.files: list[Path] = []  # those that add_file loaded, for workers in other processes
        self._distributions: dict[str, str] = {}
        self._registries: dict[str, Registry[Any]] = {}
        for name in self._builtin:
            self._manager.register(import_module(name), name=name)
        self._manager.check_pending()
        if discover:
            blocked = {n.strip() for n in os.environ.get("MIRRORBENCH_DISABLE_PLUGINS", "").split(",")}
            for point in sorted(entry_points(group=PROJECT), key=lambda p: p.name):
                if point.name not in blocked:
                    self._load_entry_point(point)

    def __contains__(self, plugin: object) -> bool:
        return bool(self._manager.is_registered(plugin))

    def _load_entry_point(self, point: EntryPoint) -> None:
        dist = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"
        try:
            self.add(point.load(), point.name, dist)
        except (Exception, SystemExit) as error:  # a plugin may raise anything, and must not stop the others
            self._report(f"{point.name} ({dist})", error)

    def _report(self, plugin: str, error: BaseException, named: bool = False) -> None:
        """Warn of a broken plugin that was installed; stop for one that the user named (``--plugin FILE``)."""
        if named or os.environ.get("MIRRORBENCH_STRICT_PLUGINS") == "1":
            hint = error.hint if isinstance(error, MirrorbenchError) else ""
            raise PluginError(f"plugin {plugin} failed: {_in_one_line(error)}", hint) from error
        warnings.warn(f"plugin {plugin} skipped: {_in_one_line(error)}", PluginWarning, stacklevel=2)

    def add(self, plugin: Any, name: str, distribution: str = "") -> None:
        """Register a plugin object.

        Raises:
            PluginError: the name is taken, no function is marked as a hook, or one that is has a name that no hook has,
                or asks for what no hook gives.
        """
        try:
            self._manager.register(plugin, name=name)
        except ValueError as error:
            raise PluginError(f"plugin {name!r} cannot be registered: {error}") from error
        except pluggy.PluginValidationError as error:
            self._manager.unregister(name=name)
            problem = " ".join(str(error).split("hookimpl definition: ")[-1].split())
            raise PluginError(f"plugin {name!r}: {problem}", "A hook takes one argument, called register.") from error
        hooks = ", ".join(self._kinds)
        try:
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            self._manager.unregister(plugin)
            raise PluginError(f"plugin {name!r}: {error}", f"Hooks: {hooks}") from error
        if not self._manager.get_hookcallers(plugin):
            self._manager.unregister(plugin)
            advice = f"Mark a function with @mirrorbench.hookimpl and call it as one of the hooks: {hooks}"
            raise PluginError(f"plugin {name!r} has no hook", advice)
        self._distributions[name] = distribution
        self._registries.clear()

    def add_file(self, path: Path) -> None:
        """Load one Python file as a plugin (``--plugin FILE``).

        Raises:
            PluginError: the file is missing, or raises when it is imported.
        """
        if not path.is_file():
            raise PluginError(f"no plugin file {path}")
        module_name = f"mirrorbench_plugin_{path.stem}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise PluginError(f"{path} is not a Python file", "A plugin is a file ending in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[module_name]
            raise PluginError(f"plugin file {path} failed: {_in_one_line(error)}") from error
        self.add(module, str(path))
        self.files.append(path.resolve())

    def extended(self, hook: str, *args: Any, **kwargs: Any) -> Plugins:
        """A copy with one more thing, for objects that live in this process only.

        Args:
            hook: the hook through which it would be registered.
            args: what ``register`` of that hook takes; the name may be any text, since nobody types it.
            kwargs: likewise.

        Raises:
            PluginError: the name is taken.
        """
        registry = copy(self.registry(hook))
        registry.open_to_any_name()
        self._kinds[hook].add(registry, "this process", *args, **kwargs)
        twin = copy(self)
        twin._registries = {**self._registries, hook: registry}
        return twin

    def registry(self, hook: str) -> Registry[Any]:
        """What all plugins registered through ``hook``; filled at first use."""
        if hook not in self._registries:
            kind = self._kinds[hook]
            registry = kind.registry(kind.noun)
            for impl in self._implementations(hook):
                self._collect(impl, registry, kind.add)
            self._registries[hook] = registry
        return self._registries[hook]

    def _collect(self, impl: Any, registry: Registry[Any], add: Callable[..., None]) -> None:
        def register(*args: Any, **kwargs: Any) -> None:
            add(registry, impl.plugin_name, *args, **kwargs)

        if impl.plugin_name in self._builtin:
            impl.function(register)
            return
        before = registry.names()
        try:
            returned = impl.function(register)
            if returned is not None:
                name = impl.function.__name__
                raise PluginError(f"its {name} returned a {type(returned).__name__}; a hook calls register")
        except (Exception, SystemExit) as error:  # as above: third-party code
            registry.keep(before)  # what is skipped is skipped as a whole
            if isinstance(error, DuplicateNameError):
                raise
            dist = self._distributions.get(impl.plugin_name, "")
            self._report(f"{impl.plugin_name} ({dist})" if dist else impl.plugin_name, error, named=not dist)

    def listing(self) -> list[dict[str, Any]]:
        """Each plugin's name, distribution and hooks, in the order of loading."""
        return [
            {
                "name": name,
                "distribution": self._distributions.get(name) or ("built in" if name in self._builtin else "file"),
                "hooks": sorted(h for h in self._kinds if any(i.plugin is plugin for i in self._implementations(h))),
            }
            for name, plugin in self._manager.list_name_plugin()
            if plugin is not None
        ]

    def _implementations(self, hook: str) -> list[Any]:
        return list(getattr(self._manager.hook, hook).get_hookimpls())

    encoders = _registered("register_encoders", "Systems that are encoders of their own.")
    methods = _registered("register_methods", "What can be done to a backbone.")
    augmentations = _registered("register_augmentations", "Ways to make the two views of a string.")
    tasks = _registered("register_tasks", "All tasks.")
    corpora = _registered("register_corpora", "All tuning corpora that have a name.")
    metrics = _registered("register_metrics", "All metrics.")
    renderers = _registered("register_renderers", "All table formats.")
    executors = _registered("register_executors", "Where cells can be computed.")
    commands = _registered("register_commands", "Sub-commands added by plugins.")
