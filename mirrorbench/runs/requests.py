"""What a user requests: encoders, tasks and settings of a run, and the texts that an encoder is for."""

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
    """The encoders, tasks and settings of a block of results: each encoder on each task.

    A grid or an analysis makes one request, or several with other settings, and passes them to ``make_plan``. A request
    alone looks nothing up and computes nothing.

    Attributes:
        encoders: specs (``parse_spec``); a bare backbone (``bert``) becomes the papers' rows, untuned and tuned.
        tasks: task names in the order of the columns, without suites (``expand_tasks``).
        seeds: seeds of tuned encoders (default ``(0,)``); an untuned encoder is computed once.
        corpus: name or path of the texts for all tunings, or a ``GeneratedCorpus``; empty (the default) for the corpus
            of each task. A corpus in an encoder's spec comes first.
        protocol: ``paper`` (default) or ``released``.
        precision: precision of the tuning: ``fp32``, ``bf16``, ``fp16``, or ``auto`` (the default) for the session's.
        eval_precision: precision of the encoding, likewise.
        baselines: whether a bare backbone gets further rows that need no labels: transformed or static vectors, other
            methods (default false).
        limit: number of items of each task that are scored, the first ones; 0 (default) for all.
        optional: encoders that may be left out on tasks for which they cannot be planned (default none).
        objects: encoders given as objects, by their specs in ``encoders`` (default none).
        names: the user's names of encoders, which tables show, by their specs in ``encoders`` (default none).

    Raises:
        UsageError: there is no encoder or no seed, or the protocol is unknown.

    Example:
        >>> from mirrorbench.plugin import Request, parse_spec
        >>> specs = [f"tiny+base:pooling=mean,layers={layer}" for layer in (0, 1, 2)]
        >>> encoders = tuple(parse_spec(spec) for spec in specs)
        >>> request = Request(encoders, ("quick-sts", "quick-simlex"), limit=20)
        >>> len(request.encoders) * len(request.tasks) * len(request.seeds)
        6
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
    """Those of ``encoders`` that are left out, with a note, on tasks for which they cannot be planned. Any other that
    is wrong is a ``UsageError`` of ``make_plan``."""
    objects: Mapping[EncoderSpec, Encoder] = field(default_factory=dict)
    """Encoders that the caller passed as objects, by their specs in ``encoders``, which are then only names."""
    names: Mapping[EncoderSpec, str] = field(default_factory=dict)
    """The user's names of encoders, such as ``./my-encoder``, by their specs in ``encoders``; they are not used for the
    rows of a ladder."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown_name("protocol", self.protocol, list(PROTOCOLS))
        if not self.encoders or not self.seeds:
            raise UsageError("a run needs at least one encoder and one seed")

    def may_lack(self, row: EncoderSpec) -> bool:
        """Return whether a row may be left out of the table: an optional one, or a baseline not named by the user."""
        return row in self.optional or (self.baselines and row not in self.encoders)

    def precision_of(self, work: str, precisions: Mapping[str, str]) -> str:
        """Return the precision of ``tuning`` or ``encoding``; ``precisions`` are those of the run."""
        precision = self.precision if work == "tuning" else self.eval_precision
        if precision == "auto":
            return precisions[work]
        return precision


@dataclass(frozen=True)
class Purpose:
    """The texts that an encoder is for.

    Attributes:
        level: the level, which determines the recipe.
        languages: the languages of the texts. The first determines the backbone, all of them the default corpus.
        corpus: the corpus to tune on: that of the task, or own texts; empty for that of the level and languages.
        max_length: number of tokens that the task reads; 0 for the default, ``STATED`` (as for the user's own texts)
            for as many as the model's files state.
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
        """Return the first language, whose backbone reads all texts; or all, if others have their own backbones."""
        backbone = BACKBONES.get(spec.backbone)
        if backbone is None:
            return self.languages[:1]
        if any(language in backbone.by_language for language in self.languages[1:]):
            return self.languages
        return self.languages[:1]
