"""``mirrorbench doctor``: show the state of the installation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.filesize import decimal
from rich.text import Text

from mirrorbench.cli.display import (
    DataDir,
    Json,
    Offline,
    PluginFiles,
    console,
    print_json,
    print_wrapped,
    say,
)


def doctor(
    data_dir: DataDir = None,
    offline: Offline = False,
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """Show versions, devices, folders and their sizes, access to the hub, missing data and environment variables.

    The exit code is 1 if a package that every command needs is missing, or a folder that it needs cannot be written.
    """
    from mirrorbench.runs.installation import EXTRAS, VARIABLES, writable
    from mirrorbench.session import Session

    report = Session(data_dir=data_dir, offline=offline).doctor()
    if as_json:
        print_json(report)
        raise typer.Exit(1 if report["problems"] else 0)

    # Each section is a title and rows of a name and a text.
    versions = []
    for name, version in report["versions"].items():
        versions.append((name, version or "not installed"))
    _section("Versions", versions)

    extras = []
    for name, version in report["extras"].items():
        _, use = EXTRAS[name]
        missing = f"not installed; for {use}: pip install 'mirrorbench[{name}]'"
        extras.append((name, version or missing))
    _section("Extras", extras)

    devices = []
    for line in report["devices"]:
        device, description = line.split(": ", 1)
        devices.append((device, description))
    _section("Devices (auto takes the first)", devices)

    folders = []
    for name, folder in report["folders"].items():
        path = Path(folder["path"])
        size = decimal(folder["bytes"]) if path.is_dir() else "does not exist yet"
        remark = "" if writable(path) else ", CANNOT BE WRITTEN"
        folders.append((name, f"{path}: {size}, {decimal(folder['free'])} free{remark}"))
    _section("Folders", folders)

    _section("Hub", [("models", report["hub"])])

    plugins = []
    for row in report["plugins"]:
        plugins.append((row["name"], f"{row['distribution']}: {', '.join(row['hooks'])}"))
    _section("Plugins", plugins)

    _section("Data", [(suite, _missing(tasks)) for suite, tasks in report["missing"].items()])

    variables = []
    for name, use in VARIABLES.items():
        variables.append((name, report["environment"][name] or f"not set ({use})"))
    _section("Environment", variables)

    for line in _conclusion(report):
        print_wrapped("", line)
    raise typer.Exit(1 if report["problems"] else 0)


def _conclusion(report: dict[str, Any]) -> Iterator[str]:
    """Yield a line on all problems or, if there are none, lines on what works, missing data and the hub."""
    if report["problems"]:
        yield f"Problems: {'; '.join(report['problems'])}"
        return
    yield "The installation is in order: mirrorbench run works here, on the model and the data inside the package."
    missing_by_suite = report["missing"]
    n_incomplete = sum(1 for tasks in missing_by_suite.values() if tasks)
    if n_incomplete:
        yield (
            f"Data of {n_incomplete} of {len(missing_by_suite)} suites are not available yet: a run fetches what "
            "it needs. To import it from files: mirrorbench data import DIR."
        )
    if "not reachable" in report["hub"]:
        yield "The hub cannot be reached: models must be folders (--encoder ./path/to/model) or in its cache."


def _section(title: str, rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    console.print(Text(title, "bold"))
    width = max(len(row[0]) for row in rows)
    for name, text in rows:
        print_wrapped(f"  {name:{width}}  ", text)
    say("")


def _missing(tasks: Sequence[str]) -> str:
    if not tasks:
        return "complete"
    names = ", ".join(tasks[:6])
    if len(tasks) > 6:
        names += f" and {len(tasks) - 6} more"
    return f"missing: {names}"
