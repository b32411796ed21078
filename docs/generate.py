"""Writes the reference pages from the code and its measured values; without ``--write`` it only checks that they agree.

python docs/generate.py            # exit code 1 if a page differs from the code
python docs/generate.py --write    # renew the pages
"""

from __future__ import annotations

import ast
import html
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import measured_pages
import paper_list
import task_pages

HERE = Path(__file__).resolve().parent
IN_FULL = ("Card", "Task", "TaskKind", "Scores", "Table", "Column", "Row", "Score", "TaskSource", "Request", "Columns")
"""Names of the public interface whose documentation is printed whole."""

COMMANDS = """
import typer
from mirrorbench import cli
from typer.cli import get_docs_for_click
for point in cli.commands_of_plugins().values():
    cli.OfPlugin(point).loaded()
group = typer.main.get_command(cli.app)
print(get_docs_for_click(obj=group, ctx=typer.Context(group), name="mirrorbench"))
"""
"""In a process of its own, since it changes the commands."""


def commands() -> str:
    """Every command's options, as typer describes them; those of plugins are loaded first."""
    out = subprocess.run([sys.executable, "-c", COMMANDS], capture_output=True, text=True, check=True, cwd=HERE.parent)
    return html.unescape(out.stdout).rstrip() + "\n"


def hooks() -> str:
    """Every hook with its arguments."""
    from mirrorbench.core.hooks import HookSpecs

    lines = [
        "# Hooks",
        "",
        "A plugin is a module with functions marked `@mirrorbench.hookimpl` and named like these. It is found through",
        "the entry-point group `mirrorbench`, or loaded from a file with `--plugin FILE.py`.",
    ]
    for name, function in vars(HookSpecs).items():
        if name.startswith("register_"):
            arguments = [p for p in inspect.signature(function).parameters if p != "self"]
            text = inspect.cleandoc(function.__doc__ or "").replace("``", "`")
            lines += ["", f"## `{name}({', '.join(arguments)})`", "", text]
    return "\n".join([*lines, "", *interface()]) + "\n"


def interface() -> Iterator[str]:
    """Every name of the public interface, by module, with the first line of its docstring."""
    import mirrorbench.plugin

    yield "## What a plugin may import"
    yield ""
    yield "`from mirrorbench.plugin import NAME`. Each name is loaded from its module when it is first used; names that"
    yield "are not listed may change without notice."
    yield ""
    yield "| from | name | |"
    yield "|---|---|---|"
    for name, module in mirrorbench.plugin.MODULES.items():
        value = getattr(mirrorbench.plugin, name)
        line = (inspect.getdoc(value) or "").partition("\n")[0] if callable(value) else constants(module).get(name, "")
        about = line.replace("``", "`").replace("|", "\\|")
        takes = f"({', '.join(inspect.signature(value).parameters)})" if inspect.isfunction(value) else ""
        yield f"| `{module.removeprefix('mirrorbench.')}` | `{name}{takes}` | {about} |"
    for name in IN_FULL:
        text = inspect.cleandoc(getattr(mirrorbench.plugin, name).__doc__ or "").replace("``", "`")
        yield f"\n### {name}\n\n```text\n{text}\n```"


def constants(module: str) -> dict[str, str]:
    """The first lines of the texts that follow the assignments of a module, by name."""
    body = ast.parse(Path(import_module(module).__file__ or "").read_text(encoding="utf-8")).body
    return {
        ast.unparse(target): text.value.value.partition("\n")[0]
        for node, text in pairwise(body)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if target is not None
    }


def backbone_list() -> str:
    """Every short name of a backbone."""
    from mirrorbench.models.backbones import BACKBONES, EMBEDDED

    lines = [
        "# Short names of backbones",
        "",
        "A backbone is written as a short name, as OWNER/NAME of the Hugging Face hub or as a directory. Each is an",
        "encoder, alone (a ladder of rows: untuned, then tuned) or with a method (`roberta+mirror`); the command",
        "`mirrorbench list backbones` also says which are cached. Language models are read at [CLS] and by mean",
        "pooling, and tuned with the paper's recipe; a model that its authors made an encoder of texts is read as",
        "they read it, and tuned so. The papers' own tuned models are one row. A gated model is given to those who",
        "agreed to its terms on the hub.",
        "",
        "| short name | model | family | language | size | licence | read |",
        "|---|---|---|---|---|---|---|",
    ]
    for known in BACKBONES.values():
        model = (
            "inside this package"
            if known.hub_id == EMBEDDED
            else f"[{known.hub_id}](https://huggingface.co/{known.hub_id})"
        )
        size = f"{known.millions:g}M" if known.millions else ""
        read = known.pooling or ", ".join(f"{key}={value}" for key, value in known.readout.items())
        licence = f"{known.licence}, gated" if known.gated else known.licence
        cells = (f"`{known.name}`", model, known.family, known.language, size, licence, read)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def computations() -> str:
    """Every version of the computation, and what happens to what earlier ones made."""
    from mirrorbench.core.identity import COMPUTATION, COMPUTATIONS

    lines = [
        "# Computations",
        "",
        "A number that changes with the code raises the version of the computation, which is part of the identity of",
        f"every result, tuned model and cached vector. Today's is {COMPUTATION}.",
        "",
        "| computation | what changed |",
        "|---|---|",
        *(f"| {number} | {change} |" for number, change in reversed(COMPUTATIONS.items())),
        "",
        "## Results of earlier ones",
        "",
        "Each result states its computation (`cell`, `computation`). A file without it counts as not stated, until a",
        "run that finds it valid writes it there.",
        "",
        "- `mirrorbench run` uses what is of today's computation, and computes the rest; the earlier result is moved",
        "  aside, and found again by the version that made it.",
        "- `mirrorbench leaderboard` shows the newest computation that is there. A line counts the results of the",
        "  others, and names the command that computes them anew.",
        "- `mirrorbench compare`, `paper` and `analyze curves` take the newest computation that has what they need,",
        "  and name what they leave out. The [mteb plugin](../plugins/mirrorbench-mteb/README.md) exports today's.",
        "",
        "## Caches of earlier ones",
        "",
        "Corpora hold for every computation. Tuned models and vectors of an earlier one are never read: `mirrorbench",
        "cache list` names them, and `mirrorbench cache prune --earlier` removes them, with vectors that state no",
        "computation and that no run of this version has read.",
    ]
    return "\n".join(lines) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """Path below ``docs/`` and text of every page."""
    yield "commands.md", commands()
    yield "hooks.md", hooks()
    yield "papers.md", paper_list.page()
    yield "backbones.md", backbone_list()
    yield "computations.md", computations()
    yield from measured_pages.pages().items()
    yield from task_pages.pages().items()


def main() -> int:
    """Write or check every page."""
    stale = []
    for name, text in pages():
        path = HERE / name
        if "--write" in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if stale:
        sys.stderr.write(f"out of date: {', '.join(stale)}; run: python docs/generate.py --write\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
