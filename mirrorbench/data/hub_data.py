"""Which split of a data set of the Hugging Face hub a task was scored on, if it was one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirrorbench.data.cards import COMMIT, Card, DataFile, DatasetSource, HuggingFaceSource

_REPO = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
# A split without its commit, as tasks of other libraries name their data; the checksum is then the commit.
_SPLIT = re.compile(rf"hf:(?P<repo>{_REPO})/(?:.+/)?(?P<split>[^/]+)", re.ASCII)


def hub_split(files: Mapping[str, str], card: Card | None = None) -> DatasetSource | None:
    """Return the split on the hub that holds all files of a result; ``None`` if there is none.

    Its configuration is empty if the data set has one only; configuration and split are empty where they are unknown.

    Args:
        files: checksums by the name of the file, the key ``files`` of ``Result.data``.
        card: the card of the task, if it has one.

    Example:
        >>> hub_split({"hf:owner/pairs/test": "0123456789" * 4}).repo
        'owner/pairs'
        >>> hub_split({"my_pairs.csv": "ab"}) is None
        True
    """
    origins = {_origin(name, checksum, card) for name, checksum in files.items()}
    if len(origins) != 1:
        return None
    return origins.pop()


def _origin(name: str, checksum: str, card: Card | None) -> DatasetSource | None:
    """Return the split on the hub that holds a file of a result; ``None`` if there is none."""
    match = _SPLIT.fullmatch(name)
    if match and re.fullmatch(COMMIT, checksum):
        # MTEB names configuration and subset; either is "default" if there is one only.
        between = name.removeprefix(f"hf:{match['repo']}/").split("/")[:-1]
        named = [part for part in between if part != "default"]
        config = named[-1] if named else ""
        return DatasetSource(match["repo"], checksum, config, match["split"])
    if card is None:
        return None
    copy = card.converted
    if copy and name == copy.identity:
        return DatasetSource(copy.repo, copy.revision, copy.config, copy.split)
    for file in card.files:
        if file.path == name:
            return _origin_of_file(file)
    return None


def _origin_of_file(file: DataFile) -> DatasetSource | None:
    """Return the split on the hub that holds an original file of a card; ``None`` if there is none."""
    for source in file.sources:
        if isinstance(source, DatasetSource):
            return source
        # Without a checksum the file may come from another of its sources.
        if isinstance(source, HuggingFaceSource) and not file.unverified:
            return DatasetSource(source.repo, source.revision, config="", split=file.split)
    return None
