"""The format of a table, with its options: ``latex:resize=true,percent=true``."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.specs import Value, parse_params

_ENDINGS = {".md": "markdown", ".tex": "latex", ".html": "html", ".htm": "html", ".csv": "csv", ".json": "json"}
"""What the name of an output says of its format; Markdown for any other."""


def chosen_format(text: str, output: Path | None, renderers: Mapping[str, Any]) -> tuple[str, dict[str, Value]]:
    """The format asked for, by name or by the output's ending (empty for none), and its options.

    Options are a renderer's keyword-only arguments whose default is true, false, a number or a text.

    Raises:
        UsageError: the format does not take an option, or not that value.
    """
    name, _, tail = text.partition(":")
    name = name or (_ENDINGS.get(output.suffix.lower(), "markdown") if output else "")
    options: dict[str, Value] = {}
    if not tail:
        return name, options
    parameters = signature(renderers[name]).parameters.values()
    known = {p.name: type(p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}
    for option, value in parse_params(tail, text):
        if option not in known:
            raise unknown_name(f"option of the format {name}", option, list(known))
        options[option] = str(value) if known[option] is str else value
        if type(options[option]) is not known[option]:
            raise UsageError(f"--format {text}: {option}={value} is not of type {known[option].__name__}")
    return name, options
