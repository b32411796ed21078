"""Build the generated part of ``plugins.md``: the hooks, and the names that a plugin may import."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import mirrorbench.plugin
from mirrorbench.core.hooks import HookSpecs

PAGE = Path(__file__).resolve().parents[1] / "plugins.md"
BEGIN = "<!-- made from the code by docs/_build_scripts/generate.py -->"
END = "<!-- end of what is made -->"


def page() -> str:
    """Return the page with its generated part renewed."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([f"{before}{BEGIN}", "", *hooks(), "", *names(), "", f"{END}{after}"])


def hooks() -> Iterator[str]:
    """Yield the section on hooks: the arguments of each in a line, then what a registered part must do."""
    documentation = {}
    for name, function in vars(HookSpecs).items():
        if name.startswith("register_"):
            signature, _, details = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
            documentation[name] = (signature.split("``")[1], details)
    yield from ("## Hooks", "")
    yield "Each hook gets a function `register`, with these arguments. A function is written `(arguments) -> result`."
    yield from ("", "```text")
    width = max(map(len, documentation))
    for name, (signature, _) in documentation.items():
        yield f"{name:{width}}  {signature}"
    yield from ("```", "")
    for name, (_, details) in documentation.items():
        text = " ".join(details.replace("``", "`").split())
        yield f"- **`{name}`** {text}"


def names() -> Iterator[str]:
    """Yield the table of all names of the public interface, by group."""
    yield from ("## Names to import", "")
    yield "Plugins import these names with `from mirrorbench.plugin import NAME`, and the functions of `mirrorbench` itself;"
    yield "`help(NAME)` describes each class and function in full. Groups marked as provisional may change, with a note in the"
    yield "changelog; the others are stable. Other names of mirrorbench may change without notice."
    yield from ("", "| for | names |", "|---|---|")
    for title, members in groups().items():
        yield f"| {title[0].lower()}{title[1:]} | {', '.join(f'`{name}`' for name in members)} |"


def groups() -> dict[str, list[str]]:
    """Return the names of ``mirrorbench.plugin`` by group, as the comments in its ``__all__`` title them."""
    source = inspect.getsource(mirrorbench.plugin)
    _, _, listed = source.partition("\n__all__ = [")
    by_title: dict[str, list[str]] = {}
    for title, name in re.findall(r'^    (?:# (.+)|"(\w+)",)$', listed, re.MULTILINE):
        if title:
            members = by_title[title] = []
        else:
            members.append(name)
    return by_title
