"""``cache``: tuned models and vectors that are kept, and the removal of old ones."""

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
        "--older-than", min=0, metavar="DAYS", help="Entries that were not used for so long."
    ),
]

cache_app = typer.Typer(
    name="cache", no_args_is_help=True, help="List and remove tuned models and vectors."
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
    if earlier := [entry for entry in cached if entry.earlier]:
        say(f"{len(earlier)} of them are of earlier versions: mirrorbench cache prune --earlier")


@cache_app.command()
def prune(
    older_than: _OlderThan = None,
    earlier: Annotated[
        bool,
        typer.Option(
            "--earlier", help="Entries of earlier versions that no run of this one has read."
        ),
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="All entries.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be removed.")
    ] = False,
) -> None:
    """Remove leftovers of killed processes and, if asked, old entries or all; a running process keeps its own.

    `mirrorbench cache prune --older-than 30`
    """
    chosen = prunable(Cache(), older_than, everything, earlier)
    if not dry_run:
        for entry in chosen:
            remove(entry)
    _print(chosen, f"entries {'would be removed' if dry_run else 'removed'}")


def _print(entries: Sequence[CacheEntry], which: str) -> None:
    rows = [
        (
            e.folder,
            e.key[:12],
            decimal(e.size),
            datetime.fromtimestamp(e.used).strftime("%Y-%m-%d %H:%M"),
            ", ".join(filter(None, (e.what, "of an earlier version" * e.earlier))),
        )
        for e in entries
    ]
    if rows:
        print_rows(("folder", "key", "size", "used", "what"), rows)
    say(f"{len(entries)} {which}, {decimal(sum(entry.size for entry in entries))}")
