"""What is asked for: encoders, tasks and settings of a run, and the texts that an encoder is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorbench.core.encoder_protocol import Encoder
from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.specs import PROTOCOLS, EncoderSpec
from mirrorbench.data.corpora import GeneratedCorpus
from mirrorbench.models.backbones import BACKBONES
from mirrorbench.models.pooling import STATED
from mirrorbench.tasks.base import Task


@dataclass(frozen=True)
class Request:
    """The encoders, tasks and settings that a user asked for.

    Attributes:
        encoders: specs as written; a bare backbone becomes a ladder.
        tasks: task names in the order of the columns, suites expanded.
        seeds: seeds of tuned encoders.
        corpus: name, path or own texts for all tunings, empty for each task's own.
        protocol: ``paper`` or ``released``.
        precision, eval_precision: ``fp32``, ``bf16``, ``fp16``, or ``auto`` for the run's.
        baselines: whether ladders have rows of what else needs no labels: transformed or static vectors, other methods.
        limit: how many items of each task are scored, from the first on; 0 for all.
    """

    encoders: tuple[EncoderSpec, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    corpus: str | GeneratedCorpus = ""
    protocol: str = "paper"
    precision: str = "auto"
    eval_precision: str = "auto"
    baselines: bool = False
    limit: int = 0
    optional: frozenset[EncoderSpec] = frozenset()
    """Encoders that are left out, with a note, on tasks for which they cannot be planned."""
    objects: Mapping[EncoderSpec, Encoder] = field(default_factory=dict)
    """Encoders that the caller passed as objects; their specs are only names."""
    names: Mapping[EncoderSpec, str] = field(default_factory=dict)
    """What the user calls encoders, such as ``./my-encoder``; where one is a ladder, its rows have no such name."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown_name("protocol", self.protocol, list(PROTOCOLS))
        if not self.encoders or not self.seeds:
            raise UsageError("a run needs at least one encoder and one seed")

    def may_lack(self, row: EncoderSpec) -> bool:
        """Return whether a row may be left out of the table: what is optional, and baselines, which nobody wrote."""
        return row in self.optional or (self.baselines and row not in self.encoders)

    def precision_of(self, work: str, precisions: Mapping[str, str]) -> str:
        """Return the precision of ``tuning`` or ``encoding``; ``precisions`` are those of the run."""
        asked = self.precision if work == "tuning" else self.eval_precision
        return precisions[work] if asked == "auto" else asked


@dataclass(frozen=True)
class Purpose:
    """The texts that an encoder is for.

    Attributes:
        level: picks the recipe.
        languages: the first picks the backbone, all of them the corpus.
        corpus: what to tune on: the task's own corpus, or own texts; empty for that of the level and languages.
        max_length: tokens that the task reads; 0 for the default, and ``STATED``, which texts of the user's own have, for
            as many as the model's files state.
    """

    level: str
    languages: tuple[str, ...] = ("en",)
    corpus: str | GeneratedCorpus = ""
    max_length: int = STATED

    @classmethod
    def of(cls, task: Task) -> Purpose:
        """Return the purpose that a task states."""
        return cls(task.level, tuple(task.languages), task.corpus, task.max_length)

    def languages_of_models(self, spec: EncoderSpec) -> tuple[str, ...]:
        """Return the language of the backbone that reads the texts, or of each where they have backbones of their own."""
        known = BACKBONES.get(spec.backbone)
        if known and any(language in known.by_language for language in self.languages[1:]):
            return self.languages
        return self.languages[:1]
