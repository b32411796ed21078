"""The public interface for plugins: all that a plugin imports, beside the functions of ``mirrorbench`` itself.

``docs/plugins.md`` shows the names in use, and ``help(NAME)`` describes each in full. They are stable, except those of
the groups marked as provisional, which may still change with a note in the changelog. Names that earlier versions
exported are forwarded with a ``DeprecationWarning`` until version 0.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirrorbench.cli.display import DataDir, Device, Offline, PluginFiles, say
from mirrorbench.core.deprecated_names import forward
from mirrorbench.core.devices import moved, worker_device
from mirrorbench.core.encoder_protocol import Encoder, ReferencedEncoder, TextInput
from mirrorbench.core.errors import (
    DataFormatError,
    DataUnavailableError,
    DeviceError,
    EncodingError,
    MirrorbenchError,
    ModelUnavailableError,
    PluginError,
    StorageError,
    TuningError,
    UsageError,
    not_installed,
    unknown_name,
)
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Value, parse_spec, split_names
from mirrorbench.core.truncation import Truncation
from mirrorbench.data.card_files import corpus_cards
from mirrorbench.data.cards import Card
from mirrorbench.data.corpora import GeneratedCorpus
from mirrorbench.data.items import (
    ContextChange,
    ContextPair,
    Disambiguation,
    Lexicon,
    Linking,
    Mention,
    Occurrence,
    Pair,
    RatedContexts,
    SenseContexts,
)
from mirrorbench.data.readers.dataset_tables import Columns
from mirrorbench.data.readers.text import read_lines
from mirrorbench.data.store import DataStore
from mirrorbench.models.encoder_systems import EncoderContext, TextEncoder
from mirrorbench.models.opening import read_weights
from mirrorbench.models.pooling import Pooling, Tokens, pool
from mirrorbench.models.ragged import Ragged
from mirrorbench.reports.selection import Layout
from mirrorbench.reports.table import Column, Row, Score, Table
from mirrorbench.runs.cells import CellGroup
from mirrorbench.runs.executors import GroupOutcome, Job, compute, interrupts_blocked
from mirrorbench.runs.outcomes import CellOutcome, Outcome, Reporter, failed
from mirrorbench.runs.plan import Plan
from mirrorbench.runs.registry import expand_tasks, load_plugins
from mirrorbench.runs.requests import Request
from mirrorbench.runs.worker_context import WorkerContext
from mirrorbench.runs.workspace import Workspace
from mirrorbench.storage.results import Result, read_results
from mirrorbench.tasks.base import Scores, Task, TaskKind, Vectors
from mirrorbench.tasks.lexical import EntityLinking, LexiconInduction, SenseDisambiguation
from mirrorbench.tasks.metrics import cosine
from mirrorbench.tasks.pairs import PairClassification, PairSimilarity
from mirrorbench.tasks.words_in_context import SimilarityChange, UsageSimilarity, WordInContext
from mirrorbench.texts.model_description import ModelDescription, describe_model
from mirrorbench.training.augmentations import AugmentationContext, ModelAugmentation
from mirrorbench.training.losses import Objective, TokenizedPairs, in_batch
from mirrorbench.training.methods import Method, PairMaker, Pairs
from mirrorbench.training.recipes import Recipe
from mirrorbench.workspace_functions import execute_plan, load_encoder, make_plan

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer

# The documentation has a table of these groups.
__all__ = [  # noqa: RUF022
    # Hooks
    "hookimpl",
    "Register",
    "Plugins",
    "load_plugins",
    # Errors
    "MirrorbenchError",
    "UsageError",
    "DataFormatError",
    "DataUnavailableError",
    "ModelUnavailableError",
    "EncodingError",
    "TuningError",
    "DeviceError",
    "PluginError",
    "StorageError",
    "not_installed",
    "unknown_name",
    # Encoders
    "Encoder",
    "ReferencedEncoder",
    "EncoderContext",
    "EncoderSpec",
    "TextInput",
    "Truncation",
    "Value",
    "parse_spec",
    "TextEncoder",
    "ModelDescription",
    "describe_model",
    # Tasks
    "Task",
    "TaskKind",
    "Scores",
    "Vectors",
    "cosine",
    # Kinds of tasks and their items
    "PairSimilarity",
    "PairClassification",
    "Pair",
    "UsageSimilarity",
    "RatedContexts",
    "WordInContext",
    "ContextPair",
    "SimilarityChange",
    "ContextChange",
    "SenseDisambiguation",
    "Disambiguation",
    "Occurrence",
    "SenseContexts",
    "EntityLinking",
    "Linking",
    "Mention",
    "LexiconInduction",
    "Lexicon",
    # Data and corpora
    "Card",
    "Columns",
    "read_lines",
    "DataStore",
    "GeneratedCorpus",
    "corpus_cards",
    # Methods and augmentations
    "Method",
    "Recipe",
    "PairMaker",
    "Pairs",
    "AugmentationContext",
    "ModelAugmentation",
    # Losses and poolings
    "Objective",
    "TokenizedPairs",
    "in_batch",
    "Transformer",
    "Pooling",
    "Tokens",
    "pool",
    "Ragged",
    "moved",
    "read_weights",
    # Tables and results
    "Table",
    "Row",
    "Column",
    "Score",
    "Layout",
    "Result",
    "read_results",
    # Commands
    "say",
    "split_names",
    "DataDir",
    "Device",
    "Offline",
    "PluginFiles",
    # Executors (provisional)
    "Job",
    "CellGroup",
    "CellOutcome",
    "GroupOutcome",
    "WorkerContext",
    "compute",
    "failed",
    "worker_device",
    "interrupts_blocked",
    # Grids and analyses (provisional)
    "Workspace",
    "Reporter",
    "Request",
    "Plan",
    "Outcome",
    "expand_tasks",
    "make_plan",
    "execute_plan",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    if name == "Transformer":
        # Its module imports torch, for which the commands that load a plugin need not wait.
        from mirrorbench.models.transformer import Transformer

        return Transformer
    return forward(name)


def __dir__() -> list[str]:
    return sorted(__all__)
