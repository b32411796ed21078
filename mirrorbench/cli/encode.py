"""``mirrorbench encode``: encode texts, one per line or row, including blank ones; resume an interrupted run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mirrorbench.cli import display
from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    DataDir,
    Device,
    EncoderSpecText,
    EvalPrecision,
    Offline,
    PluginFiles,
    TextColumn,
)
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import split_names

_Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="File of one text a line, or .json, .jsonl, .tsv, .csv, .parquet, .xlsx, also with .gz; - for standard input.",
    ),
]
_VectorFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write vectors to this .npy or .parquet file.",
        show_default="JSON lines on standard output",
    ),
]
_InContext = Annotated[
    bool,
    typer.Option("--words-in-context", "-w", help="Encode the word in [brackets] in each text."),
]
_SpanColumns = Annotated[
    str,
    typer.Option(
        "--span-columns",
        metavar="START,END",
        help="Columns with the start and end of the target in characters, instead of brackets.",
    ),
]
_Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep", metavar="NAME,...", help="Columns to write beside the vectors (.parquet only)."
    ),
]
_Level = Annotated[
    str,
    typer.Option(
        help="Level of the texts, which chooses the recipe of a tuned encoder: word, phrase or sentence.",
        show_default="sentence",
        autocompletion=complete("levels"),
    ),
]


def encode(
    texts: _Source,
    encoder: EncoderSpecText,
    output: _VectorFile = None,
    column: TextColumn = "",
    words_in_context: _InContext = False,
    span_columns: _SpanColumns = "",
    keep: _Keep = None,
    level: _Level = "",
    device: Device = "auto",
    eval_precision: EvalPrecision = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    quiet: display.Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Encode texts, one per line or row, including blank ones; the same command resumes an interrupted run.

    `mirrorbench encode corpus.txt.gz --encoder ./my-encoder --output vectors.npy`

    `mirrorbench encode shop.csv -e minilm -c description --keep id,team -o vectors.parquet`

    `echo "the [bank] of the river" | mirrorbench encode - -e bert --words-in-context`
    """
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.session import Session

    spans = split_names([span_columns])
    if len(spans) not in (0, 2):
        raise UsageError(
            f"--span-columns {span_columns}: two columns are needed", "Write START,END."
        )
    # Without an output, JSON lines go to standard output. Only a file can be continued.
    interruption = "Interrupted."
    if output:
        interruption = "Interrupted; run the same command again to continue."
    with display.on_interrupt(interruption), progress_display(quiet) as reporter:
        session = Session(
            data_dir=data_dir,
            device=device,
            eval_precision=eval_precision,
            offline=offline,
            reporter=reporter,
        )
        encoded = session.encode(
            texts,
            encoder,
            output or sys.stdout,
            column=column,
            words_in_context=words_in_context,
            spans=spans,
            keep=split_names(keep or []),
            level=level,
        )
    if output and not quiet:
        line = f"{output}: {encoded.rows:,} x {encoded.dimensions}"
        # Rows that an interrupted run of the same command wrote.
        if encoded.before:
            line += f", {encoded.before:,} of them before this run"
        display.say(line, err=True)
