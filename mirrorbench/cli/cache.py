"""``mirrorbench cache``: tuned models and vectors that are kept, whether they are whole, and what may go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from mirrorbench.cli.display import Json, print_json, print_rows, say
from mirrorbench.core.errors import DataIntegrityError

if TYPE_CHECKING:
    from mirrorbench.runs.maintenance import CacheEntry

_OlderThan = Annotated[float | None, typer.Option(
    "--older-than", min=0, metavar="DAYS", help="What was not used for so long.")]  # fmt: skip

cache_app = typer.Typer(
    name="cache", no_args_is_help=True,
    help="Tuned models and vectors that are kept, whether they are whole, and what may go.",
)  # fmt: skip


@cache_app.command("list")
def list_cache(as_json: Json = False) -> None:
    """List what is in the cache, the largest first."""
    from mirrorbench.runs.cache import Cache
    from mirrorbench.runs.maintenance import entries

    cache = Cache()
    found = entries(cache)
    if as_json:
        print_json([
            {"kind": e.kind, "key": e.key, "path": str(e.path), "bytes": e.size, "used": e.used, "what": e.what,
             "earlier": e.earlier}
            for e in found
        ])  # fmt: skip
        return
    _print(found)
    say(f"{cache.root}: {len(found)} entries, {decimal(sum(entry.size for entry in found))}")
    if earlier := [entry for entry in found if entry.earlier]:
        size = decimal(sum(entry.size for entry in earlier))
        say(
            f"{len(earlier)} of them, {size}, are of earlier versions, and no run of this one has read them: "
            "mirrorbench cache prune --earlier"
        )


@cache_app.command()
def prune(
    older_than: _OlderThan = None,
    earlier: Annotated[
        bool, typer.Option("--earlier", help="What earlier versions made, and no run of this one has read.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
) -> None:
    """Remove what killed processes left and, if asked, what is old, or everything; a running process keeps its own.

    `mirrorbench cache prune --older-than 30`
    """
    from mirrorbench.runs.cache import Cache
    from mirrorbench.runs.maintenance import prunable, remove

    chosen = prunable(Cache(), older_than, everything, earlier)
    _print(chosen)
    if not dry_run:
        for entry in chosen:
            remove(entry)
    say(f"{len(chosen)} entries {'would go' if dry_run else 'removed'}, {decimal(sum(entry.size for entry in chosen))}")


@cache_app.command("verify")
def verify_cache() -> None:
    """Hash everything in the cache and compare it with its checksums; exit code 1 if something is damaged."""
    from mirrorbench.runs.cache import Cache
    from mirrorbench.runs.maintenance import damage, entries

    cache = Cache()
    found = [entry for entry in entries(cache) if entry.kind != "leftovers"]
    broken = [(entry, what) for entry in found if (what := damage(cache, entry))]
    for entry, what in broken:
        say(f"damaged\t{entry.kind}/{entry.key}\t{what}")
    say(f"{cache.root}: {len(found)} entries, {len(found) - len(broken)} whole")
    if broken:
        hint = "They are never used, and are made again when they are needed: nothing needs to be done."
        raise DataIntegrityError(f"{len(broken)} of {len(found)} entries are damaged.", hint)


def _print(found: Sequence[CacheEntry]) -> None:
    from datetime import datetime

    rows = [
        (
            e.kind,
            e.key[:12],
            decimal(e.size),
            datetime.fromtimestamp(e.used).strftime("%Y-%m-%d %H:%M"),
            f"{e.what}{', of an earlier version' if e.earlier else ''}",
        )
        for e in found
    ]
    if rows:
        print_rows(("kind", "key", "size", "used", "what"), rows)
