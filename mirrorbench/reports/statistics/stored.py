"""Stored results with their predictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.statistics.items import ItemScores, item_scores, read_predictions
from mirrorbench.runs.results import Result, read_result, result_files

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


@dataclass(frozen=True)
class Stored:
    """A result, and where its file lies."""

    result: Result
    path: Path

    def items(self, plugins: Plugins) -> ItemScores | None:
        """What is behind its main score; ``None`` where that cannot be computed anew from what is stored.

        Raises:
            DataFormatError: there are no predictions beside the result.
        """
        return item_scores(self.result, read_predictions(self.path), plugins)


def read_stored(folders: Iterable[Path]) -> list[Stored]:
    """All results in some folders.

    Raises:
        UsageError: a folder is not there.
        DataFormatError: a file is not a result.
    """
    found = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder of results {folder}", "Make some: mirrorbench run")
        found += [Stored(read_result(path), path) for path in result_files(folder)]
    return found


def results_of(spec: str, stored: Iterable[Stored], protocol: str, folder: Path) -> list[Stored]:
    """The results of one encoder under one protocol (empty: whichever it has).

    Raises:
        UsageError: there are none, or of several protocols.
    """
    name = str(parse_spec(spec))
    known = [entry for entry in stored if protocol in ("", entry.result.protocol)]
    own = [entry for entry in known if entry.result.spec == name]
    if not own:
        raise unknown_name(
            f"encoder among the results in {folder}:", name, sorted({entry.result.spec for entry in known})
        )
    protocols = sorted({entry.result.protocol for entry in own})
    if len(protocols) > 1:
        raise UsageError(f"{name} has results of the protocols {' and '.join(protocols)}", "Choose one with --protocol")
    return own
