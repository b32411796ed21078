"""The hooks that plugins implement."""

from __future__ import annotations

from inspect import getmembers, isfunction, signature

import pytest

from mirrorbench.core.hooks import HookSpecs
from mirrorbench.core.plugins import Plugins, Registry

HOOKS = dict(getmembers(HookSpecs, isfunction))


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_fills_a_registry(plugins: Plugins, name: str) -> None:
    """A hook that is declared alone would be called for nothing."""
    assert isinstance(plugins.registry(name), Registry)
    assert list(signature(HOOKS[name]).parameters) == ["self", "register"]


def test_builtin_plugins_implement_only_declared_hooks(plugins: Plugins) -> None:
    implemented = {hook for row in plugins.listing() for hook in row["hooks"]}
    assert implemented <= HOOKS.keys()
    assert {"register_tasks", "register_methods", "register_renderers"} <= implemented
