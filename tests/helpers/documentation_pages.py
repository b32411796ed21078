"""What stands on a page of the documentation: its commands, and the files that it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import typer.main

from mirrorbench.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "docs" / "tasks").glob("*.md"),
    *(ROOT / "plugins").glob("*/README.md"),
    *(ROOT / "leaderboards").glob("*.md"),
    *(ROOT / "benchmarks").glob("*.md"),
    *(ROOT / "pretraining").glob("*.md"),
    *(ROOT / "mirrorbench" / "embedded").glob("*/*.md"),
]
"""Every page that a reader may take a command from."""

_COMMAND = re.compile(r"^\$ (.*)$", re.M)
# A block of code is a file where the text before it ends in the file's name: `pets.yaml`:
_FILE = re.compile(r"`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", re.M | re.S)
# After a prompt, perhaps with a comment that holds another one; or in backticks, as help texts have their examples.
_OURS = re.compile(r"^\$ (?P<prompt>.*)$|`(?P<said>(?:echo [^`]* \| )?mirrorbench [^`]+)`", re.M)
_COMMENT = re.compile(r"\s+# +(?:or: (?P<other>mirrorbench .*))?")
# What is a mention and no command: `mirrorbench data`, `mirrorbench plugin new NAME`, `mirrorbench cache list|prune`.
_MENTION = re.compile(
    r"\.\.\.|[a-z]\|[a-z]|\b[A-Z]{3,}\b|--install-completion|^mirrorbench \w+(?: new)?$"
)


def commands(page: Path) -> list[str]:
    """The commands, in their order."""
    return _COMMAND.findall(page.read_text(encoding="utf-8"))


def files(page: Path) -> dict[str, str]:
    """The files, by name."""
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


def own_commands(text: str) -> list[str]:
    """The commands ``mirrorbench ...`` in a text, in their order, each with the ``echo`` that is piped into it.

    Lines that are continued are joined; of ``one && other`` each is a command.
    """
    text = re.sub(r"\\\n\s*", "", text)
    text = re.sub(r"^#.*$", "", text, flags=re.M)  # headings
    found = []
    for match in _OURS.finditer(text):
        line = match["prompt"] or " ".join(match["said"].split())
        comment = _COMMENT.search(line)
        lines = [line[: comment.start()], comment["other"] or ""] if comment else [line]
        parts = [
            re.sub(r"^\S*/mirrorbench ", "mirrorbench ", part)
            for one in lines
            for part in one.split(" && ")
        ]
        ours = [part.strip() for part in parts if re.match(r"(echo .* \| )?mirrorbench ", part)]
        found += [
            part
            for part in ours
            if "[OPTIONS]" not in part and (match["prompt"] or not _MENTION.search(part))
        ]
    return found


def sections(page: Path) -> dict[str, str]:
    """The text below each heading of a page, by heading; what stands before the first one by an empty name."""
    pieces = re.split(r"^#+ (.*)\n", page.read_text(encoding="utf-8"), flags=re.M)
    found = {"": pieces[0]}
    for heading, text in zip(pieces[1::2], pieces[2::2], strict=True):
        found[heading] = found.get(heading, "") + text
    return found


def parsed(command: str) -> tuple[str, dict[str, object]]:
    """The command's path and the values of its parameters, as typer reads them; a mistake is an error."""
    arguments = shlex.split(command.rpartition(" | ")[2])[1:]
    while "--plugin" in arguments:  # would be loaded
        del arguments[arguments.index("--plugin") : arguments.index("--plugin") + 2]
    group, names = typer.main.get_command(app), []
    context = group.make_context("mirrorbench", arguments)
    while hasattr(group, "resolve_command"):
        name, group, arguments = group.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert group is not None, f"no command {arguments}"
        names.append(str(name))
        if hasattr(group, "resolve_command") and not arguments:
            break
        context = group.make_context(name, list(arguments), parent=context)
    return " ".join(names), dict(context.params)
