"""``mirrorbench cache``: list and remove cached models and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from rich.filesize import decimal

from mirrorbench.cli.display import Json, print_json, print_rows, say
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.cache_entries import CacheEntry, entries, prunable, remove

_OlderThan = Annotated[
    float | None,
    typer.Option(
        "--older-than",
        min=0,
        metavar="DAYS",
        help="Remove entries that were not used for this long.",
    ),
]

cache_app = typer.Typer(
    name="cache", no_args_is_help=True, help="List and remove cached models and vectors."
)


@cache_app.command("list")
def list_cache(as_json: Json = False) -> None:
    """List the entries of the cache, the largest first."""
    cache = Cache()
    cached = entries(cache)
    if as_json:
        print_json([asdict(entry) | {"path": str(entry.path)} for entry in cached])
        return
    _print(cached, f"entries in {cache.root}")
    n_earlier = sum(entry.earlier for entry in cached)
    if n_earlier:
        say(f"{n_earlier} of them are of earlier versions: mirrorbench cache prune --earlier")


@cache_app.command()
def prune(
    older_than: _OlderThan = None,
    earlier: Annotated[
        bool,
        typer.Option(
            "--earlier",
            help="Remove entries of earlier versions that no run of this version has used.",
        ),
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Remove all entries.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be removed; remove nothing.")
    ] = False,
) -> None:
    """Remove leftovers of killed processes; options also remove entries, except those that a running process uses.

    `mirrorbench cache prune --older-than 30`
    """
    chosen = prunable(Cache(), older_than, everything, earlier)
    if not dry_run:
        for entry in chosen:
            remove(entry)
    _print(chosen, f"entries {'would be removed' if dry_run else 'removed'}")


def _print(cached: Sequence[CacheEntry], summary: str) -> None:
    """Print entries, then their number, the rest of the ``summary`` and their total size."""
    rows = []
    for entry in cached:
        used = datetime.fromtimestamp(entry.used).strftime("%Y-%m-%d %H:%M")
        remarks = [entry.what] if entry.what else []
        if entry.earlier:
            remarks.append("of an earlier version")
        rows.append((entry.folder, entry.key[:12], decimal(entry.size), used, ", ".join(remarks)))
    if rows:
        print_rows(("folder", "key", "size", "used", "what"), rows)
    total_size = sum(entry.size for entry in cached)
    say(f"{len(cached)} {summary}, {decimal(total_size)}")
