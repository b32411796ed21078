"""``mirrorbench tune``: tune a language model on your own texts; sentence-transformers and transformers open the result."""

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
from mirrorbench.data.readers.files import STDIN

if TYPE_CHECKING:
    from mirrorbench.session import Session
    from mirrorbench.texts.model_card import TunedEncoder
    from mirrorbench.texts.tune import TuningJob

_TextFile = Annotated[
    str,
    typer.Argument(
        metavar="TEXTS",
        help="File of one text (or text1||text2) a line, or .json, .jsonl, .tsv, .csv, .parquet, .xlsx, also with .gz; "
        "- for standard input; or a folder of own data, as for evaluate.",
    ),
]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the encoder.")
]
_Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column", "-c", metavar="NAME,...", help="Column with the texts; two columns give pairs."
    ),
]
_Level = Annotated[
    str,
    typer.Option(
        help="Level of the texts, which chooses the recipe: word, phrase, sentence or wic.",
        autocompletion=complete("levels"),
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
        help="Number of lines to leave out of the tuning and to measure its effect on.",
        show_default="500, at most 10 %",
    ),
]
_Force = Annotated[
    bool, typer.Option("--force", help="Replace an encoder that is already in --output.")
]
_Merge = Annotated[
    bool,
    typer.Option(
        "--merge", help="With lora=RANK, write a whole model instead of the adapter only."
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be tuned; compute nothing.")
]
_Compared = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluate",
        metavar="DATA",
        help="Own data on which to compare the tuned encoder with the untuned model. May be repeated.",
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
    """Tune a language model on your own texts; sentence-transformers and transformers open the result.

    `mirrorbench tune my_texts.txt --encoder roberta --output my-encoder`

    `mirrorbench tune pairs.jsonl.gz -c question,answer -e roberta:epochs=2 -o qa-encoder`
    """
    from mirrorbench.cli.evaluate import evaluate as compare_on_own_data
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.session import Session
    from mirrorbench.texts.tune import plan_tuning

    settings: dict[str, Any] = {"device": device, "offline": offline, "quiet": quiet}
    untuned_spec = str(replace(as_spec(encoder), method="", params=()))
    if evaluate:
        # A dry run finds errors in the data before the tuning.
        compare_on_own_data(evaluate, [untuned_spec], dry_run=True, **settings)
    interruption = f"Interrupted; nothing was written to {output}."
    with display.on_interrupt(interruption), progress_display(quiet) as reporter:
        session = Session(
            device=device, precision=precision, offline=offline or dry_run, reporter=reporter
        )
        options: dict[str, Any] = {
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
                **options,
            )
            _print_plan(job, session)
            return
        tuned = session.tune(texts, encoder, output, force=force, **options)
    _print_report(tuned, reporter.elapsed)
    # ``./`` marks a spec as the path of a directory.
    tuned_spec = str(EncoderSpec(os.path.join(".", tuned.folder)))
    if evaluate and texts == STDIN:
        display.say(
            "the overlap of the data with texts from standard input is not counted", err=True
        )
        compare_on_own_data(evaluate, [untuned_spec, tuned_spec], **settings)
    elif evaluate:
        compare_on_own_data(evaluate, [untuned_spec, tuned_spec], tuned_on=texts, **settings)
    else:
        encoders = f"-e {shlex.quote(untuned_spec)} -e {shlex.quote(tuned_spec)}"
        display.say(f"Did it help? mirrorbench evaluate YOUR_DATA {encoders}")


def _print_plan(job: TuningJob, session: Session) -> None:
    """Print what would be tuned, whether it is in the cache, and where it would be computed."""
    line = f"{job.spec} seed {job.seed}: tune on {len(job.texts.train):,} lines"
    if session.folders.cache.model(job.model.key):
        line += "; the tuned model is in the cache"
    display.say(line)
    display.say(f"device: {session.compute.planned_device}; tuned in {job.model.precision}")


def _print_report(tuned: TunedEncoder, elapsed: str) -> None:
    """Print the measures and neighbours of held-out lines, if there are any, the duration, and the directory."""
    from mirrorbench.cli.progress import in_words

    if tuned.held_out:
        head, *rows = tuned.rows()
        display.print_rows(head, rows)
        display.say(f"\n{tuned.held_out.verdict}")
        display.say("\nNearest neighbours among the held-out lines:")
        for text, before, after in tuned.neighbours:
            display.say(f"  {_short(text)}")
            display.say(f"    before: {_short(before)}")
            display.say(f"    after:  {_short(after)}")
        display.say("")
    if tuned.from_cache:
        duration = f"tuned before in {in_words(tuned.seconds)}, from the cache in {elapsed}"
    else:
        duration = f"tuned in {in_words(tuned.seconds)} ({elapsed} with loading and checks)"
    display.say(f"{tuned.spec}, {duration}: {tuned.folder}")


def _short(text: str, max_length: int = 100) -> str:
    """Return the beginning of a text in one line."""
    line = " ".join(text.split())
    if len(line) <= max_length:
        return line
    return line[: max_length - 1] + "…"
