"""The rows of a table that a request stands for, with the levels of the tasks on which each is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.readers.line_parts import pairs_of
from mirrorbench.runs.backbone_files import BackboneFiles
from mirrorbench.runs.ladder import expand_ladder, untuned_row, with_baselines, with_pairs
from mirrorbench.runs.requests import Request
from mirrorbench.runs.tuning_corpora import TuningCorpora
from mirrorbench.tasks.base import Task


@dataclass(frozen=True)
class RequestedRows:
    """The encoders of a request, with ladders expanded.

    Attributes:
        request: the encoders and settings of the run.
        tasks: the tasks of the request.
        plugins: with encoders and methods.
        files: files of backbones.
        corpora: the corpora of the plan; a ladder tunes on pairs if the request's corpus holds them.
    """

    request: Request
    tasks: Sequence[Task]
    plugins: Plugins
    files: BackboneFiles
    corpora: TuningCorpora

    def levels(self) -> dict[EncoderSpec, set[str]]:
        """Return the rows in the order of the table, each with the levels of its tasks.

        Raises:
            UsageError: wrong names or keys, or baselines without a bare backbone.
        """
        rows: dict[EncoderSpec, set[str]] = {}
        has_baselines = False
        for spec in self.request.encoders:
            for level in self._levels_of_tasks():
                ladder = self._ladders[spec, level]
                # Only a bare backbone has several rows. With a transformation it gets no further ones.
                is_bare = len(ladder) > 1 and spec.get("post") is None
                if self.request.baselines and is_bare:
                    dimensions = self.files.dimensions(spec)
                    ladder = with_baselines(spec, ladder, level, self.plugins, dimensions)
                    has_baselines = True
                for row in ladder:
                    rows.setdefault(row, set()).add(level)
        if self.request.baselines and not has_baselines:
            raise UsageError(
                "baselines are added only to a bare backbone, and none is among the encoders",
                "Name one without method, pooling and post, such as tiny, or no --baselines.",
            )
        return rows

    def names(self) -> dict[EncoderSpec, str]:
        """Return the user's names of the encoders that are a single row."""
        names: dict[EncoderSpec, str] = {}
        for spec in self.request.encoders:
            name = self.request.names.get(spec)
            rows: set[EncoderSpec] = set()
            for level in self._levels_of_tasks():
                rows.update(self._ladders[spec, level])
            if len(rows) == 1 and name:
                names[rows.pop()] = name
        return names

    @cached_property
    def _ladders(self) -> dict[tuple[EncoderSpec, str], tuple[EncoderSpec, ...]]:
        """The rows of each encoder on tasks of each level, without baselines."""
        ladders = {}
        for spec in self.request.encoders:
            for level in self._levels_of_tasks():
                ladders[spec, level] = self._ladder(spec, level)
        return ladders

    def _levels_of_tasks(self) -> list[str]:
        return list(dict.fromkeys(task.level for task in self.tasks))

    def _ladder(self, spec: EncoderSpec, level: str) -> tuple[EncoderSpec, ...]:
        """Return an encoder's ladder without baselines, or its untuned row if all tasks are the user's own data."""
        request = self.request
        if spec in request.objects:
            return (spec,)
        if not request.baselines and all(task.untuned for task in self.tasks):
            return (untuned_row(spec, self.plugins, self.files),)
        ladder = expand_ladder(spec, level, self.plugins, request.protocol, self.files)
        if len(ladder) > 1 and request.corpus and self._holds_pairs(spec):
            return with_pairs(ladder, self.plugins)
        return ladder

    def _holds_pairs(self, spec: EncoderSpec) -> bool:
        """Return whether the request's corpus holds pairs; false if it cannot be read.

        Raises:
            UsageError: the corpus is named wrongly.
        """
        try:
            ref = self.corpora.read(spec, self.request.corpus)
            corpus = self.corpora.by_ref[ref]
            return bool(pairs_of(corpus.texts, corpus.name))
        except UsageError:
            raise
        except Exception:  # reported where the rows are planned
            return False
