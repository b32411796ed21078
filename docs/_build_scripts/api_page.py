"""Build ``api.md`` and ``plugin_api.md``: the public names, which Sphinx describes from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType

from plugin_page import groups

import mirrorbench
import mirrorbench.plugin

FUNCTIONS = """# Python

The names of `import mirrorbench`. Examples of their use are in [your own texts](own_texts.md#in-python) and in
[quickstart.py](../examples/quickstart.py). The site fills this page from the docstrings; `help(mirrorbench.tune)` prints the same
text.
"""
NAMES = """# Names for plugins

The names of `mirrorbench.plugin`, by group. [Write a plugin](plugins.md) shows them in use. The site fills this page from the
docstrings; `help(NAME)` prints the same text.
"""
RETURNED = (
    "mirrorbench.texts.model_card.TunedEncoder",
    "mirrorbench.reports.leaderboard.Leaderboard",
    "mirrorbench.reports.encoder_comparison.EncoderComparison",
    "mirrorbench.texts.encode.EncodedFile",
    "mirrorbench.agreement.certificate.Certificate",
    "mirrorbench.data.corpora.Contamination",
)
"""Classes of what the functions return; they are not imported, but their attributes are read."""


def pages() -> dict[str, str]:
    """Return the text of both pages by their path below ``docs/``."""
    return {"api.md": mirrorbench_names(), "plugin_api.md": plugin_names()}


def mirrorbench_names() -> str:
    """Return the page of ``mirrorbench``."""
    public = {
        name: getattr(mirrorbench, name)
        for name in mirrorbench.__all__
        if name not in ("__version__", "hookimpl")  # a plugin's, which imports it from either
    }
    classes = [name for name, value in public.items() if inspect.isclass(value)]
    lines = [FUNCTIONS]
    functions = sorted(
        public.keys() - classes,
        key=lambda name: inspect.unwrap(public[name]).__code__.co_firstlineno,
    )
    lines += section("Functions", mirrorbench, functions)  # in the order of their module
    lines += section("Classes", mirrorbench, classes)
    lines += [
        "## What the functions return",
        "",
        "These classes are not for import.",
        "",
        "```{eval-rst}",
    ]
    for path in RETURNED:
        module, _, name = path.rpartition(".")
        lines += [f".. currentmodule:: {module}", "", *entry(import_module(module), name)]
    return "\n".join([*lines, "```"]) + "\n"


def plugin_names() -> str:
    """Return the page of ``mirrorbench.plugin``."""
    lines = [NAMES]
    for title, members in groups().items():
        lines += section(title, mirrorbench.plugin, members)
    return "\n".join(lines).rstrip() + "\n"


def section(title: str, module: ModuleType, names: Iterable[str]) -> Iterator[str]:
    """Yield a section that describes names of a module."""
    yield from (f"## {title}", "", "```{eval-rst}", f".. currentmodule:: {module.__name__}", "")
    for name in names:
        yield from entry(module, name)
    yield from ("```", "")


def entry(module: ModuleType, name: str) -> Iterator[str]:
    """Yield the directive that describes a name: a class with its members, a function, or a value."""
    value = getattr(module, name)
    if inspect.isclass(value):
        yield from (f".. autoclass:: {name}", "   :members:", "")
    elif inspect.isroutine(value):
        yield from (f".. autofunction:: {name}", "")
    else:
        yield from (f".. autodata:: {name}", "   :no-value:", "")
