"""Names that ``mirrorbench.plugin`` exported once, which are forwarded until version 0.3.

Each names what to use instead. Where that is code of one's own, the name was a detail of mirrorbench, which may change
without notice in the module that still has it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple


class DeprecatedName(NamedTuple):
    """A name that is forwarded."""

    module: str
    """The module that has it."""
    replacement: str
    """What to use instead, after the word "use"."""


_TYPER = "typer's own options and functions"
_RICH = "rich's own functions, or say for a line of text"
_TORCH = "torch's own functions"
_HASHLIB = "hashlib"
_OWN_FILES = "code of your own that reads and writes files"
_OWN_READER = "Columns or read_lines, or a reader of your own"
_OWN_BATCHES = "Transformer.forward on batches of your own"
_SCORES = "a metric of your own, or scikit-learn's"
_FORMATS = "row.scores and column.title of the Table, and formatting of your own"
_COMPARE = "mirrorbench.compare"
_LEADERBOARD = "mirrorbench.leaderboard, whose result has the table"
_RESULTS = "read_results"
_PLAN = "make_plan and execute_plan"

_GROUPS: tuple[tuple[str, str, str], ...] = (
    # module, names, what to use instead
    ("cli.completion", "complete", _TYPER),
    (
        "cli.display",
        "EvalPrecision Format Json Notes Output Precision Protocol Quiet encoders_option on_interrupt_go_on tasks_option",
        _TYPER,
    ),
    (
        "cli.display",
        "chosen_format console print_json print_or_write print_rows print_table",
        _RICH,
    ),
    ("cli.progress", "progress_display", "Session(reporter=...) with a Reporter of your own"),
    (
        "core.devices",
        "autocast describe device_type fetched gpu_count on_gpu out_of_memory own_weights pick_device",
        _TORCH,
    ),
    ("core.encoder_protocol", "Array", "numpy.typing.NDArray[numpy.float32]"),
    ("core.encoder_protocol", "as_inputs", "[TextInput(text) for text in texts]"),
    (
        "core.encoder_protocol",
        "encode_checked",
        "encoder.encode; mirrorbench checks what it returns",
    ),
    ("core.errors", "without_credentials", "messages without addresses"),
    (
        "core.identity",
        "COMPUTATION",
        "result.is_current; the number itself is in docs/computations.md",
    ),
    ("core.identity", "DESCRIPTION", "describe_model"),
    ("core.identity", "__version__", "mirrorbench.__version__"),
    ("core.identity", "checksum digest", _HASHLIB),
    ("core.plugins", "call", "the registered function itself"),
    ("core.quoting", "shown without_texts", "messages that name a line or an id, not its text"),
    ("core.schema", "convert problem_at read read_yaml", "msgspec or PyYAML"),
    ("core.specs", "Specs", "str | EncoderSpec | Sequence[str | EncoderSpec]"),
    ("core.specs", "as_specs parse_params parse_value", "parse_spec"),
    ("core.vectors", "DECIMALS rounded unit", "numpy, or cosine for similarities"),
    ("data.archives", "MEMBER_LIMIT open_archive", "zipfile or tarfile"),
    ("data.card_files", "builtin_cards", "corpus_cards, or Session().plugins"),
    ("data.card_files", "builtin_suites", "expand_tasks"),
    ("data.card_files", "load_cards", "register(path) in register_tasks or register_corpora"),
    ("data.cards", "only_file text_option whole_number", "checks of your own in the parser"),
    (
        "data.corpora",
        "Contamination Corpus SIZE normalised read_corpus",
        "GeneratedCorpus to make a corpus, and result.overlap for shared texts",
    ),
    (
        "data.parsers.datasets.contexts",
        "RELEASED STATEMENTS WORDPUNCT",
        "constants of your own",
    ),
    ("data.readers.columns", "line_error", "DataFormatError with file and line"),
    ("data.readers.dataset_tables", "TableRow by_name json_rows", _OWN_READER),
    ("data.readers.files", "read_bytes", _OWN_READER),
    ("data.readers.json_lines", "parse_json", "json.loads on the lines of read_lines"),
    ("data.readers.marks", "unmark", "the parser option marks, or TextInput with spans"),
    ("data.readers.parquet", "pyarrow", "the package pyarrow"),
    ("data.readers.rows", "format_of read_rows", _OWN_READER),
    ("data.readers.text", "decoded stream_lines", "read_lines"),
    ("data.readers.values", "Ids parse_number", "float, and TaskKind.check_ids"),
    ("models.backbones", "BACKBONES locate with_its_base", "describe_model"),
    (
        "models.batching",
        "PASS_COST TOKEN_BUDGET similar_length_batches within_memory",
        _OWN_BATCHES,
    ),
    (
        "models.encoder_systems",
        "LazyEncoder",
        "an encoder that opens its model at the first encode",
    ),
    ("models.encoder_systems", "checked_params", "keys= of register_encoders"),
    ("models.families", "not_telling_apart unreadable", "ModelUnavailableError"),
    ("models.fingerprints", "fingerprint unchanged_backbone", f"{_HASHLIB} over the model's files"),
    ("models.model_files", "modules", "describe_model, and modules.json in its folder"),
    (
        "models.opening",
        "read_sentence_transformer read_tokenizer",
        "sentence_transformers and transformers",
    ),
    (
        "models.pooling",
        "DEFAULT_MAX_LENGTH PoolingEncoder TEXT template",
        "register_poolings, and pool on the tokens of Transformer",
    ),
    ("models.transformer", "load_transformer", "mirrorbench.load"),
    (
        "models.transformer_encoder",
        "TEXTS_PER_CHUNK TransformerEncoder one_behind",
        "mirrorbench.load",
    ),
    ("reports.comparable", "Stored newest without_repeats", _LEADERBOARD),
    (
        "reports.leaderboard",
        "Leaderboard mean_over_seeds provenance row_label",
        _LEADERBOARD,
    ),
    ("reports.renderers", "escape_latex latex number", _FORMATS),
    ("reports.renderers.notes", "note_lines", "table.notes"),
    ("reports.renderers.numbers", "MISSING TIED metric_words p_words with_deviation", _FORMATS),
    ("reports.renderers.tex", "breakable ended latex_heading", _FORMATS),
    ("reports.renderers.text", "escape_markdown", _FORMATS),
    ("reports.renderers.titles", "title_of", _FORMATS),
    ("reports.statistics.comparisons", "Comparison Comparisons", _COMPARE),
    ("reports.statistics.estimates", "holm", "statsmodels.stats.multitest.multipletests"),
    ("reports.statistics.influence", "influence", _COMPARE),
    ("reports.statistics.items", "ItemScores item_scores", _COMPARE),
    ("reports.table", "DIGITS TaskSource to_object", "the fields of Table"),
    ("runs.cells", "Cell", "the cells of a CellGroup"),
    ("runs.environment", "describe_environment", "result.environment"),
    ("runs.environment", "package_version", "importlib.metadata.version"),
    ("runs.executors", "NoteReporter", "job.reporter.note with the notes of a GroupOutcome"),
    ("runs.executors", "RETRIES", "job.retries"),
    ("runs.executors", "runner_of", "compute"),
    ("runs.executors", "worker_devices", "worker_device"),
    ("runs.outcomes", "Failure", "failed to make them, and outcome.failures to read them"),
    ("runs.plan", "merged", "make_plan with several requests"),
    ("runs.recipe_resolution", "check_spec", "make_plan, which checks the specs of a request"),
    ("runs.registry", "plugins", "Session().plugins"),
    ("session", "Session", "mirrorbench.Session"),
    ("storage.cache", "CACHE_FOLDERS Cache STATEMENT", "workspace.cache"),
    ("storage.checksums", "ABOUT content kept_checksum kept_folder unchanged", _HASHLIB),
    ("storage.files", "TEMPORARY cache_root unwritable writing", _OWN_FILES),
    ("storage.leases", "Leases POLL_SECONDS", _OWN_FILES),
    ("storage.results", "hidden_id read_predictions read_result result_files", _RESULTS),
    ("tasks.base", "TaskInfo", "the keyword arguments of TaskKind"),
    ("tasks.base", "score_task", "task.score"),
    ("tasks.metrics", "accuracy_at auc mean_reciprocal_rank roc_points spearman", _SCORES),
    ("tasks.thresholds", "exact_threshold", _SCORES),
    ("training.held_out", "directions log_isotropy log_sums", "result.held_out"),
    ("training.methods", "base_preset", "a preset of your own that returns a Recipe"),
    ("workspace_classes", "EncoderLoader", "load_encoder"),
    ("workspace_classes", "Planner Runner", _PLAN),
)


def _deprecated_names() -> Iterator[tuple[str, DeprecatedName]]:
    for module, names, replacement in _GROUPS:
        for name in names.split():
            yield name, DeprecatedName(f"mirrorbench.{module}", replacement)


DEPRECATED_NAMES = dict(_deprecated_names())
"""The forwarded names of ``mirrorbench.plugin``, with where they are and what replaces them."""


def forward(name: str) -> Any:
    """Return what a deprecated name of ``mirrorbench.plugin`` stands for, with a ``DeprecationWarning``.

    Raises:
        AttributeError: ``mirrorbench.plugin`` never had the name.
    """
    if name not in DEPRECATED_NAMES:
        raise AttributeError(f"module 'mirrorbench.plugin' has no attribute {name!r}")
    module, replacement = DEPRECATED_NAMES[name]
    warnings.warn(
        f"mirrorbench.plugin.{name} will be removed in 0.3; use {replacement}",
        DeprecationWarning,
        # The caller of mirrorbench.plugin's __getattr__, which calls this.
        stacklevel=3,
    )
    return getattr(import_module(module), name)
