"""``Session``, the object behind the command line and the functions of ``mirrorbench``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Unpack

from mirrorbench.core.arguments import (
    as_text_list,
    check_count,
    check_folder,
    check_type,
    checks_keywords,
)
from mirrorbench.core.errors import MirrorbenchError, UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import (
    PROTOCOLS,
    EncoderSpec,
    Specs,
    TaskNames,
    as_names,
    as_spec,
    as_texts,
)
from mirrorbench.models.encoder_systems import NamedEncoder, TextEncoder
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.runs.settings import Settings, SettingsFields
from mirrorbench.runs.workspace import Workspace

if TYPE_CHECKING:
    from mirrorbench.core.encoder_protocol import Encoder
    from mirrorbench.data.corpora import Contamination
    from mirrorbench.reports.encoder_comparison import EncoderComparison
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.plan import Plan
    from mirrorbench.texts.encode import EncodedFile
    from mirrorbench.texts.model_card import TunedEncoder


_SETTINGS = tuple(SettingsFields.__annotations__)


class Session:
    """Everything that mirrorbench does, with the settings, plugins and folders of one session.

    Args:
        results: the folder of results.
        plugins: by default the built-in and the installed ones.
        reporter: receives progress; by default none.
        **settings: the other fields of ``mirrorbench.runs.settings.Settings``: ``data_dir``, ``cache``, ``device``, ``precision``,
            ``eval_precision``, ``offline``, ``deterministic``, ``executor``, ``workers``, ``address``.

    Attributes:
        workspace: plugins, folders, device and reporter together, as hooks of plugins receive them.

    Raises:
        UsageError: no such executor. (Device and precisions are checked when they are first needed.)

    Example:
        >>> from mirrorbench import Session
        >>> session = Session("results", device="cpu")
        >>> board = session.run("tiny+base:pooling=mean", "quick-sts", limit=40)
        >>> [column.title for column in board.table.columns]
        ['STS17']
        >>> session.load("tiny").encode(["a cat"]).shape
        (1, 256)
    """

    @checks_keywords(_SETTINGS)
    def __init__(
        self,
        results: str | Path = "results",
        *,
        plugins: Plugins | None = None,
        reporter: Reporter | None = None,
        **settings: Unpack[SettingsFields],
    ) -> None:
        if plugins is not None:
            check_type(
                "plugins", plugins, (Plugins,), "what mirrorbench.plugin.load_plugins returns"
            )
        if reporter is not None:
            check_type(
                "reporter", reporter, (Reporter,), "a subclass of mirrorbench.plugin.Reporter"
            )
        self.workspace = Workspace(Settings(results, **settings), plugins, reporter)

    @property
    def plugins(self) -> Plugins:
        """All that is registered."""
        return self.workspace.plugins

    @property
    def folders(self) -> Folders:
        """Results, data and cache."""
        return self.workspace.folders

    @property
    def compute(self) -> Compute:
        """Device, precisions, threads and executor."""
        return self.workspace.compute

    @property
    def reporter(self) -> Reporter:
        """Receives progress and notes."""
        return self.workspace.reporter

    @checks_keywords()
    def plan(
        self,
        encoders: Specs | Sequence[str | EncoderSpec | NamedEncoder] = (),
        tasks: TaskNames = (),
        *,
        seeds: int | None = None,
        corpus: str = "",
        protocol: str = "",
        grid: str = "",
        baselines: bool = False,
        limit: int = 0,
        fetch: bool = True,
    ) -> Plan:
        """Plan what ``run`` with the same arguments would compute; with ``fetch=False`` nothing is downloaded."""
        from mirrorbench import pipeline
        from mirrorbench.core.plugins import call
        from mirrorbench.runs.plan import Plan

        check_count("limit", limit)
        check_type("baselines", baselines, (bool,), "True or False")
        check_type("corpus", corpus, (str, Path), "the name of a corpus, or the path of a file")
        corpus = str(corpus)
        if seeds is not None:
            check_count("seeds", seeds, least=1)
        names = as_names(tasks)
        folder = self.folders.results.root
        if not grid:
            request = pipeline.make_request(
                encoders,
                names,
                self.plugins,
                folder,
                seeds=tuple(range(1 if seeds is None else seeds)),
                corpus=corpus,
                protocol=protocol or "paper",
                baselines=baselines,
                limit=limit,
                objects=_objects(encoders),
            )
            return pipeline.make_plan(
                [request], self.plugins, self.folders, self.compute, self.reporter, fetch
            )
        given = {
            "corpus": corpus,
            "protocol": protocol,
            "baselines": baselines,
            "seeds": tuple(range(seeds or 0)),
        }
        grids = self.plugins.grids
        key = next((name for name in (grid, Path(grid).suffix) if name in grids), ".yaml")
        if key == ".yaml" and not Path(grid).expanduser().is_file():
            raise unknown_name(
                "grid or file", grid, [name for name in grids.names() if not name.startswith(".")]
            )
        entry = grids.entry(key)
        planned: Plan = call(
            entry,
            Plan,
            entry.value,
            grid,
            self.workspace,
            tuple(pipeline.encoders_of(encoders, self.plugins, folder)),
            limit,
            fetch,
            tasks=names,
            **given,
        )
        return planned

    @checks_keywords()
    def run(
        self,
        encoders: Specs = (),
        tasks: TaskNames = (),
        *,
        seeds: int | None = None,
        corpus: str = "",
        protocol: str = "",
        grid: str = "",
        baselines: bool = False,
        limit: int = 0,
    ) -> Leaderboard:
        """Train, evaluate and store; stored results are not computed again.

        Args:
            encoders: specs, or labels of rows in the session's results; by default ``tiny``, the model inside the
                package. A bare backbone is the papers' ladder; with a grid it replaces the grid's backbones.
            tasks: tasks and suites, a list or one string with commas; by default ``quick``, or the grid's.
            seeds: runs of each tuned encoder; by default one, or the grid's.
            corpus: to tune on; by default each task's own, or the grid's.
            protocol: ``paper`` (default) or ``released``.
            grid: a grid file, or the name of one that comes with the package.
            baselines: add rows without labels to each ladder: transformed and static vectors, other methods.
            limit: number of items of each task in a smoke run, whose results lie in the folder ``limit-N``; 0 for all.

        Returns:
            The leaderboard; ``run(...)["stsb"]`` is the score of a single encoder, ``to_frame()`` a DataFrame.

        Raises:
            UsageError: the request is wrong. What fails later is among ``failures``, and stops nothing else.
        """
        return self.execute(
            self.plan(
                encoders,
                tasks,
                seeds=seeds,
                corpus=corpus,
                protocol=protocol,
                grid=grid,
                baselines=baselines,
                limit=limit,
            )
        )

    def execute(self, plan: Plan) -> Leaderboard:
        """Compute a plan, as ``run`` does."""
        from mirrorbench import pipeline

        return pipeline.run(plan, self.plugins, self.folders, self.compute, self.reporter)

    @checks_keywords()
    def evaluate(
        self,
        encoders: Sequence[str | EncoderSpec | NamedEncoder],
        data: Sequence[str],
        *,
        margin: float | None = None,
    ) -> Leaderboard:
        """Compare encoders with the first one on own data, as ``mirrorbench evaluate`` does.

        Args:
            encoders: specs, or encoders as objects; a bare backbone is its untuned row.
            data: paths of files or folders of own data, with options behind a colon.
            margin: also test whether they are equal within it, between 0 and 1.

        Returns:
            The leaderboard, with a verdict on each other encoder and data.
        """
        from mirrorbench.own_data.answers import computed_evaluation
        from mirrorbench.own_data.planning import Data, encoder_rows, evaluation_plan
        from mirrorbench.reports.statistics.equality import asked_for

        equality = asked_for(margin)
        read = Data.read(data, self.plugins, self.folders.data)
        rows = encoder_rows(encoders, self.plugins, self.folders)
        plan = evaluation_plan(
            rows,
            read,
            self.plugins,
            self.folders,
            self.compute,
            self.reporter,
            objects=_objects(encoders),
        )
        evaluation = computed_evaluation(
            plan,
            rows,
            read,
            self.plugins,
            self.folders,
            self.compute,
            self.reporter,
            equality=equality,
        )
        return evaluation.leaderboard

    @checks_keywords()
    def leaderboard(
        self,
        results: str | Path | Sequence[str | Path] = (),
        tasks: TaskNames = (),
        *,
        encoders: Specs = (),
        table: str = "",
        metric: str = "",
        protocol: str = "",
        intervals: bool = False,
        ties: bool = False,
        without_overlap: bool = False,
        allow_mixed: bool = False,
        sort: str = "",
        title: str = "",
    ) -> Leaderboard:
        """Return stored results as a table, with a verdict on each step of its ladders.

        Args:
            results: folders of results, or a table as the format ``json`` wrote it; by default the session's folder.
            tasks: columns: tasks and suites; by default all.
            encoders: rows, by label or spec (``bert``: every row of BERT); by default all.
            table: rows and columns of a table of the papers.
            metric: shown in place of each task's main one.
            protocol: only results under it.
            intervals: add confidence intervals over test items.
            ties: mark what is not separable from a column's best.
            without_overlap: score without the test items whose texts were tuned on.
            allow_mixed: also results of other data, models or protocols in one table; its notes then say so.
            sort: column (a task, or ``avg.``) to sort rows by; by default rows are in the order of a run.
            title: of the table.

        Raises:
            UsageError: a folder is missing or holds no results, or they are not comparable.
        """
        from mirrorbench.reports.selection import Choice, stored_leaderboard

        choice = Choice(
            expand_tasks(as_names(tasks), self.plugins),
            as_texts(encoders),
            protocol=protocol,
            metrics={"": metric} if metric else {},
            allow_mixed=allow_mixed,
            intervals=intervals,
            ties=ties,
            without_overlap=without_overlap,
        )
        choice = choice.laid_out(table, self.plugins) if table else choice
        folders = (
            [Path(results)]
            if isinstance(results, str | Path)
            else [Path(folder) for folder in results]
        )
        folders = folders or [self.folders.results.root]
        leaderboard = stored_leaderboard(folders, choice, self.plugins)
        shown = leaderboard.table.sorted_by(sort) if sort else leaderboard.table
        return replace(leaderboard, table=replace(shown, title=title or shown.title))

    @checks_keywords()
    def compare(
        self,
        first: str,
        second: str,
        tasks: TaskNames = (),
        *,
        results: Sequence[str | Path] = (),
        protocol: str = "",
        allow_mixed: bool = False,
        margin: float | None = None,
    ) -> EncoderComparison:
        """Compare two encoders item by item, from stored results: difference, interval, p-value.

        Args:
            first: an encoder spec that has results, or the label of its row; a bare backbone is its untuned row.
            second: another, or the same one in another folder.
            tasks: tasks and suites; by default all that both have.
            results: the folder of both, or that of the first and that of the second; by default the session's.
            protocol: only results under it.
            allow_mixed: also what was computed from other data or protocols.
            margin: also test whether they are equal within it, in the unit of the score.

        Raises:
            UsageError: no results of one of them, results that cannot be compared, or a margin that is not between 0
                and 1.
        """
        from mirrorbench.reports.encoder_pairs import compare_encoders
        from mirrorbench.reports.selection import results_of_two

        plugins = self.plugins
        folders = [Path(folder) for folder in results] or [self.folders.results.root]
        if len(folders) > 2:
            raise UsageError(
                f"results names {len(folders)} folders", "One of both, or two: A's, then B's."
            )
        left, right = results_of_two(first, second, (folders[0], folders[-1]), protocol, plugins)
        names = expand_tasks(as_names(tasks), plugins) or tuple(
            dict.fromkeys(e.result.task for e in (*left, *right))
        )
        folder = folders[0] if len(folders) == 1 else None
        comparison = compare_encoders(left, right, names, plugins, allow_mixed, folder, margin)
        notes = []
        for asked, results_of_side in ((first, left), (second, right)):
            result = results_of_side[0].result
            note = f"{asked} stands for {result.spec}"
            if asked not in (result.spec, result.name) and note not in notes:
                notes.append(note)
        return replace(comparison, notes=(*notes, *comparison.notes))

    @checks_keywords()
    def paper(self, table: str, *, encoder: str = "", protocol: str = "paper") -> Any:
        """Return a table or figure of the papers: published, measured (from the session's results), difference.

        Args:
            table: ``mirror-bert/table3`` and the like.
            encoder: this backbone in place of the paper's in every row.
            protocol: of the results.
        """
        _check_protocol(protocol)
        return self.plugins.tables["papers"].paper(self.workspace, table, encoder, protocol)

    @checks_keywords()
    def papers(self, paper: str = "", *, encoder: str = "", protocol: str = "paper") -> Any:
        """Return all tables and figures by name, or those of one paper (``mirrorwic``); arguments as of ``paper``."""
        _check_protocol(protocol)
        return self.plugins.tables["papers"].papers(self.workspace, paper, encoder, protocol)

    @checks_keywords()
    def run_paper(
        self, table: str, *, encoder: str = "", seeds: int = 1, protocol: str = "paper"
    ) -> Any:
        """Measure the cells of a table of the papers that are not stored yet; a ``UsageError`` if it has none."""
        _check_protocol(protocol)
        return self.plugins.tables["papers"].run_paper(
            self.workspace, table, encoder, seeds, protocol
        )

    @checks_keywords()
    def load(self, spec: str | Path, level: str = "sentence") -> TextEncoder:
        """Load an encoder from its spec; a tuned one is taken from the cache, or tuned now with seed 0.

        Args:
            spec: as on the command line, or a directory. A bare backbone is read by mean pooling, at level ``wic`` at
                the target word in the top four layers.
            level: ``word``, ``phrase``, ``sentence`` or ``wic``; picks the recipe and the corpus of a tuned encoder.

        Returns:
            An object whose ``encode(texts)`` returns float32 of shape (len(texts), dimensions).

        Raises:
            UsageError: the spec is malformed.
            ModelUnavailableError: the backbone cannot be had.
            DataUnavailableError: the corpus cannot be had.
        """
        from mirrorbench.runs.single_encoder import load_encoder

        encoder, row = load_encoder(
            as_spec(spec), level, self.plugins, self.folders, self.compute, self.reporter
        )
        return TextEncoder(encoder, str(row), typed=str(spec))

    @checks_keywords()
    def tune(
        self,
        texts: str | Path | Sequence[str] | Sequence[tuple[str, str]],
        encoder: str | Path = "roberta",
        output: str | Path = "my-encoder",
        *,
        level: str = "sentence",
        columns: Sequence[str] = (),
        seed: int = 0,
        held_out: int | None = None,
        force: bool = False,
        merge: bool = False,
    ) -> TunedEncoder:
        """Tune a language model on texts of your own and write an encoder directory.

        Args:
            texts: a file, a folder of own data (its documents), a list of texts, or a list of pairs of texts.
            encoder: a spec; without a method it is tuned by Mirror-BERT, on pairs with the two texts as the two views.
            output: the directory; it opens in ``load``, ``SentenceTransformer`` and ``AutoModel.from_pretrained``.
            level: picks the recipe.
            columns: names of columns in a file: one for texts, two for pairs.
            seed: of the tuning, and of what is held out.
            held_out: how many texts to report on instead of tuning on them; by default 500, at most a tenth.
            force: replace an encoder that is in ``output``.
            merge: with ``lora``, write a whole model; otherwise the adapter alone, which names its backbone.

        Returns:
            The directory, the recipe, and the report on the held-out texts.

        Raises:
            UsageError: a malformed spec, or an output that is not empty.
            StorageError: the output cannot be written, which is known before anything is computed.
            ModelUnavailableError: the backbone cannot be had.
            TuningError: too few texts.
        """
        if not isinstance(texts, str | Path):
            texts = _checked_tuning_texts(texts)
        check_folder("output", output)
        check_count("seed", seed)
        if held_out is not None:
            check_count("held_out", held_out)
        from mirrorbench.texts.export import claiming
        from mirrorbench.texts.tune import plan_tuning, tune_texts

        with claiming(output := Path(output).expanduser(), force) as workplace:
            job = plan_tuning(
                texts,
                as_spec(encoder),
                output,
                self.plugins,
                self.folders,
                self.compute,
                self.reporter,
                level=level,
                columns=columns,
                seed=seed,
                held_out=held_out,
                force=force,
                merge=merge,
            )
            return tune_texts(
                job, workplace, self.plugins, self.folders, self.compute, self.reporter
            )

    @checks_keywords()
    def encode(
        self,
        texts: str,
        encoder: str | Path,
        output: Path | IO[str],
        *,
        column: str = "",
        words_in_context: bool = False,
        spans: Sequence[str] = (),
        keep: Sequence[str] = (),
        level: str = "",
    ) -> EncodedFile:
        """Encode the texts of a file of any length; an interrupted call goes on where it was.

        Args:
            texts: one text a line; or .json, .jsonl, .tsv, .csv, .parquet, .xlsx; .gz too; ``-`` is standard input.
            encoder: a spec, or a directory.
            output: a file (.npy or .parquet), or a stream for one line of JSON a vector.
            column: of the texts.
            words_in_context: encode the word in [brackets] in each text.
            spans: columns of the target's first character and of the one after its last, instead of brackets.
            keep: columns of the file that are written beside the vectors into .parquet.
            level: picks the recipe of a tuned encoder; by default ``sentence``.

        Raises:
            UsageError: the arguments do not go together, or the output exists already.
            DataFormatError: the file cannot be read as that.
        """
        from mirrorbench.texts.encode import encode_texts

        return encode_texts(
            texts,
            as_spec(encoder),
            output,
            self.plugins,
            self.folders,
            self.compute,
            self.reporter,
            column=column,
            words_in_context=words_in_context,
            spans=spans,
            keep=keep,
            level=level,
        )

    def analyze(self, name: str, **options: Any) -> Any:
        """Make an analysis: its numbers, and a way to draw them.

        Args:
            name: one of ``mirrorbench list analyses``.
            options: as ``mirrorbench analyze NAME --help`` lists them; others are a ``UsageError``.
        """
        return self.plugins.analyses[name](self.workspace, **options)

    @checks_keywords()
    def overlap(
        self, corpus: str | Path, tasks: str | Sequence[str]
    ) -> dict[str, Contamination | MirrorbenchError | None]:
        """Count test items with texts that occur in a corpus, by task; ``None`` where a task names no texts.

        Args:
            corpus: a corpus to tune on, or a text file.
            tasks: tasks and suites; an error that one of them meets stands in its place.
        """
        from mirrorbench.runs.corpus_overlap import corpus_overlap

        return corpus_overlap(
            corpus, as_names(tasks), self.plugins, self.folders.data, self.reporter
        )

    def doctor(self) -> dict[str, Any]:
        """Return versions, devices, folders, plugins, missing data and ``problems``: ``mirrorbench doctor --json``."""
        report: dict[str, Any] = self.plugins.tools["doctor"](self.workspace)
        return report


def _objects(encoders: Any) -> dict[EncoderSpec, Encoder]:
    """Return the encoders that are passed as objects, by the specs of their rows.

    Raises:
        UsageError: another encoder has the name of an object, so that a table could not tell them apart.
    """
    if not isinstance(encoders, list | tuple):
        return {}
    objects = [one for one in encoders if isinstance(one, NamedEncoder)]
    names = {one.name for one in objects}
    for other in encoders:
        if not isinstance(other, NamedEncoder) and _backbone_name(other) in names:
            raise UsageError(
                f"an object has the name of another encoder, {other}",
                "Pass another name for the object.",
            )
    return {one.spec: one.encoder for one in objects}


def _backbone_name(encoder: str | Path | EncoderSpec) -> str:
    """Return the backbone that a spec names; empty for a label of a row, which is no spec."""
    try:
        return as_spec(encoder).backbone
    except UsageError:
        return ""


def _checked_tuning_texts(texts: Any) -> list[Any]:
    """Return texts, or pairs of texts, as a list."""
    if isinstance(texts, list | tuple) and texts and isinstance(texts[0], list | tuple):
        return [tuple(as_text_list(pair, f"texts[{n}]")) for n, pair in enumerate(texts)]
    return as_text_list(texts)


def _check_protocol(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, list(PROTOCOLS))
