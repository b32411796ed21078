"""Plain values between planning and running: cells, and references to their models and corpora."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.traits import AS_BERT, ModelTraits
from mirrorbench.models.transformations import Transformation
from mirrorbench.training.recipes import Recipe


@dataclass(frozen=True, slots=True)
class CorpusRef:
    """A reference to the strings that a model is tuned on, or a transformation is fitted on."""

    name: str
    """Name or path of the corpus, as given."""
    size: int
    """Number of strings that are kept, the first ones; 0 for all."""
    sha256: str
    """Checksum of the strings that are kept."""
    n: int
    """Number of strings in ``sha256``."""
    parts: bool = False
    """Whether strings have parts (``data.readers.line_parts``), each of which counts for contamination."""
    held_out: str = ""
    """Checksum of the held-out strings on which the tuning is monitored; empty if there are none."""


@dataclass(frozen=True, slots=True)
class PostRef:
    """A reference to a transformation of a model's vectors, and to the corpus that it is fitted on."""

    transformation: Transformation
    corpus: CorpusRef | None = None
    """``None`` for a transformation that is stored with the model, or needs no corpus."""
    stored: Path | None = None
    """The file of a transformation that is stored with the model."""
    checksum: str = ""
    """Checksum of ``stored``."""

    def identity(self) -> list[Any]:
        """Return the settings that determine the transformation, beside the encoder and its readout."""
        content = self.corpus.sha256 if self.corpus else self.checksum
        settings = [self.transformation.name, self.transformation.number, content]
        if self.transformation.type:
            settings.append(self.transformation.type)
        return settings


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A reference to the model of a group of cells: a backbone, perhaps tuned, or an encoder system."""

    spec: EncoderSpec
    fingerprint: str
    """Checksum of the backbone's files, or the system's own fingerprint."""
    path: Path | None = None
    """The backbone's directory, ``None`` for an encoder system."""
    method: str = ""
    """``base``, ``mirror`` ...; empty for an encoder system."""
    recipe: Recipe | None = None
    """The recipe of its tuning; ``None`` if nothing is tuned."""
    corpus: CorpusRef | None = None
    """The corpus that it is tuned on; ``None`` if nothing is tuned."""
    seed: int = 0
    protocol: str = "paper"
    precision: str = ""
    """The precision of its tuning."""
    deterministic: bool = False
    """Whether its tuning is restricted to deterministic algorithms; false on a CPU, where all are deterministic."""
    attention: str = ""
    """``bidirectional`` for a causal model that reads in both directions; the recipe of a tuned model says so too."""
    traits: ModelTraits = AS_BERT
    """Measured properties of its backbone (``models.traits``)."""
    members: tuple[tuple[str, ModelRef], ...] = ()
    """The model of each language, for a task whose languages have their own backbones."""
    plugin_checksum: str = ""
    """Checksum of the plugin files that registered parts of the model; empty if there are none."""
    posts: tuple[tuple[str, PostRef], ...] = ()
    """Transformations of its vectors by language; ``""`` stands for all languages. They are not part of ``identity``:
    rows that differ in nothing else share the model and its vectors."""

    def identity(self) -> dict[str, Any]:
        """Return the settings that determine the weights.

        Some keys are there only where they apply, so that models stored before these keys existed keep their identity.
        """
        # A model for each language.
        if self.members:
            return {"languages": {language: member.identity() for language, member in self.members}}
        # An encoder system. Systems with the same fingerprint must not share vectors and results, so the name counts.
        if not self.method:
            system = {"system": self.spec.backbone, "fingerprint": self.fingerprint}
            return {**system, **self._plugin_files}
        identity: dict[str, Any] = {"backbone": self.fingerprint, **self._plugin_files}
        # Padding would change its vectors, so that only texts of equal length are read together.
        if self.traits.pads:
            identity["equal_lengths"] = True
        # A backbone that is not tuned. The attention of a tuned one is in its recipe.
        if self.recipe is None or self.corpus is None:
            if self.attention:
                identity["attention"] = self.attention
            return identity
        # A tuned backbone.
        identity |= {
            "method": self.method,
            "recipe": self.recipe.to_json(),
            "corpus": self.corpus.sha256,
            "seed": self.seed,
            "protocol": self.protocol,
            "precision": self.precision,
            "computation": COMPUTATION,
        }
        if self.deterministic:
            identity["deterministic"] = True
        # Held-out strings choose the weights only under ``stop=auto``; otherwise they are only measured.
        if self.corpus.held_out and self.recipe.stop == "auto":
            identity["held_out"] = self.corpus.held_out
        return identity

    @property
    def _plugin_files(self) -> dict[str, str]:
        return {"plugin_files": self.plugin_checksum} if self.plugin_checksum else {}

    @property
    def weights_fingerprint(self) -> str:
        """The fingerprint combined with the checksum of plugin files; it differs between versions of a model."""
        if not self.plugin_checksum:
            return self.fingerprint
        return digest({"weights": self.fingerprint, **self._plugin_files})

    @property
    def key(self) -> str:
        """Hash of ``identity``: the name of the tuned model in the cache."""
        return digest(self.identity())

    def with_members(self) -> tuple[ModelRef, ...]:
        """Return the reference itself, then those of its languages' models."""
        return (self, *dict(self.members).values())

    @property
    def corpora(self) -> tuple[CorpusRef, ...]:
        """Corpora of all its tunings and transformations, each once."""
        refs = [model.corpus for model in self.with_members()]
        refs += [post.corpus for _, post in self.posts]
        return tuple(dict.fromkeys(ref for ref in refs if ref))


