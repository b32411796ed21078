"""``Session``, the object behind the command line and the functions of ``mirrorbench``."""

from __future__ import annotations

import os
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
    from mirrorbench.agreement.certificate import Certificate
    from mirrorbench.core.encoder_protocol import Encoder
    from mirrorbench.data.corpora import Contamination
    from mirrorbench.reports.encoder_comparison import EncoderComparison
    from mirrorbench.reports.leaderboard import Leaderboard
    from mirrorbench.runs.plan import Plan
    from mirrorbench.texts.card_scores import CardScores
    from mirrorbench.texts.encode import EncodedFile
    from mirrorbench.texts.model_card import TunedEncoder


_SETTINGS = tuple(SettingsFields.__annotations__)


class Session:
    """Everything that mirrorbench does, with one set of settings, plugins and folders.

    Args:
        results: the folder of results.
        plugins: by default the built-in and the installed ones.
        reporter: receives progress; by default progress is not shown.
        data_dir: the folder of data files; by default ``MIRRORBENCH_DATA``, or the platform's data directory.
        cache: the folder of tuned models and embeddings; by default ``MIRRORBENCH_CACHE``, or the platform's.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        precision: precision of tuning: ``auto`` (bf16 on CUDA, fp16 on GPUs before Ampere; else fp32), ``fp32``,
            ``bf16`` or ``fp16``.
        eval_precision: precision of evaluation and encoding: ``auto`` (fp32), ``fp32``, ``bf16`` or ``fp16``.
        offline: open no network connection.
        deterministic: on a GPU, use only algorithms that repeat bit for bit.
        executor: where cells are computed: ``NAME[:KEY=VALUE,...]``.
        workers: number of worker processes; by default this process computes, or one process for each GPU.
        address: where the executor's cluster is.

    Attributes:
        workspace: plugins, folders, device and reporter together, as plugin hooks receive them.

    Raises:
        UsageError: the executor is unknown. Device and precisions are checked when they are first needed.

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
                "plugins",
                plugins,
                (Plugins,),
                "what mirrorbench.plugin.load_plugins returns",
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

        check_count("limit", limit)
        check_type("baselines", baselines, (bool,), "True or False")
        check_type("corpus", corpus, (str, Path), "the name of a corpus, or the path of a file")
        if seeds is not None:
            check_count("seeds", seeds, least=1)
        names = as_names(tasks)
        # A grid has defaults of its own: empty arguments leave them as they are, others replace them.
        if grid:
            return self._plan_of_grid(
                grid,
                encoders,
                limit,
                fetch,
                tasks=names,
                corpus=str(corpus),
                protocol=protocol,
                baselines=baselines,
                seeds=() if seeds is None else tuple(range(seeds)),
            )
        request = pipeline.make_request(
            encoders,
            names,
            self.plugins,
            self.folders.results.root,
            seeds=tuple(range(1 if seeds is None else seeds)),
            corpus=str(corpus),
            protocol=protocol or "paper",
            baselines=baselines,
            limit=limit,
            objects=_objects(encoders),
        )
        return pipeline.make_plan(
            [request], self.plugins, self.folders, self.compute, self.reporter, fetch
        )

    def _plan_of_grid(
        self, grid: str, encoders: Any, limit: int, fetch: bool, **overrides: Any
    ) -> Plan:
        """Plan a grid: a registered one by its name, or else a file, by the registered reader for its ending.

        Files of other endings are read as YAML. ``overrides`` replace the grid's own tasks, seeds, corpus, protocol and
        baselines where they are not empty.

        Raises:
            UnknownNameError: there is neither a grid nor a file of this name.
        """
        from mirrorbench.core.plugins import call
        from mirrorbench.pipeline import encoders_of
        from mirrorbench.runs.plan import Plan

        # The registry holds both grids, by name, and readers of grid files, by ending (".yaml").
        grids = self.plugins.grids
        ending = Path(grid).suffix
        if grid in grids:
            entry = grids.entry(grid)
        elif ending in grids and ending != ".yaml":
            # The reader says itself if there is no such file.
            entry = grids.entry(ending)
        elif Path(grid).expanduser().is_file():
            # YAML, or an ending without a reader, which is read as YAML too.
            entry = grids.entry(".yaml")
        else:
            names = [name for name in grids.names() if not name.startswith(".")]
            raise unknown_name("grid or file", grid, names)
        specs = tuple(encoders_of(encoders, self.plugins, self.folders.results.root))
        # Call the function of the grid or reader; an error in a plugin's function names the plugin.
        plan: Plan = call(
            entry, Plan, entry.value, grid, self.workspace, specs, limit, fetch, **overrides
        )
        return plan

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
        """Train and evaluate encoders and store the results; stored results are not computed again.

        Args:
            encoders: specs, or labels of rows in the session's results; by default ``tiny``, the model inside the
                package. A bare backbone stands for the rows of the papers, untuned and tuned; with a grid it replaces
                the grid's backbones.
            tasks: tasks and suites, a list or one string with commas; by default ``quick``, or the grid's.
            seeds: number of seeds of each tuned encoder; by default one, or the grid's.
            corpus: name or path of the texts to tune on; by default those of each task, or the grid's.
            protocol: ``paper`` (default) or ``released``.
            grid: a grid file, or the name of a grid that comes with the package.
            baselines: also compute rows that need no labels: transformed and static vectors, other methods.
            limit: use only this many items of each task, as a smoke test, whose results lie in the folder
                ``limit-N``; 0 for all items.

        Returns:
            The leaderboard; ``run(...)["stsb"]`` is the score of a single encoder, ``to_frame()`` a DataFrame.

        Raises:
            UsageError: the request is wrong. Errors of single cells are collected in ``failures`` and stop nothing
                else.
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
        data: str | Sequence[str],
        *,
        margin: float | None = None,
    ) -> Leaderboard:
        """Compare encoders with the first one on own data, as ``mirrorbench evaluate`` does.

        Args:
            encoders: specs, or encoders as objects; a bare backbone stands for its untuned row.
            data: path of a file or folder of own data, with options behind a colon, or several.
            margin: also test whether encoders are equal within this margin, between 0 and 1.

        Returns:
            The leaderboard, with a verdict for each encoder but the first on each file or folder.
        """
        from mirrorbench.own_data.evaluation import computed_evaluation
        from mirrorbench.own_data.planning import Data, evaluation_plan, specs_by_name
        from mirrorbench.reports.statistics.equality import requested_equality

        equality = requested_equality(margin)
        names = [data] if isinstance(data, str) else data
        own_data = Data.read(names, self.plugins, self.folders.data)
        rows = specs_by_name(encoders, self.plugins, self.folders)
        plan = evaluation_plan(
            rows,
            own_data,
            self.plugins,
            self.folders,
            self.compute,
            self.reporter,
            objects=_objects(encoders),
        )
        evaluation = computed_evaluation(
            plan,
            rows,
            own_data,
            self.plugins,
            self.folders,
            self.compute,
            self.reporter,
            equality=equality,
        )
        return evaluation.leaderboard

    @checks_keywords()
    def same(
        self,
        first: str | EncoderSpec,
        second: str | EncoderSpec,
        *,
        texts: str | Path = "",
        column: str = "",
        data: str | Sequence[str] = (),
        margin: float = 0.01,
        cosine: float = 0.9999,
    ) -> Certificate:
        """Compare the vectors of two encoders, and say what a difference comes from, as ``mirrorbench same`` does.

        Args:
            first: spec of the encoder whose vectors the other's should be.
            second: spec of the other one.
            texts: file of the texts to encode, as ``encode`` reads it; by default the texts of ``data``, or else of a
                file of vectors, or else included ones.
            column: column of the texts in the file.
            data: paths of own labelled data, as ``evaluate`` reads them, on which the encoders are scored.
            margin: scores that differ by less are equal, from 0 to 1.
            cosine: vectors of a text with a larger cosine are the same.

        Returns:
            The certificate, with ``verdict`` (``equal``, ``different`` or ``cannot say``), ``agreement``, ``cause`` and
            ``tasks``.

        Raises:
            UsageError: a spec, file or number is wrong, or both encoders are the same.
        """
        from mirrorbench.agreement.certificate import certify, completed_spec, texts_to_compare
        from mirrorbench.own_data.planning import Data, data_name, without_repeats

        paths = [data] if isinstance(data, str) else list(data)
        names = without_repeats([data_name(path, "", ()) for path in paths])
        own_data = Data.read(names, self.plugins, self.folders.data)
        specs = [as_spec(first), as_spec(second)]
        source, distinct_texts = texts_to_compare(str(texts), column, own_data, specs)
        return certify(
            completed_spec(specs[0], str(texts), column),
            completed_spec(specs[1], str(texts), column),
            source,
            distinct_texts,
            own_data,
            margin,
            self.plugins,
            self.folders,
            self.compute,
            self.reporter,
            cosine=cosine,
        )

    @checks_keywords()
    def card(self, folder: str | Path, tasks: TaskNames, *, protocol: str = "") -> CardScores:
        """Write an encoder's scores into its model card, as ``mirrorbench card`` does.

        Scores that are not stored yet are computed. Only tasks whose data are a data set of the Hugging Face hub are
        computed and written.

        Args:
            folder: the directory of the encoder, with a model card (``README.md``).
            tasks: tasks and suites.
            protocol: ``paper`` (default) or ``released``.

        Returns:
            The scores, the written files, and the tasks that were left out.

        Raises:
            UsageError: the directory has no model card, stands for several encoders, or would hold the results; or no
                task is on data of the hub.
            DataFormatError: the metadata of the model card cannot be read.
        """
        from mirrorbench.reports.selection import Choice, stored_leaderboard
        from mirrorbench.texts.card_scores import (
            CardScores,
            card_scores,
            check_encoder_folder,
            encoder_id,
            plan_on_hub_data,
            write_scores,
        )

        folder = Path(folder)
        check_encoder_folder(folder, self.folders.results.root)
        # ``./`` marks a spec as the path of a directory.
        planned = self.plan(str(EncoderSpec(os.path.join(".", folder))), tasks, protocol=protocol)
        plan, left_out = plan_on_hub_data(planned, self.plugins)
        encoder = encoder_id(plan.cells[0])
        board = self.execute(plan)
        left_out |= {failure.task: failure.reason for failure in board.failures}
        scores = []
        if board.results:
            choice = Choice(
                tuple(result.task for result in board.results),
                rows=plan.rows,
                protocol=protocol or "paper",
                intervals=True,
            )
            stored = stored_leaderboard([self.folders.results.root], choice, self.plugins)
            scores = card_scores(folder, stored, encoder, self.plugins)
            for result in board.results:
                if result.main_score is None:
                    left_out[result.task] = "its score is undefined"
        files, removed = write_scores(folder, scores, encoder)
        return CardScores(tuple(scores), tuple(files), removed, tuple(left_out.items()))

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
            results: folders of results, or a table that the format ``json`` wrote; by default the session's folder.
            tasks: columns: tasks and suites; by default all.
            encoders: rows, by label or spec (``bert``: every row of BERT); by default all.
            table: use the rows of this table of the papers in place of ``encoders``, and its tasks and metrics unless
                ``tasks`` and ``metric`` are given.
            metric: show this metric in place of each task's main one.
            protocol: show only results of this protocol.
            intervals: add confidence intervals over test items.
            ties: mark the scores that are not separable from the best of their column.
            without_overlap: leave out the test items whose texts the encoder was tuned on.
            allow_mixed: show results of different data, models or protocols in one table, whose notes then say so.
            sort: column (a task, or ``avg.``) to sort rows by; by default rows stand in the order in which
                a run shows them.
            title: title of the table; by default it has none.

        Raises:
            UsageError: a folder is missing or holds no results, or the results are not comparable.
        """
        from mirrorbench.reports.selection import Choice, stored_leaderboard

        choice = Choice(
            expand_tasks(as_names(tasks), self.plugins),
            as_texts(encoders),
            protocol=protocol,
            metrics={"": metric} if metric else {},  # the key "" stands for all tasks
            allow_mixed=allow_mixed,
            intervals=intervals,
            ties=ties,
            without_overlap=without_overlap,
        )
        if table:
            choice = choice.with_layout(table, self.plugins)
        # Folders of results, or the file of a table; by default the session's folder.
        if isinstance(results, str | Path):
            sources = [Path(results)]
        else:
            sources = [Path(source) for source in results]
        leaderboard = stored_leaderboard(
            sources or [self.folders.results.root], choice, self.plugins
        )
        if sort:
            leaderboard = replace(leaderboard, table=leaderboard.table.sorted_by(sort))
        if title:
            leaderboard = replace(leaderboard, table=replace(leaderboard.table, title=title))
        return leaderboard

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
            first: spec or row label of an encoder that has results; a bare backbone stands for its untuned row.
            second: another encoder, or the same one in another folder.
            tasks: tasks and suites; by default all for which both have results.
            results: one folder for both encoders, or the first encoder's and the second's; by default the session's.
            protocol: use only results of this protocol; by default of any.
            allow_mixed: also compare results that were computed from different data or under different protocols.
            margin: also test whether the two are equal within this margin, in the unit of the score.

        Raises:
            UsageError: an encoder has no results, the results cannot be compared, or ``margin`` is not between 0 and 1.
        """
        from mirrorbench.reports.encoder_pairs import compare_encoders
        from mirrorbench.reports.selection import results_of_two

        plugins = self.plugins
        folders = [Path(folder) for folder in results] or [self.folders.results.root]
        if len(folders) > 2:
            raise UsageError(
                f"results names {len(folders)} folders",
                "Name one folder for both encoders, or A's folder and then B's.",
            )
        # A single folder is that of both encoders.
        left, right = results_of_two(first, second, (folders[0], folders[-1]), protocol, plugins)
        # All tasks of both by default; the comparison leaves out those that only one has.
        names = expand_tasks(as_names(tasks), plugins)
        if not names:
            names = tuple(dict.fromkeys(stored.result.task for stored in (*left, *right)))
        common_folder = folders[0] if len(folders) == 1 else None  # None: each encoder has its own
        comparison = compare_encoders(
            left, right, names, plugins, allow_mixed, common_folder, margin
        )
        # Say which row an argument stands for, such as a bare backbone for its untuned row; if both arguments are the
        # same encoder, say it once.
        notes = []
        for argument, results_of_side in ((first, left), (second, right)):
            result = results_of_side[0].result
            note = f"{argument} stands for {result.spec}"
            if argument not in (result.spec, result.name) and note not in notes:
                notes.append(note)
        return replace(comparison, notes=(*notes, *comparison.notes))

    @checks_keywords()
    def paper(self, table: str, *, encoder: str = "", protocol: str = "paper") -> Any:
        """Return a table or figure of the papers: published scores, measured ones, and their differences.

        Args:
            table: name of the table, such as ``mirror-bert/table3``.
            encoder: use this backbone in place of the paper's in every row.
            protocol: use the session's results of this protocol.
        """
        _check_protocol(protocol)
        return self.plugins.tables["papers"].paper(self.workspace, table, encoder, protocol)

    @checks_keywords()
    def papers(self, paper: str = "", *, encoder: str = "", protocol: str = "paper") -> Any:
        """Return all tables and figures by name, or those of one paper (``mirrorwic``).

        The other arguments are those of ``Session.paper``.
        """
        _check_protocol(protocol)
        return self.plugins.tables["papers"].papers(self.workspace, paper, encoder, protocol)

    @checks_keywords()
    def run_paper(
        self, table: str, *, encoder: str = "", seeds: int = 1, protocol: str = "paper"
    ) -> Any:
        """Measure the cells of a table of the papers that are not stored yet.

        Raises:
            UsageError: the table has no cells that can be measured.
        """
        _check_protocol(protocol)
        return self.plugins.tables["papers"].run_paper(
            self.workspace, table, encoder, seeds, protocol
        )

    @checks_keywords()
    def load(self, spec: str | Path, level: str = "sentence") -> TextEncoder:
        """Load an encoder from its spec; a tuned one is taken from the cache, or tuned now with seed 0.

        Args:
            spec: as on the command line, or the directory of a model. A bare backbone is read by mean pooling, at level
                ``wic`` at the target word in the top four layers.
            level: ``word``, ``phrase``, ``sentence`` or ``wic``; it picks the recipe and the corpus of a tuned encoder.

        Returns:
            An object whose ``encode(texts)`` returns float32 of shape (len(texts), dimensions).

        Raises:
            UsageError: the spec is malformed.
            ModelUnavailableError: the files of the backbone are missing and cannot be downloaded.
            DataUnavailableError: the tuning corpus is missing and cannot be downloaded.
        """
        from mirrorbench.runs.single_encoder import load_encoder

        loaded = load_encoder(
            as_spec(spec), level, self.plugins, self.folders, self.compute, self.reporter
        )
        return TextEncoder(loaded.encoder, str(loaded.spec), typed=str(spec), corpus=loaded.corpus)

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
        """Tune a language model on your own texts and write the encoder as a directory.

        Arguments, results and errors are those of ``mirrorbench.tune``.
        """
        if not isinstance(texts, str | Path):
            texts = _checked_tuning_texts(texts)
        check_folder("output", output)
        check_count("seed", seed)
        if held_out is not None:
            check_count("held_out", held_out)
        from mirrorbench.texts.export import claiming
        from mirrorbench.texts.tune import plan_tuning, tune_texts

        output = Path(output).expanduser()
        with claiming(output, force) as workplace:
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
        """Encode the texts of a file of any length; the same call resumes an interrupted one.

        Args:
            texts: a file with one text a line, or .json, .jsonl, .tsv, .csv, .parquet or .xlsx, also compressed as
                .gz; ``-`` is standard input.
            encoder: a spec, or the directory of a model.
            output: a file (.npy or .parquet), or a stream that receives one line of JSON for each vector.
            column: name of the column of texts.
            words_in_context: encode the word in [brackets] in each text.
            spans: names of two columns with the offsets of the target word, instead of brackets: its first character,
                and the one after its last.
            keep: columns of the file to write beside the vectors, into .parquet.
            level: ``word``, ``phrase``, ``sentence`` (default) or ``wic``; it picks the recipe of a tuned encoder.

        Raises:
            UsageError: the arguments do not go together, or the output exists already.
            DataFormatError: the file cannot be read in the format that its name states.
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
        """Compute an analysis; the result has its numbers and can be drawn.

        Args:
            name: one of ``mirrorbench list analyses``.
            options: as ``mirrorbench analyze NAME --help`` lists them; others are a ``UsageError``.
        """
        return self.plugins.analyses[name](self.workspace, **options)

    @checks_keywords()
    def overlap(
        self, corpus: str | Path, tasks: str | Sequence[str]
    ) -> dict[str, Contamination | MirrorbenchError | None]:
        """Count the test items of each task whose texts occur in a corpus.

        Args:
            corpus: name of a tuning corpus, or a text file.
            tasks: tasks and suites.

        Returns:
            The counts by task; ``None`` for a task that states no texts, and the error for a task that failed.
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
    objects = [encoder for encoder in encoders if isinstance(encoder, NamedEncoder)]
    names_of_objects = {named.name for named in objects}
    for encoder in encoders:
        if not isinstance(encoder, NamedEncoder) and _backbone_name(encoder) in names_of_objects:
            raise UsageError(
                f"an object has the name of another encoder, {encoder}",
                "Pass another name for the object.",
            )
    return {named.spec: named.encoder for named in objects}


def _backbone_name(encoder: str | Path | EncoderSpec) -> str:
    """Return the backbone that a spec names; empty for a row label, which is not a spec."""
    try:
        return as_spec(encoder).backbone
    except UsageError:
        return ""


def _checked_tuning_texts(texts: Any) -> list[Any]:
    """Return texts, or pairs of texts, as a list; raise ``UsageError`` for anything else."""
    if isinstance(texts, list | tuple) and texts and isinstance(texts[0], list | tuple):
        return [tuple(as_text_list(pair, f"texts[{n}]")) for n, pair in enumerate(texts)]
    return as_text_list(texts)


def _check_protocol(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, list(PROTOCOLS))
