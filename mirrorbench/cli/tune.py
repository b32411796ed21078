"""``mirrorbench tune``: tune a language model on your own texts: an encoder that sentence-transformers and transformers open too."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli import display
from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import Device, EncoderSpecText, Offline, PluginFiles, Precision
from mirrorbench.core.specs import EncoderSpec, as_spec, split_names

if TYPE_CHECKING:
    from mirrorbench.session import Session
    from mirrorbench.texts.model_card import TunedEncoder
    from mirrorbench.texts.tune import TuningJob

_TextFile = Annotated[
    str,
    typer.Argument(
        metavar="TEXTS",
        help="One text (or text1||text2) a line; .json, .jsonl, .tsv, .csv, .parquet, .xlsx; .gz too; - is standard input; own data.",
    ),
]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where the encoder goes.")
]
_Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column", "-c", metavar="NAME,...", help="Column of the texts; two columns are pairs."
    ),
]
_Level = Annotated[
    str,
    typer.Option(
        help="word, phrase, sentence or wic: picks the recipe.", autocompletion=complete("levels")
    ),
]
_Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the tuning and of the choice of held-out lines.")
]
_HeldOut = Annotated[
    int | None,
    typer.Option(
        "--held-out",
        min=0,
        help="Lines left out of the tuning to measure its effect.",
        show_default="500, at most 10 %",
    ),
]
_Force = Annotated[
    bool, typer.Option("--force", help="Replace an encoder that is in --output already.")
]
_Merge = Annotated[
    bool,
    typer.Option("--merge", help="With lora=RANK: write a whole model, not the adapter alone."),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be tuned.")]
_Compared = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluate",
        metavar="DATA",
        help="Own data on which the tuned encoder is then compared with the untuned model.",
    ),
]


def tune(
    texts: _TextFile,
    output: _Output,
    encoder: EncoderSpecText = "roberta",
    column: _Columns = None,
    level: _Level = "sentence",
    seed: _Seed = 0,
    held_out: _HeldOut = None,
    device: Device = "auto",
    precision: Precision = "auto",
    force: _Force = False,
    merge: _Merge = False,
    dry_run: _DryRun = False,
    evaluate: _Compared = None,
    offline: Offline = False,
    quiet: display.Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Tune a language model on your own texts: an encoder that sentence-transformers and transformers open too.

    `mirrorbench tune my_texts.txt --encoder roberta --output my-encoder`

    `mirrorbench tune pairs.jsonl.gz -c question,answer -e roberta:epochs=2 -o qa-encoder`
    """
    from mirrorbench.cli.evaluate import evaluate as compare_on_own_data
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.session import Session
    from mirrorbench.texts.tune import plan_tuning

    settings: dict[str, Any] = {"device": device, "offline": offline, "quiet": quiet}
    base = str(replace(as_spec(encoder), method="", params=()))
    if evaluate:  # what is wrong with the data is said before the tuning
        compare_on_own_data(evaluate, [base], dry_run=True, **settings)
    stays = f"Interrupted; nothing was written to {output}."
    with display.on_interrupt(stays), progress_display(quiet) as reporter:
        session = Session(
            device=device, precision=precision, offline=offline or dry_run, reporter=reporter
        )
        asked: dict[str, Any] = {
            "level": level,
            "columns": split_names(column or []),
            "seed": seed,
            "held_out": held_out,
            "merge": merge,
        }
        if dry_run:
            job = plan_tuning(
                texts,
                as_spec(encoder),
                output,
                session.plugins,
                session.folders,
                session.compute,
                reporter,
                force=force,
                **asked,
            )
            _print_plan(job, session)
            return
        tuned = session.tune(texts, encoder, output, force=force, **asked)
    _print_report(tuned, reporter.elapsed)
    made = str(EncoderSpec(os.path.join(".", tuned.folder)))
    if evaluate:
        compare_on_own_data(evaluate, [base, made], tuned_on=texts, **settings)
    else:
        encoders = f"-e {shlex.quote(base)} -e {shlex.quote(made)}"
        display.say(f"Did it help? mirrorbench evaluate YOUR_DATA {encoders}")


def _print_plan(job: TuningJob, session: Session) -> None:
    cached = ", which is in the cache" if session.folders.cache.model(job.model.key) else ""
    display.say(f"{job.spec} seed {job.seed}: tune on {len(job.texts.train):,} lines{cached}")
    display.say(f"device: {session.compute.planned_device}; tuned in {job.model.precision}")


def _print_report(tuned: TunedEncoder, elapsed: str) -> None:
    from mirrorbench.cli.progress import in_words

    if rows := tuned.rows():
        display.print_rows(rows[0], rows[1:])
        if tuned.held_out:
            display.say(f"\n{tuned.held_out.verdict}")
        display.say("\nNearest neighbours among the held-out lines:")
        for text, before, after in tuned.neighbours:
            display.say(
                f"  {_short(text)}\n    before: {_short(before)}\n    after:  {_short(after)}"
            )
        display.say("")
    if tuned.from_cache:
        duration = f"tuned before in {in_words(tuned.seconds)}, from the cache in {elapsed}"
    else:
        duration = f"tuned in {in_words(tuned.seconds)} ({elapsed} with loading and checks)"
    display.say(f"{tuned.spec}, {duration}: {tuned.folder}")


def _short(text: str, most: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
