"""Which data set of the Hugging Face hub a task was scored on, if it was one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mirrorbench.data.cards import COMMIT, Card, DataFile, DatasetSource, HuggingFaceSource

_REPO = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
# A split without its commit, as tasks of other libraries name their data; the checksum is then the commit.
_SPLIT = re.compile(rf"hf:(?P<repo>{_REPO})/(?:.+/)?(?P<split>[^/]+)", re.ASCII)


@dataclass(frozen=True)
class HubData:
    """A data set of the hub at a commit.

    Attributes:
        repo: its id, ``owner/name``.
        revision: the commit, 40 hexadecimal digits.
        config: its configuration (also called subset); empty if it has one only, or if unknown.
        split: the split that is scored; empty if unknown.
    """

    repo: str
    revision: str
    config: str = ""
    split: str = ""


def hub_data(files: Mapping[str, str], card: Card | None = None) -> HubData | None:
    """Return the data set of the hub that holds all files of a result; ``None`` if there is none.

    Args:
        files: checksums by the name of the file, the key ``files`` of ``Result.data``.
        card: the card of the task, if it has one.

    Example:
        >>> hub_data({"hf:owner/pairs/test": "0123456789" * 4}).repo
        'owner/pairs'
        >>> hub_data({"my_pairs.csv": "ab"}) is None
        True
    """
    origins = {_origin(name, checksum, card) for name, checksum in files.items()}
    if len(origins) != 1:
        return None
    return origins.pop()


def _origin(name: str, checksum: str, card: Card | None) -> HubData | None:
    """Return the data set of the hub that holds a file of a result; ``None`` if there is none."""
    match = _SPLIT.fullmatch(name)
    if match and re.fullmatch(COMMIT, checksum):
        # MTEB names configuration and subset; either is "default" if there is one only.
        between = name.removeprefix(f"hf:{match['repo']}/").split("/")[:-1]
        named = [part for part in between if part != "default"]
        config = named[-1] if named else ""
        return HubData(match["repo"], checksum, config, match["split"])
    if card is None:
        return None
    copy = card.converted
    if copy and name == copy.identity:
        return HubData(copy.repo, copy.revision, copy.config, copy.split)
    for file in card.files:
        if file.path == name:
            return _origin_of_file(file)
    return None


def _origin_of_file(file: DataFile) -> HubData | None:
    """Return the data set of the hub that holds an original file of a card; ``None`` if there is none."""
    for source in file.sources:
        if isinstance(source, DatasetSource):
            return HubData(source.repo, source.revision, source.config, source.split)
        # Without a checksum the file may come from another of its sources.
        if isinstance(source, HuggingFaceSource) and not file.unverified:
            return HubData(source.repo, source.revision, split=file.split)
    return None
