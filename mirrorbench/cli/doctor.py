"""``mirrorbench doctor``: prints the state of the installation."""

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
    """Show versions, devices, folders and their sizes, the hub, missing data of suites, environment variables.

    The exit code is 1 if a package is missing, or a folder cannot be written, that every command needs.
    """
    from mirrorbench.runs.installation import EXTRAS, VARIABLES, writable
    from mirrorbench.session import Session

    report = Session(data_dir=data_dir, offline=offline).doctor()
    if as_json:
        print_json(report)
        raise typer.Exit(1 if report["problems"] else 0)
    _section(
        "Versions",
        [(name, version or "not installed") for name, version in report["versions"].items()],
    )
    _section(
        "Extras",
        [
            (
                name,
                version
                or f"not installed; for {EXTRAS[name][1]}: pip install 'mirrorbench[{name}]'",
            )
            for name, version in report["extras"].items()
        ],
    )
    _section(
        "Devices (auto takes the first)", [tuple(line.split(": ", 1)) for line in report["devices"]]
    )
    rows = []
    for name, folder in report["folders"].items():
        path = Path(folder["path"])
        size = decimal(folder["bytes"]) if path.is_dir() else "not there yet"
        remark = "" if writable(path) else ", CANNOT BE WRITTEN"
        rows.append((name, f"{path}: {size}, {decimal(folder['free'])} free{remark}"))
    _section("Folders", rows)
    _section("Hub", [("models", report["hub"])])
    _section(
        "Plugins",
        [
            (row["name"], f"{row['distribution']}: {', '.join(row['hooks'])}")
            for row in report["plugins"]
        ],
    )
    _section("Data", [(suite, _missing(tasks)) for suite, tasks in report["missing"].items()])
    _section(
        "Environment",
        [
            (name, report["environment"][name] or f"not set ({VARIABLES[name]})")
            for name in VARIABLES
        ],
    )
    for line in _conclusion(report):
        print_wrapped("", line)
    raise typer.Exit(1 if report["problems"] else 0)


def _conclusion(report: dict[str, Any]) -> Iterator[str]:
    """Lines on problems, on missing data, and on the hub."""
    if report["problems"]:
        yield f"Problems: {'; '.join(report['problems'])}"
        return
    yield "The installation is in order: mirrorbench run works here, on the model and the data inside the package."
    if incomplete := [suite for suite, tasks in report["missing"].items() if tasks]:
        yield (
            f"Data of {len(incomplete)} of {len(report['missing'])} suites are not available yet: a run fetches what "
            "it needs. To take it from files: mirrorbench data import DIR."
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
    shown = ", ".join(tasks[:6]) + (f" and {len(tasks) - 6} more" if len(tasks) > 6 else "")
    return f"missing: {shown}"