@dataclass(frozen=True, slots=True)
class Cell:
    """One encoder on one task under one seed."""

    spec: EncoderSpec
    """The row of the table, after ladders are expanded."""
    task: str
    level: str
    seed: int
    model: ModelRef
    pooling: Pooling | None
    """The readout of its vectors; ``None`` for an encoder system."""
    precision: str
    """The precision of the encoding."""
    protocol: str
    data: tuple[tuple[str, str], ...]
    """Checksums of the task's files by name."""
    task_version: int
    limit: int = 0
    """Number of items of the task that are scored, the first ones; 0 for all."""
    name: str = ""
    """The user's name of the encoder, not part of ``identity``; empty for rows with the papers' names."""

    def identity(self) -> dict[str, Any]:
        """Return the settings that determine the cell's scores.

        Some keys are there only where they apply, so that results stored before these keys existed are found.
        """
        readout = self.pooling.identity if self.pooling else None
        identity = {
            "weights": self.model.identity(),
            "readout": readout,
            "precision": self.precision,
            "task": self.task,
            "task_version": self.task_version,
            "data": dict(self.data),
            "protocol": self.protocol,
            "seed": self.seed,
            "computation": COMPUTATION,
        }
        if self.model.posts:
            identity["post"] = self._post_identities()
        if self.limit:
            identity["limit"] = self.limit
        if any(corpus.parts for corpus in self.model.corpora):
            # The overlap of results stored before parts were counted is wrong; this key keeps them from being found.
            identity["overlap"] = "parts"
        return identity

    def _post_identities(self) -> dict[str, Any]:
        return {language: post.identity() for language, post in self.model.posts}

    @property
    def id(self) -> str:
        """Hash of ``identity``: names the result, which is never computed twice."""
        return digest(self.identity())

    def to_json(self) -> dict[str, Any]:
        """Return the ``cell`` object of a result file."""
        recipe = None
        if self.model.recipe:
            recipe = self.model.recipe.to_json()
        corpus = None
        corpora = self.model.corpora
        if corpora:
            # The first is that of the tuning, else of the transformation; for several languages, of the first one.
            first = corpora[0]
            corpus = {"name": first.name, "sha256": first.sha256, "n": first.n}
        precision = {"tuning": self.model.precision or None, "encoding": self.precision}
        cell = {
            "spec": str(self.spec),
            "method": self.model.method,
            "recipe": recipe,
            "corpus": corpus,
            "seed": self.seed,
            "task": self.task,
            "level": self.level,
            "protocol": self.protocol,
            "precision": precision,
            "computation": COMPUTATION,
        }
        if self.model.posts:
            cell["post"] = self._post_identities()
        if self.name:
            cell["name"] = self.name
        return cell


CellGroup = tuple[Cell, ...]
"""Cells that share their model, in a tuple; a worker computes one group at a time. Never empty in ``Job.groups``.

A cell is one encoder on one task under one seed. mirrorbench makes cells; an executor passes a group to
``compute(job.context, cells)``, or to ``failed(cells, error)``, and has no need to look inside. Groups and cells can be
pickled. For messages, a cell has ``spec`` (``EncoderSpec``), ``task`` (the name), ``level``, ``seed``, ``protocol``,
``limit`` (number of items; 0 for all) and ``id`` (a text of 64 characters that identifies the result).

Example:
    >>> from mirrorbench import Session
    >>> from mirrorbench.plugin import CellGroup, Request, make_plan, parse_spec
    >>> def described(cells: CellGroup) -> str:
    ...     return f"{cells[0].spec} on {', '.join(cell.task for cell in cells)}"
    >>> workspace = Session("results", device="cpu").workspace
    >>> request = Request((parse_spec("tiny+base:pooling=mean"),), ("quick-sts", "quick-simlex"))
    >>> [described(tuple(cells)) for cells in make_plan(workspace, request).groups.values()]
    ['tiny+base:pooling=mean on quick-sts, quick-simlex']
"""
