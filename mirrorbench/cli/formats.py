"""The format of a table, with its options: ``latex:resize=true,percent=true``."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.specs import Value, parse_params

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Registry
    from mirrorbench.runs.registry import Renderer


def chosen_format(text: str, output: Path | None, renderers: Registry[Renderer]) -> tuple[str, dict[str, Value]]:
    """The format asked for, by name or by the output's ending (Markdown for none), and its options.

    Options are a renderer's keyword-only arguments whose default is true, false, a number or a text.

    Raises:
        UsageError: no format has the ending, or the format does not take an option, or not that value.
    """
    name, _, tail = text.partition(":")
    endings = {ending: entry.name for entry in renderers for ending in entry.value.endings}
    if output and not name:
        if (ending := output.suffix.lower() or ".md") not in endings:
            renderers.check_left_out(ending.removeprefix("."))
            raise unknown_name("ending of an output", ending, list(endings))
        name = endings[ending]
    options: dict[str, Value] = {}
    if not tail:
        return name, options
    parameters = signature(renderers[name].render).parameters.values()
    known = {p.name: type(p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}
    for option, value in parse_params(tail, text):
        if option not in known:
            raise unknown_name(f"option of the format {name}", option, list(known))
        options[option] = str(value) if known[option] is str else value
        if type(options[option]) is not known[option]:
            raise UsageError(f"--format {text}: {option}={value} is not of type {known[option].__name__}")
    return name, options
