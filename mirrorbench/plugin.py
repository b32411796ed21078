"""The names that a plugin may import; each is loaded from its module when it is first used.

``docs/plugins.md`` lists the names. One is added when a plugin needs it.
"""

# ruff: noqa: F401, I001
from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirrorbench.cli.completion import complete
    from mirrorbench.cli.display import (
        DataDir,
        Device,
        EvalPrecision,
        Format,
        Json,
        Notes,
        Offline,
        Output,
        PluginFiles,
        Precision,
        Protocol,
        Quiet,
        chosen_format,
        console,
        encoders_option,
        on_interrupt_go_on,
        print_json,
        print_or_write,
        print_rows,
        print_table,
        say,
        tasks_option,
    )
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.storage.checksums import ABOUT, content, kept_checksum, kept_folder, unchanged
    from mirrorbench.core.devices import (
        autocast,
        describe,
        fetched,
        gpu_count,
        device_type,
        moved,
        on_gpu,
        out_of_memory,
        own_weights,
        pick_device,
    )
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
        without_credentials,
    )
    from mirrorbench.storage.leases import POLL_SECONDS, Leases
    from mirrorbench.storage.files import TEMPORARY, cache_root, unwritable, writing
    from mirrorbench.core.hooks import Register, hookimpl
    from mirrorbench.core.identity import COMPUTATION, __version__, checksum, digest
    from mirrorbench.core.encoder_protocol import (
        Array,
        Encoder,
        TextInput,
        as_inputs,
        encode_checked,
    )
    from mirrorbench.core.vectors import DECIMALS, rounded, unit
    from mirrorbench.core.plugins import Plugins, call
    from mirrorbench.core.schema import convert, problem_at, read, read_yaml
    from mirrorbench.core.quoting import shown, without_texts
    from mirrorbench.core.specs import (
        EncoderSpec,
        Specs,
        Value,
        as_specs,
        parse_params,
        parse_spec,
        parse_value,
        split_names,
    )
    from mirrorbench.data.archives import MEMBER_LIMIT, open_archive
    from mirrorbench.data.card_files import builtin_cards, builtin_suites, load_cards
    from mirrorbench.data.cards import Card, only_file, text_option, whole_number
    from mirrorbench.data.corpora import (
        SIZE,
        Contamination,
        Corpus,
        GeneratedCorpus,
        normalised,
        read_corpus,
    )
    from mirrorbench.data.readers.dataset_tables import Columns, TableRow, by_name, json_rows
    from mirrorbench.data.parsers.datasets.contexts import RELEASED, STATEMENTS, WORDPUNCT
    from mirrorbench.data.items import ContextChange, ContextPair, Pair, RatedContexts
    from mirrorbench.data.readers.columns import line_error
    from mirrorbench.data.readers.parquet import pyarrow
    from mirrorbench.data.readers.rows import format_of, read_rows
    from mirrorbench.data.store import DataStore
    from mirrorbench.data.readers.files import read_bytes
    from mirrorbench.data.readers.json_lines import parse_json
    from mirrorbench.data.readers.marks import unmark
    from mirrorbench.data.readers.text import decoded, read_lines, stream_lines
    from mirrorbench.data.readers.values import Ids, parse_number
    from mirrorbench.core.identity import DESCRIPTION
    from mirrorbench.models.backbones import BACKBONES, locate, with_its_base
    from mirrorbench.models.fingerprints import fingerprint, unchanged_backbone
    from mirrorbench.models.batching import (
        PASS_COST,
        TOKEN_BUDGET,
        Ragged,
        similar_length_batches,
        within_memory,
    )
    from mirrorbench.models.model_files import modules
    from mirrorbench.models.transformer_encoder import (
        TEXTS_PER_CHUNK,
        TransformerEncoder,
        one_behind,
    )
    from mirrorbench.models.families import not_telling_apart, unreadable
    from mirrorbench.models.opening import read_sentence_transformer, read_tokenizer
    from mirrorbench.models.pooling import (
        DEFAULT_MAX_LENGTH,
        TEXT,
        Pooling,
        PoolingEncoder,
        template,
    )
    from mirrorbench.models.encoder_systems import EncoderContext, LazyEncoder, checked_params
    from mirrorbench.models.transformer import Transformer, load_transformer
    from mirrorbench.reports.renderers import escape_latex, latex, number
    from mirrorbench.reports.renderers.notes import note_lines
    from mirrorbench.reports.renderers.numbers import (
        MISSING,
        TIED,
        metric_words,
        p_words,
        with_deviation,
    )
    from mirrorbench.reports.renderers.tex import breakable, ended, latex_heading
    from mirrorbench.reports.renderers.text import escape_markdown
    from mirrorbench.reports.renderers.titles import title_of
    from mirrorbench.reports.comparable import Stored, newest, without_repeats
    from mirrorbench.reports.leaderboard import Leaderboard, mean_over_seeds, provenance, row_label
    from mirrorbench.reports.selection import Layout
    from mirrorbench.reports.statistics.comparisons import Comparison, Comparisons
    from mirrorbench.reports.statistics.estimates import holm
    from mirrorbench.reports.statistics.influence import influence
    from mirrorbench.reports.statistics.items import ItemScores, item_scores
    from mirrorbench.reports.table import DIGITS, Column, Row, Score, Table, TaskSource, to_object
    from mirrorbench.storage.cache import CACHE_FOLDERS, STATEMENT, Cache
    from mirrorbench.runs.cells import Cell, CellGroup
    from mirrorbench.runs.executors import (
        RETRIES,
        Job,
        NoteReporter,
        compute,
        interrupts_blocked,
        runner_of,
        worker_devices,
    )
    from mirrorbench.runs.outcomes import CellOutcome, Failure, Outcome, failed
    from mirrorbench.runs.environment import describe_environment, package_version
    from mirrorbench.runs.plan import Plan, merged
    from mirrorbench.storage.results import (
        Result,
        hidden_id,
        read_predictions,
        read_result,
        read_results,
        result_files,
    )
    from mirrorbench.runs.recipe_resolution import check_spec
    from mirrorbench.runs.requests import Request
    from mirrorbench.runs.registry import expand_tasks, plugins
    from mirrorbench.runs.worker_context import WorkerContext
    from mirrorbench.runs.workspace import Workspace
    from mirrorbench.workspace_functions import (
        EncoderLoader,
        Planner,
        Runner,
        execute_plan,
        load_encoder,
        make_plan,
    )
    from mirrorbench.session import Session
    from mirrorbench.tasks.base import Scores, Task, TaskInfo, TaskKind, Vectors, score_task
    from mirrorbench.tasks.metrics import (
        accuracy_at,
        auc,
        cosine,
        mean_reciprocal_rank,
        roc_points,
        spearman,
    )
    from mirrorbench.tasks.thresholds import exact_threshold
    from mirrorbench.tasks.pairs import PairClassification, PairSimilarity
    from mirrorbench.training.augmentations import AugmentationContext
    from mirrorbench.training.held_out import directions, log_isotropy, log_sums
    from mirrorbench.training.methods import Method, base_preset


def _modules_of_names() -> dict[str, str]:
    """Return the module of each name, as the imports above state it."""
    modules: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mirrorbench."):
            modules |= {alias.name: str(node.module) for alias in node.names}
    return modules


MODULES = _modules_of_names()
"""The module of each name."""


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return getattr(import_module(MODULES[name]), name)
    raise AttributeError(f"module 'mirrorbench.plugin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(MODULES)
