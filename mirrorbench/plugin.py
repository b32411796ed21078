"""The names that a plugin may import; each is loaded from its module when it is first used.

Plugins that come with mirrorbench import nothing else of it (``tests/test_plugin_interface.py``). A name is added when
a plugin needs it.
"""

# ruff: noqa: F401
from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirrorbench.core.checksums import kept_checksum, kept_folder
    from mirrorbench.core.errors import DataFormatError, ModelUnavailableError, UsageError, not_installed
    from mirrorbench.core.files import cache_root
    from mirrorbench.core.hooks import Register, hookimpl
    from mirrorbench.core.identity import COMPUTATION, digest
    from mirrorbench.core.inputs import Array, TextInput, as_inputs
    from mirrorbench.core.shown import shown
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.data.cardfile import builtin_cards
    from mirrorbench.models.backbones import fingerprint, unchanged_backbone
    from mirrorbench.models.batching import Ragged
    from mirrorbench.models.encoder import TransformerEncoder
    from mirrorbench.models.pooling import Pooling
    from mirrorbench.models.systems import EncoderContext, LazyEncoder, checked_params
    from mirrorbench.models.transformer import Transformer, load_transformer
    from mirrorbench.reports.renderers import escape_latex, latex
    from mirrorbench.reports.renderers.notes import MISSING, TIED, metric_words, note_lines, with_deviation
    from mirrorbench.reports.renderers.tex import DEFAULT_TITLE, breakable, ended
    from mirrorbench.reports.renderers.text import escape_markdown
    from mirrorbench.reports.table import DIGITS, Column, Table, TaskSource, to_object
    from mirrorbench.training.methods import Method, base_preset

_IMPORTS = [node for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
_MODULES = {a.name: n.module for n in _IMPORTS for a in n.names if n.module and n.module.startswith("mirrorbench.")}
"""The module of each name, as the imports above say."""


def __getattr__(name: str) -> Any:
    if module := _MODULES.get(name):
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'mirrorbench.plugin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_MODULES)
