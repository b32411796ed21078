"""``evaluate``: say whether encoders are better than the first one on data of your own."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from mirrorbench.plugin import (
    BACKBONES,
    DataDir,
    Device,
    EncoderSpec,
    Json,
    Notes,
    Offline,
    PluginFiles,
    Quiet,
    UsageError,
    holm,
    parse_spec,
    print_json,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mirrorbench.plugin import Comparison, Session

POWER = 2.8
"""Standard errors of a difference that is found in four of five samples: 1.96 for the level, .84 for the power."""
SIGNIFICANT = 0.05

# fmt: off
_Data = Annotated[list[str], typer.Argument(metavar="DATA...", help="Files or folders of your own (docs/own_data.md).")]
_Encoders = Annotated[list[str], typer.Option(
    "--encoder", "-e", metavar="SPEC", help="Encoders; the others are compared with the first. A bare backbone is its "
    "untuned row.")]
_Kind = Annotated[str, typer.Option(metavar="KIND", help="What the data are.", show_default="by their columns")]
_Columns = Annotated[list[str] | None, typer.Option(
    metavar="COLUMN=NAME", help="The data's own name of a column; for each again.")]
_Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where results go.")]
# fmt: on


class Answer(NamedTuple):
    """A comparison of an encoder with the first on one task, and its p-value, corrected for all of them (Holm)."""

    encoder: str
    task: str
    comparison: Comparison
    p: float | None

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or ``not separable``."""
        if self.p is None or self.p >= SIGNIFICANT:
            return "not separable"
        return "better" if self.comparison.difference > 0 else "worse"

    @property
    def items_needed(self) -> int | None:
        """How many items show this difference in four of five samples; ``None`` where it is 0 or undefined."""
        difference, error = self.comparison.difference, self.comparison.estimate.error
        return ceil(self.comparison.n * (POWER * error / difference) ** 2) if difference and error > 0 else None


def evaluate(
    data: _Data, encoder: _Encoders, kind: _Kind = "", columns: _Columns = None, output: _Output = Path("results"),
    device: Device = "auto", data_dir: DataDir = None, offline: Offline = False, as_json: Json = False,
    notes: Notes = "", quiet: Quiet = False, plugin: PluginFiles = None,
) -> None:  # fmt: skip
    """Say whether encoders are better than the first one on data of your own: differences, intervals, p-values.

    `mirrorbench evaluate ./faq.csv -e minilm -e ./my-encoder`
    """
    from mirrorbench.plugin import Session, print_table, progress_display

    with progress_display(quiet) as reporter:
        session = Session(output, data_dir=data_dir, device=device, offline=offline, reporter=reporter)
        reporter.stage("planning", "the evaluation")
        names = [named(path, kind, columns or ()) for path in data]
        plan = session.plan([untuned(text, session) for text in encoder], names)
        board = session.execute(plan)
    labels = {row.spec: row.label for row in board.table.rows} | {c.name: c.title for c in board.table.columns}
    answers = list(compared(session, [str(spec) for spec in plan.rows], names)) if not board.failures else []
    if as_json:
        print_json([as_object(answer) for answer in answers])
    else:
        print_table(board.table, "none" if quiet else notes)
        say()
        if len(plan.rows) == 1:
            say("Name a second encoder (-e) to hear whether it is better.", err=True)
        for answer in answers:
            say(in_words(answer._replace(encoder=labels[answer.encoder], task=labels[answer.task])))
    for failure in board.failures:
        say(f"Failed: {failure.spec} on {failure.task}: {failure.reason}\n{failure.hint}".rstrip(), err=True)
    raise typer.Exit(1 if board.failures else 0)


def named(path: str, kind: str, columns: Sequence[str]) -> str:
    """The name of a path as a task: with a slash, and with its options behind it."""
    for column in columns:
        if column.count("=") != 1:
            raise UsageError(f"--columns {column} is not COLUMN=NAME", "Such as --columns sentence1=question")
    options = [*([f"kind={kind}"] if kind else []), *columns]
    slashed = path if "/" in path or path.startswith((".", "~")) else f"./{path}"
    return slashed + (f":{','.join(options)}" if options else "")


def untuned(text: str, session: Session) -> EncoderSpec:
    """The spec of an encoder; of a bare backbone that has a ladder its untuned row, read as the model's files say."""
    from mirrorbench.plugin import Planner, keys_of_files, locate

    spec, workspace = parse_spec(text), session.workspace
    if spec.method or spec.backbone in workspace.plugins.encoders:
        return spec
    if len(Planner(workspace).ladder(spec, "sentence")) == 1:
        return spec
    keys = {}
    if spec.backbone in BACKBONES:  # a short name; a directory or id with modules is read as they say anyway
        keys = keys_of_files(spec, locate(spec, "en", workspace.offline))
    return spec.with_method("base").with_params(**keys | dict(spec.params))


def compared(session: Session, encoders: Sequence[str], tasks: Sequence[str]) -> Iterator[Answer]:
    """Compare each encoder with the first on each task."""
    found = [
        (encoder, task, session.compare(encoder, encoders[0], [task]).tasks[0])
        for encoder in encoders[1:]
        for task in tasks
    ]
    for (encoder, task, comparison), p in zip(found, holm([one.p for *_, one in found]), strict=True):
        yield Answer(encoder, task, comparison, p)


def in_words(answer: Answer) -> str:
    """One line: the difference, its interval, p and the verdict."""
    from mirrorbench.plugin import number, p_words

    ends, n, words = answer.comparison.estimate.interval(), answer.comparison.n, number(answer.comparison.difference)
    words = f"+{words}" if answer.comparison.difference > 0 else words
    if ends and answer.p is not None:
        words += f" [{number(ends[0])}, {number(ends[1])}], p {p_words(answer.p)}"
    needed = answer.items_needed if answer.verdict == "not separable" else None
    more = f"; a difference of this size needs about {needed:,}" if needed and needed > n else ""
    return f"{answer.encoder} on {answer.task}: {answer.verdict}, {words} ({n:,} items{more})"


def as_object(answer: Answer) -> dict[str, object]:
    """All values of an answer."""
    estimate, ends = answer.comparison.estimate, answer.comparison.estimate.interval()
    return {
        "encoder": answer.encoder, "data": answer.task, "n_items": answer.comparison.n,
        "first": answer.comparison.second.mean, "score": answer.comparison.first.mean,
        "difference": estimate.value, "interval": ends and list(ends), "p": answer.comparison.p, "p_holm": answer.p,
        "verdict": answer.verdict, "items_needed": answer.items_needed,
    }  # fmt: skip
