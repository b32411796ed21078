"""Build the page ``commands.md`` from Typer's reference; options that several commands share are described once."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TYPER = """
import typer
from mirrorbench import cli
from typer.cli import get_docs_for_click
group = typer.main.get_command(cli.app)
context = typer.Context(group)
for name in group.list_commands(context):
    group.get_command(context, name).loaded()
print(get_docs_for_click(obj=group, ctx=context, name="mirrorbench"))
"""
"""Runs in a separate process, because it replaces the commands with loaded ones."""
SHARED_BY = 3
"""Number of commands that must share an option for it to be described once."""
EXIT_CODES = (
    "`0`: success; of `same`, equal.",
    "`1`: a failure, such as a cell that could not be computed.",
    "`2`: a wrong command, such as an unknown option, task or key of an encoder.",
    "`3`: of `same`, the data cannot say.",
    "`4`: of `same`, different.",
    "`130`: interrupted (Ctrl-C); the same command [resumes](faults.md).",
)
"""What the exit codes mean, one item for each."""
KINDS = {"int": "N", "int range": "N", "path": "PATH", "list[Path]": "PATH", "str": "TEXT"}
"""Names of values, for options without their own."""


class Command(NamedTuple):
    """A command or a group of commands, as the page shows it."""

    name: str
    about: str
    examples: list[str]
    usage: str
    arguments: list[str]
    options: list[str]


def page() -> str:
    """Return the page."""
    out = subprocess.run(
        [sys.executable, "-c", TYPER], capture_output=True, text=True, check=True, cwd=ROOT
    )
    root, *commands = map(read, re.split(r"^#+ (?=`)", html.unescape(out.stdout), flags=re.M)[1:])
    users = Counter(option for command in commands for option in command.options)
    common = [option for option, n in users.most_common() if n >= SHARED_BY]
    of_group = {option: group_of(option, commands) for option in common}
    shared = {group: [o for o in common if of_group[o] == group] for group in of_group.values()}
    links = " · ".join(
        f"[{c.name.partition(' ')[2]}](#{c.name.replace(' ', '-')})" for c in commands
    )
    lines = [
        "# Commands",
        "",
        f"{root.about} Every command explains itself with `-h` or `--help`.",
        "",
        links,
        "",
        "Options before the name of a command:",
        "",
        *(f"- {option}" for option in root.options),
        "",
        "Shared options, which are described only here; each command lists the ones that it takes:",
        "",
        *(f"- {option}" for option in shared[""]),
        "",
        "Exit codes:",
        "",
        *(f"- {code}" for code in EXIT_CODES),
    ]
    for command in commands:
        lines += ["", *section(command, shared.get(command.name, []), common)]
    return "\n".join(lines) + "\n"


def read(text: str) -> Command:
    """Parse a command from its section in Typer's reference."""
    heading, *blocks = text.strip().split("\n\n")
    parts: dict[str, list[str]] = {}
    part = ""
    for block in blocks:
        if match := re.fullmatch(r"\*\*(\w+)\*\*:", block):
            part = match[1]
        else:
            parts.setdefault(part, []).extend(block.split("\n") if part else [block])
    about, *others = parts[""]
    usage = next(line[2:] for line in parts["Usage"] if line.startswith("$ "))
    options, arguments = (
        [item(line) for line in parts.get(key, [])] for key in ("Options", "Arguments")
    )
    return Command(
        heading.strip("`"),
        " ".join(about.split()),
        [other.strip("`") for other in others if other.startswith("`")],
        re.sub(r"(\.\.\.\]?)\.\.\.$", r"\1", re.sub(r"[{}]", "", usage)),
        arguments,
        [option for option in options if not option.startswith("`--help`")],
    )


def item(line: str) -> str:
    """Describe an option or argument: the name of its value, its meaning, its default."""
    match = re.fullmatch(r"\* `(.+?)(?: <(.+)>)?`: (.*?)(?:  \[(.*)\])?", line)
    assert match, line
    name, kind, text, bounds = match.groups()
    value = f" {KINDS[kind]}" if kind and name.startswith("-") else ""
    notes = [re.sub(r"^default: \((.*)\)$", r"default: \1", note) for note in split(bounds or "")]
    notes = [
        re.sub("^env var: (.*)", r"or `\1`", note)
        for note in notes
        if not re.match(r"x[<>]=|required$", note)
    ]
    required = ["required"] if name.startswith("-") and "required" in (bounds or "") else []
    return f"`{name}{value}`: {text}" + (
        f" ({'; '.join(required + notes)})" if required + notes else ""
    )


def split(bounds: str) -> list[str]:
    """Split the notes in brackets after an option at semicolons, but not inside parentheses."""
    return [note for note in re.split(r"; (?![^(]*\))", bounds) if note]


def group_of(option: str, commands: list[Command]) -> str:
    """Return the group that has all commands with an option; empty if there is none."""
    groups = {command.name.rpartition(" ")[0] for command in commands if option in command.options}
    return groups.pop().removesuffix("mirrorbench") if len(groups) == 1 else ""


def section(command: Command, shared: list[str], common: list[str]) -> Iterator[str]:
    """Yield the section of a command; ``shared``: options that its commands share; ``common``: all such options."""
    yield f"{'#' * (command.name.count(' ') + 1)} `{command.name}`"
    yield from ("", command.about)
    if "COMMAND" in command.usage:
        if shared:
            yield from (
                "",
                "Shared options of its commands:",
                "",
                *(f"- {option}" for option in shared),
            )
        return
    if command.arguments:
        yield from ("", f"Usage: `{command.usage}`")
    if command.examples:
        yield from ("", "```console", *(f"$ {line}" for line in command.examples), "```")
    yield ""
    yield from (
        f"- {one}" for one in (*command.arguments, *(o for o in command.options if o not in common))
    )
    if names := [
        re.findall(r"--[\w-]+", option)[0] for option in command.options if option in common
    ]:
        yield "- shared: " + ", ".join(f"`{name}`" for name in names)
