"""Which data set of the Hugging Face hub a task was scored on, if it was one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mirrorbench.data.cards import COMMIT, Card, DataFile, DatasetSource, HuggingFaceSource

_REPO = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
# A file of the hub, as converted copies are named in a result.
_FILE = re.compile(rf"hf:(?P<repo>{_REPO})@(?P<revision>{COMMIT})/.+", re.ASCII)
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
        >>> commit = "0123456789" * 4
        >>> hub_data({f"hf:owner/pairs@{commit}/test.csv": "unverified:ab"}).repo
        'owner/pairs'
        >>> hub_data({"my_pairs.csv": "ab"}) is None
        True
    """
    files_of_card = {file.path: file for file in card.files} if card else {}
    origins = {_origin(name, checksum, files_of_card.get(name)) for name, checksum in files.items()}
    if len(origins) != 1:
        return None
    return origins.pop()


def _origin(name: str, checksum: str, file: DataFile | None) -> HubData | None:
    """Return the data set of the hub that holds a file of a result; ``None`` if there is none."""
    match = _FILE.fullmatch(name)
    if match:
        return HubData(match["repo"], match["revision"])
    match = _SPLIT.fullmatch(name)
    if match and re.fullmatch(COMMIT, checksum):
        between = name.removeprefix(f"hf:{match['repo']}/").split("/")[:-1]
        config = between[-1] if between else ""
        return HubData(match["repo"], checksum, config, match["split"])
    if file is None:
        return None
    for source in file.sources:
        if isinstance(source, DatasetSource):
            return HubData(source.repo, source.revision, source.config, source.split)
        # Without a checksum the file may come from another of its sources.
        if isinstance(source, HuggingFaceSource) and not file.unverified:
            return HubData(source.repo, source.revision, split=file.split)
    return None
