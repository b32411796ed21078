"""Cards and files made up for tests of the data layer."""

from __future__ import annotations

import hashlib
from typing import Any

from mirrorbench.data.cards import Card, DataFile, Source, UrlSource


def make_file(content: bytes, *sources: Source, path: str = "a.txt", split: str = "") -> DataFile:
    """A file of a card that has this content."""
    return DataFile(path, hashlib.sha256(content).hexdigest(), len(content), split, sources)


def make_card(*files: DataFile, **changes: Any) -> Card:
    """The card ``toy`` of some files."""
    values: dict[str, Any] = {
        "name": "toy",
        "kind": "pair-similarity",
        "title": "a toy",
        "level": "sentence",
        "languages": ("en",),
        "metric": "spearman",
        "parser": "sts",
        "files": files,
        "licence": "CC0",
        "licence_url": "https://example.org/cc0",
        "redistributable": True,
        "citation": "@misc{toy}",
        "homepage": "https://example.org",
        "version": 1,
    }
    return Card(**(values | changes))


def unverified_file(path: str, url: str, **more: Any) -> DataFile:
    """A file at an address, of which neither checksum nor size is known."""
    return DataFile(path, "", None, sources=(UrlSource(url),), unverified=True, **more)


def corpus_card(*files: DataFile) -> Card:
    """The card ``toy`` of some files as a corpus."""
    return make_card(*files, kind="corpus", metric="", parser="lines")
