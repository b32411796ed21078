"""``mirrorbench plugin new``: create a plugin package to start from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from mirrorbench.cli.display import say
from mirrorbench.core.errors import UsageError

plugin_app = typer.Typer(
    name="plugin",
    help="Create packages of your own with encoders, tasks, commands and more.",
    no_args_is_help=True,
)

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FILES = (
    "pyproject.toml",
    "README.md",
    "$module/__init__.py",
    "$module/commands.py",
    "$module/pets.yaml",
    "$module/pets.tsv",
    "tests/test_plugin.py",
)
"""Files of the package; each has a template of the same name in ``templates``."""


@plugin_app.callback()
def _root() -> None:
    pass


_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the plugin: letters, digits, hyphens.")
]
_Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Folder in which to create the folder of the package."
    ),
]


@plugin_app.command()
def new(name: _Name, output: _Output = Path()) -> None:
    """Create a package with an encoder, a task from a card, a task from code, an augmentation, a command and tests.

    `mirrorbench plugin new my-lab && pip install -e mirrorbench-my-lab && pytest mirrorbench-my-lab`
    """
    name = name.removeprefix("mirrorbench-")
    folder = _write(name, output)
    say(f"{folder}: a plugin with an encoder, two tasks, an augmentation and a command.")
    say(f"Install it:   pip install -e {folder}")
    say(f"Test it:      pytest {folder}")
    say(f"Run it:       mirrorbench run --encoder {name}-letters --tasks {name}-pets,{name}-code")


def _write(name: str, parent: Path) -> Path:
    """Write the package ``mirrorbench-<name>`` into a new folder of that name in ``parent``; return the folder."""
    from importlib.resources import files
    from string import Template

    from mirrorbench.storage.files import writing

    if not _NAME.fullmatch(name):
        hint = "Lower-case letters, digits and single hyphens, e.g. my-lab."
        raise UsageError(f"{name!r} cannot be the name of a plugin", hint)
    folder = parent / f"mirrorbench-{name}"
    if folder.exists():
        raise UsageError(f"{folder} already exists", "Choose another name, or another --output.")
    values = {
        "name": name,
        "key": name.replace("-", "_"),
        "module": f"mirrorbench_{name.replace('-', '_')}",
    }
    # A file's path has placeholders, such as $module/commands.py, as has its template, commands.py.tmpl.
    for path_template in _FILES:
        template = files("mirrorbench.cli") / "templates" / f"{Path(path_template).name}.tmpl"
        text = Template(template.read_text(encoding="utf-8")).substitute(values)
        path = folder / Template(path_template).substitute(values)
        with writing(path) as sink:
            sink.write(text.encode("utf-8"))
    return folder
