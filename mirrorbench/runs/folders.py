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
    """The folders where a run stores results, finds data, and caches what it can compute again.

    Attributes:
        results: stored results.
        data: verified data files.
        cache: tuned models, vectors, and the outcomes of trials of models.
    """

    results: ResultStore
    data: DataStore
    cache: Cache

    @classmethod
    def of(cls, settings: Settings, plugins: Plugins) -> Folders:
        """Return the folders that settings name, and the user's default folders for those that they leave out."""
        results = ResultStore(Path(settings.results))
        data = DataStore(_path(settings.data_dir), settings.offline, plugins.parsers)
        cache = Cache(_path(settings.cache))
        return cls(results, data, cache)

    @property
    def offline(self) -> bool:
        """Whether missing data and models must not be fetched."""
        return self.data.offline


def _path(folder: str | Path | None) -> Path | None:
    return Path(folder) if folder else None
