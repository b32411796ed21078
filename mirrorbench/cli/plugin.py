"""``mirrorbench plugin new``: a package of one's own that works, to be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="plugin", help="Packages of your own with encoders, tasks and augmentations.", no_args_is_help=True
)


@app.callback()
def _root() -> None:
    pass


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the plugin: letters, digits, hyphens.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder in which the package's own folder is made.")
    ] = Path(),
) -> None:
    """Write a package with an encoder, a task from a card, a task from code and an augmentation, and its test.

    `mirrorbench plugin new my-lab && pip install -e mirrorbench-my-lab && pytest mirrorbench-my-lab`
    """
    from mirrorbench.cli.scaffold import write_plugin

    folder = write_plugin(name, output)
    typer.echo(f"{folder}: a plugin with an encoder, two tasks and an augmentation.")
    typer.echo(f"Install it:   pip install -e {folder}")
    typer.echo(f"Test it:      pytest {folder}")
    typer.echo(f"Run it:       mirrorbench run --encoder {name}-letters --tasks {name}-pets,{name}-code")
