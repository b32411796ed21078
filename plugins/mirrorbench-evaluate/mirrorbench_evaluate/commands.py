"""``evaluate``: say whether encoders are better than the first one on data of your own."""

from __future__ import annotations

from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from mirrorbench.plugin import (
    BACKBONES,
    Contamination,
    DataDir,
    Device,
    EncoderSpec,
    Json,
    Notes,
    Offline,
    PluginFiles,
    Quiet,
    Stored,
    UsageError,
    Value,
    parse_spec,
    print_json,
    say,
    without_texts,
)
from mirrorbench_evaluate.answers import BM25, FUSED, POWER, Evaluation
from mirrorbench_evaluate.layouts import as_option
from mirrorbench_evaluate.measures import SPREAD, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mirrorbench.plugin import Plan, Session
    from mirrorbench_evaluate.answers import Answer, Change

PROMPTS = ("query", "document", "passage", "corpus")
"""Names of prompts for queries and documents, as sentence-transformers looks them up."""
TRANSFORMATIONS: dict[str, dict[str, Value]] = {
    "whitened": {"post": "whiten"}, "all but the top 3": {"post": "abtt", "abtt": 3}, "z-scored": {"post": "zscore"},
}  # fmt: skip
"""What ``--baselines`` adds to each encoder; fitted on the texts of the data."""

# fmt: off
_Data = Annotated[list[str], typer.Argument(metavar="DATA...", help="Files or folders of your own (docs/own_data.md).")]
_Encoders = Annotated[list[str], typer.Option(
    "--encoder", "-e", metavar="SPEC", help="Encoders; the others are compared with the first. A bare backbone is its "
    "untuned row.")]
_Kind = Annotated[str, typer.Option(metavar="KIND", help="What the data are.", show_default="by their columns")]
_Columns = Annotated[list[str] | None, typer.Option(
    metavar="COLUMN=NAME", help="The data's own name of a column; for each again.")]
_Baselines = Annotated[bool, typer.Option(
    "--baselines", help="Also each encoder's vectors whitened, without their three main axes, and standardised.")]
_Items = Annotated[int, typer.Option("--items", metavar="N", min=0, help="Show the items that gained and lost most.")]
_TunedOn = Annotated[str, typer.Option(
    metavar="TEXTS", help="Say how many items hold a text of this file or folder, on which an encoder was tuned.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what so many items can show, and compute nothing.")]
_Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where results go.")]
# fmt: on


def evaluate(
    data: _Data, encoder: _Encoders, kind: _Kind = "", columns: _Columns = None, baselines: _Baselines = False,
    items: _Items = 0, tuned_on: _TunedOn = "", dry_run: _DryRun = False,
    output: _Output = Path("results"), device: Device = "auto", data_dir: DataDir = None, offline: Offline = False,
    as_json: Json = False, notes: Notes = "", quiet: Quiet = False, plugin: PluginFiles = None,
) -> None:  # fmt: skip
    """Say whether encoders are better than the first one on data of your own: differences, intervals, p-values.

    `mirrorbench evaluate ./faq.csv -e minilm -e ./my-encoder`

    `mirrorbench evaluate ./cranfield -e minilm -e ./tuned --items 5`
    """
    from mirrorbench.plugin import Session, print_table, progress_display

    names = [named(path, kind, columns or ()) for path in data]
    with progress_display(quiet) as reporter:
        session = Session(output, data_dir=data_dir, device=device, offline=offline or dry_run, reporter=reporter)
        reporter.stage("planning", "the evaluation")
        read = {name: Data.read(name, session) for name in dict.fromkeys(names)}
        for own in read.values():
            say(own.about, err=not dry_run)
        if tuned_on:
            print_overlap(tuned_on, list(read.values()), session)
        specs = [untuned(text, session) for text in encoder]
        plan = plan_of(specs, list(read.values()), session, baselines, fetch=not dry_run)
        if dry_run:
            for own in read.values():
                say(own.can_show())
            return
        board = session.execute(plan)
    store = session.workspace.results
    paths = {cell.id: store.where(cell) for cell in plan.cells}
    stored = [Stored(result, paths[result.cell_id]) for result in board.results]
    evaluation = Evaluation(stored, list(map(str, plan.rows)), plan.tasks, session.workspace.plugins)
    typed = {str(spec): text for spec, text in zip(specs, encoder, strict=True)}
    typed |= {str(t): f"{typed[str(spec)]}, {name}" for spec in specs for name, t in transformed(spec).items()}
    labels = {row.spec: typed.get(row.spec, row.label) for row in board.table.rows if row.spec} | {BM25: BM25}
    answers = evaluation.answers()
    if as_json:
        print_json([as_object(answer) for answer in answers])
    else:
        print_table(evaluation.table(board.table, labels), "none" if quiet else notes)
        say()
        if len(plan.rows) == 1:
            say("Name a second encoder (-e) to hear whether it is better.", err=True)
        for answer in answers:
            say(in_words(answer, labels, read[answer.task]))
        for spec in evaluation.encoders[1:] if items else ():
            for own in read.values():
                print_changes(evaluation.changes(spec, own.name, items), f"{labels[spec]} on {own.title}", own)
        for line in cut_texts(plan, list(read.values()), labels):
            say(line, err=True)
    for failure in board.failures:
        say(f"Failed: {failure.spec} on {failure.task}: {failure.reason}\n{failure.hint}".rstrip(), err=True)
    raise typer.Exit(1 if board.failures else 0)


