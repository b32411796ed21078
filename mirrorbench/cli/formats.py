"""The options that formats declare, as options of the commands that render tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from mirrorbench.core.errors import UsageError

_ENDINGS = {".md": "markdown", ".tex": "latex", ".html": "html", ".htm": "html", ".csv": "csv", ".json": "json"}
"""What the name of an output says of its format; Markdown for any other."""


def chosen_format(name: str, output: Path | None, options: Iterable[str], renderers: Mapping[str, Any]) -> str:
    """The format asked for, by name, by the output's ending, or as the only one with an option; empty for none.

    Raises:
        UsageError: the format does not take an option.
    """
    having = {option: [f for f, render in renderers.items() if option in declared(render)] for option in options}
    name = name or (_ENDINGS.get(output.suffix.lower(), "markdown") if output else "")
    name = name or next((formats[0] for formats in having.values()), "")
    for option, formats in having.items():
        if name not in formats:
            flag = _flag(option, declared(renderers[formats[0]])[option])
            raise UsageError(f"the format {name} has no {flag}", f"It belongs to: {', '.join(formats)}")
    return name


def with_options_of_formats(
    command: Callable[..., None], renderers: Mapping[str, Callable[..., str]] | None = None
) -> Callable[..., None]:
    """The command with the options of all renderers in place of its argument ``options``, which gets those given."""
    known: dict[str, Parameter] = {}
    helps: dict[str, str] = {}
    for name, render in (renderers or _renderers()).items():
        for option, parameter in declared(render).items():
            known.setdefault(option, parameter)
            said = re.search(rf"^ *{option}: (.+(?:\n +(?! *\w+: ).+)*)", getdoc(render) or "", re.MULTILINE)
            helps.setdefault(option, f"{name}: {' '.join(said[1].split()) if said else ''}".strip())

    def wrapped(**given: Any) -> None:
        options = {option: value for option in known if (value := given.pop(option)) != known[option].default}
        command(**given, options=options)

    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)
        for name, parameter in signature(command).parameters.items() if name != "options"
    ]  # fmt: skip
    extra = [
        parameter.replace(annotation=Annotated[
            type(parameter.default),
            typer.Option(
                _flag(name, parameter, " /"), help=helps[name], rich_help_panel="Options of formats",
                show_default=type(parameter.default) is int)])
        for name, parameter in known.items()
    ]  # fmt: skip
    wrapped.__signature__ = Signature([*own, *extra])  # type: ignore[attr-defined]  # what Typer reads
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *extra)}
    wrapped.__doc__ = command.__doc__
    return wrapped


def declared(render: Callable[..., str]) -> dict[str, Parameter]:
    """The options of a renderer: its keyword-only arguments that are true, false, a number or a text by default."""
    parameters = signature(render).parameters.values()
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY and isinstance(p.default, bool | int | str)}


def _renderers() -> dict[str, Callable[..., str]]:
    """The formats by name; plugins are loaded for it only where there are any."""
    if entry_points(group="mirrorbench"):
        from mirrorbench.runs.builtin import plugins

        found: dict[str, Callable[..., str]] = plugins().renderers.by_name()
        return found
    from mirrorbench.reports.renderers import register_renderers

    found = {}
    register_renderers(lambda name, render, description: found.update({name: render}))
    return found


def _flag(option: str, parameter: Parameter, off: str = "") -> str:
    """How an option is written; one that is on by default is written to turn it off."""
    name = option.replace("_", "-")
    return f"{off}--no-{name}" if parameter.default is True else f"--{name}"
