"""``mirrorbench doctor``: what is installed, where things are, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer

from mirrorbench.cli.display import DataDir, Json, Offline, PluginFiles


def doctor(
    data_dir: DataDir = None, offline: Offline = False, as_json: Json = False, plugin: PluginFiles = None
) -> None:
    """Versions, devices, folders and their sizes, the hub, what is missing for which suite, environment variables.

    The exit code is 1 if something that every command needs is not in order.
    """
    from mirrorbench.cli.display import in_bytes, print_json
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs import environment
    from mirrorbench.runs.builtin import plugins

    data = DataStore(data_dir, offline=True)
    versions, folders, lacking = environment.versions(), environment.folders(data), environment.lacking(data)
    extras = {name: environment.package_version(package) for name, (package, _) in environment.EXTRAS.items()}
    third = [row for row in plugins().listing() if row["distribution"] != "built in"]
    problems = [f"{name} is not installed" for name, found in versions.items() if not found]
    problems += [f"the folder {folder.path} cannot be written" for folder in folders if not folder.writable]
    devices, hub = environment.devices(), environment.hub(offline)
    values = {name: os.environ.get(name, "") for name in environment.VARIABLES}
    if as_json:
        print_json({
            "versions": versions, "extras": extras, "devices": devices,
            "folders": {f.name: {"path": str(f.path), "bytes": f.size, "free": f.free} for f in folders},
            "hub": hub, "plugins": third, "missing": lacking, "environment": values, "problems": problems,
        })  # fmt: skip
        raise typer.Exit(1 if problems else 0)
    _section("Versions", [(name, found or "not installed") for name, found in versions.items()])
    _section("Extras", [
        (name, found or f"not installed; for {environment.EXTRAS[name][1]}: pip install 'mirrorbench[{name}]'")
        for name, found in extras.items()
    ])  # fmt: skip
    _section("Devices (auto takes the first)", [tuple(line.split(": ", 1)) for line in devices])
    _section("Folders", [
        (f.name, f"{f.path}: {in_bytes(f.size) if f.exists else 'not there yet'}, {in_bytes(f.free)} free"
                 + ("" if f.writable else ", CANNOT BE WRITTEN"))
        for f in folders
    ])  # fmt: skip
    _section("Hub", [("models", hub)])
    _section("Plugins", [(row["name"], f"{row['distribution']}: {', '.join(row['hooks'])}") for row in third])
    _section("Data", [(suite, _missing(tasks)) for suite, tasks in lacking.items()])
    _section("Environment", [
        (name, values[name] or f"not set ({meaning})") for name, meaning in environment.VARIABLES.items()
    ])  # fmt: skip
    typer.echo("Everything that is needed is here." if not problems else f"Problems: {'; '.join(problems)}")
    raise typer.Exit(1 if problems else 0)


def _section(title: str, rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    typer.secho(title, bold=True)
    width = max(len(row[0]) for row in rows)
    for name, text in rows:
        typer.echo(f"  {name:{width}}  {text}")
    typer.echo("")


def _missing(tasks: Sequence[str]) -> str:
    if not tasks:
        return "complete"
    shown = ", ".join(tasks[:6]) + (f" and {len(tasks) - 6} more" if len(tasks) > 6 else "")
    return f"lacks {shown}"