class Data(NamedTuple):
    """Own data that have been read: their name as a task, their task and their items."""

    name: str
    task: Any
    items: Any

    @classmethod
    def read(cls, name: str, session: Session) -> Data:
        """Read the data of a name."""
        task = session.workspace.plugins.tasks[name]
        return cls(name, task, task.load(session.workspace.data))

    @property
    def title(self) -> str:
        """The name of file or folder."""
        return str(self.task.title)

    @property
    def about(self) -> str:
        """One line: the kind, and the numbers of items."""
        return f"{self.title}: {self.task.kind}, {self.task.about(self.items)}"

    def can_show(self) -> str:
        """The difference of two encoders that so many items show in four of five samples, where they differ usually."""
        from mirrorbench.plugin import number

        texts, metric = self.task.texts(self.items), self.task.main_metric
        n = len(texts) if self.task.kind == "retrieval" else len(set(together(list(texts.values())).tolist()))
        least = number(POWER * SPREAD[metric] / n**0.5)
        return f"{self.title} can show differences in {metric} of about {least} and more; smaller ones need more items."


def named(path: str, kind: str, columns: Sequence[str]) -> str:
    """The name of a path as a task: with a slash, and with its options behind it."""
    for column in columns:
        if column.count("=") != 1:
            raise UsageError(f"--columns {column} is not COLUMN=NAME", "Such as --columns sentence1=question")
    renamed = ("=".join((as_option(own), name)) for own, name in (column.split("=") for column in columns))
    options = [*([f"kind={kind}"] if kind else []), *renamed]
    slashed = path if "/" in path or path.startswith((".", "~")) else f"./{path}"
    return slashed + (f":{','.join(options)}" if options else "")


def untuned(text: str, session: Session) -> EncoderSpec:
    """The spec of an encoder; of a bare backbone its untuned row, read as the model's files say.

    A model with prompts of its own for queries or documents is read by sentence-transformers (``sbert``).
    """
    from mirrorbench.plugin import Planner, as_system, keys_of_files, locate, own_prompts

    spec, workspace = parse_spec(text), session.workspace
    if spec.method or spec.backbone in workspace.plugins.encoders:
        return spec
    folder = locate(spec, "en", workspace.offline)
    if not spec.params and any(prompt for name, prompt in own_prompts(folder).items() if name in PROMPTS):
        return as_system(spec)
    if len(ladder := Planner(workspace).ladder(spec, "sentence")) == 1:
        return ladder[0]
    # a short name; a directory or id with modules is read as they say anyway
    keys = keys_of_files(spec, folder) if spec.backbone in BACKBONES else {}
    return spec.with_method("base").with_params(**keys | dict(spec.params))


def plan_of(
    specs: Sequence[EncoderSpec], data: Sequence[Data], session: Session, baselines: bool, fetch: bool
) -> Plan:  # fmt: skip
    """The plan of encoders on data; what is tuned or fitted for it is so on the texts of the data themselves."""
    from mirrorbench.plugin import merged

    plans = []
    if baselines:
        specs = [row for spec in specs for row in (spec, *transformed(spec).values())]
    for own in data:
        plans.append(session.plan(specs, [own.name], corpus=corpus_of(own, session), fetch=fetch))
    return merged(plans)


def corpus_of(data: Data, session: Session) -> str:
    """The name of the texts of own data as a corpus, which the session knows from now on."""
    from mirrorbench.plugin import GeneratedCorpus

    name, space = f"texts of {data.name}", session.workspace
    if name not in space.plugins.corpora.by_name():
        corpus = GeneratedCorpus(name, name, lambda: data.task.documents(data.items))
        space.plugins = space.plugins.extended("register_corpora", corpus)
    return name


