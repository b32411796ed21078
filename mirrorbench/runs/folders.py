"""The folders of a run: results, data, cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.runs.settings import Settings
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.results import ResultStore


@dataclass(frozen=True)
class Folders:
    """Where a run stores results, finds data, and keeps what can be made again.

    Attributes:
        results: stored results.
        data: verified data files.
        cache: tuned models, vectors, and what trials of models showed.
    """

    results: ResultStore
    data: DataStore
    cache: Cache

    @classmethod
    def of(cls, settings: Settings, plugins: Plugins) -> Folders:
        """Return the folders that settings name; those that they leave out are the user's own."""
        return cls(
            ResultStore(Path(settings.results)),
            DataStore(_named(settings.data_dir), settings.offline, plugins.parsers),
            Cache(_named(settings.cache)),
        )

    @property
    def offline(self) -> bool:
        """Whether data and models that are missing must not be fetched."""
        return self.data.offline


def _named(folder: str | Path | None) -> Path | None:
    return Path(folder) if folder else None