def print_overlap(texts: str, data: Sequence[Data], session: Session) -> None:
    """Say how many items of own data hold a text of a file or folder."""
    corpus = corpus_of(Data.read(named(texts, "", ()), session), session) if isdir(texts) else texts
    for own, seen in zip(data, session.overlap(corpus, [own.name for own in data]).values(), strict=True):
        share = f"{seen.to_json()['any_text']:.1%}" if isinstance(seen, Contamination) else "unknown"
        say(f"{own.title}: {share} of the {own.task.items_name} hold a text of {texts}")


def cut_texts(plan: Plan, data: Sequence[Data], labels: Mapping[str, str]) -> Iterator[str]:
    """A line for each backbone that does not read all texts of some data to their end."""
    from mirrorbench.plugin import read_tokenizer

    tokenizers: dict[Path, Any] = {}
    for own in data:
        inputs = {item.text for item in own.task.inputs(own.items)}
        for cell in plan.cells:
            if cell.task != own.name or cell.pooling is None or cell.model.path is None or cell.model.posts:
                continue
            most, path = cell.pooling.max_length, cell.model.path
            texts = [text for text in inputs if len(text) > most]  # a token has a character at least
            tokenizer = tokenizers.setdefault(path, read_tokenizer(path))
            n = sum(len(ids) > most for ids in tokenizer(texts, verbose=False)["input_ids"]) if texts else 0
            if n:
                of = f"{n:,} of {len(inputs):,} in {own.title}"
                yield f"{labels[str(cell.spec)]} reads {most:,} tokens of a text; {of} are longer"


def transformed(spec: EncoderSpec) -> dict[str, EncoderSpec]:
    """An encoder with its vectors transformed, by the name of the transformation; none where it has one already."""
    if spec.get("post") is not None or spec.get("dims") is not None:
        return {}
    return {name: spec.with_params(**post) for name, post in TRANSFORMATIONS.items()}


def in_words(answer: Answer, labels: Mapping[str, str], data: Data) -> str:
    """One line: the difference, its interval, p and the verdict."""
    from mirrorbench.plugin import number, p_words

    ends, n, words = answer.comparison.estimate.interval(), answer.comparison.n, number(answer.comparison.difference)
    words = f"+{words}" if answer.comparison.difference > 0 else words
    if ends and answer.p is not None:
        words += f" [{number(ends[0])}, {number(ends[1])}], p {p_words(answer.p)}"
    needed = answer.items_needed if answer.verdict == "not separable" else None
    more = f"; a difference of this size needs about {needed:,}" if needed and needed > n else ""
    label = labels.get(answer.row) or f"{labels[answer.row.removesuffix(FUSED)]}{FUSED}"
    return f"{label} on {data.title}: {answer.verdict}, {words} ({n:,} {data.task.items_name}{more})"


def print_changes(changes: tuple[list[Change], list[Change]], title: str, data: Data) -> None:
    """Print the items that gained and lost most: their texts, scores and what was found for them."""
    from mirrorbench.plugin import number

    texts = data.task.texts(data.items)
    for verb, own in zip(("gained", "lost"), changes, strict=True):
        say(f"\n{title}: {verb} most" if own else f"\n{title}: no item {verb}")
        for change in own:
            say(f"  {number(change.before)} → {number(change.now)}  {_short(' | '.join(texts[change.item]))}")
            for word, found in (("before", change.found_before), ("now", change.found_now)):
                for line in data.task.found(data.items, change.item, found):
                    say(f"    {word:6} {_short(line)}")


def _short(text: str, most: int = 100) -> str:
    line = text if not without_texts() else f"(a text of {len(text):,} characters)"
    return line.rstrip().replace("\n", " ") if len(line) <= most else f"{line[: most - 1]}…".replace("\n", " ")


def as_object(answer: Answer) -> dict[str, object]:
    """All values of an answer."""
    estimate, ends = answer.comparison.estimate, answer.comparison.estimate.interval()
    return {
        "encoder": answer.row, "data": answer.task, "n_items": answer.comparison.n,
        "first": answer.comparison.second.mean, "score": answer.comparison.first.mean,
        "difference": estimate.value, "interval": ends and list(ends), "p": answer.comparison.p, "p_holm": answer.p,
        "verdict": answer.verdict, "items_needed": answer.items_needed,
    }  # fmt: skip
