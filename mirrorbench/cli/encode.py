"""``mirrorbench encode``: vectors of a file's texts, or of marked words in context."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.options import DataDir, Device, Encoder, Offline, PluginFiles, split_names

if TYPE_CHECKING:
    from mirrorbench.core.inputs import TextInput


Texts = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="One text a line; or .jsonl, .tsv, .csv, .parquet; .gz too; - is standard input."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help=".npy or .parquet.", show_default="JSON lines, printed"),
]
SpanColumns = Annotated[
    str,
    typer.Option(
        "--span-columns", metavar="START,END", help="Columns of the target's characters, instead of brackets."
    ),
]


def encode(
    texts: Texts,
    encoder: Encoder,
    output: Output = None,
    column: Annotated[str, typer.Option("--column", "-c", metavar="NAME", help="Column of the texts.")] = "",
    words_in_context: Annotated[
        bool, typer.Option("--words-in-context", "-w", help="Encode the word in [brackets] in each text.")
    ] = False,
    span_columns: SpanColumns = "",
    level: Annotated[
        str, typer.Option(help="word, phrase or sentence: the recipe of a tuned encoder.", show_default="sentence")
    ] = "",
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew where a run was interrupted.")] = False,
    device: Device = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """Vectors of texts, one a line or row, blank ones included; an interrupted run goes on where it was.

    `mirrorbench encode corpus.txt.gz --encoder ./my-encoder --output vectors.npy`

    `echo "the [bank] of the river" | mirrorbench encode - -e bert --words-in-context`
    """
    from mirrorbench.cli.display import errors, reporter
    from mirrorbench.cli.output import on_interrupt
    from mirrorbench.core.errors import UsageError
    from mirrorbench.session import load
    from mirrorbench.texts.encode import Progress, encode_stream, job_key
    from mirrorbench.texts.writers import LinesSink, open_sink

    spans = split_names([span_columns])
    if len(spans) not in (0, 2):
        raise UsageError(f"--span-columns {span_columns} names {len(spans)} columns", "Write START,END.")
    in_context = words_in_context or bool(spans)
    if in_context and level:
        raise UsageError("--level does not go with words in context, which have a recipe of their own")
    sink = open_sink(output) if output else LinesSink(sys.stdout.write)
    if output and output.exists():
        raise UsageError(f"{output} exists already", "Remove it, or name another --output.")
    inputs = _inputs(texts, column, in_context, (spans[0], spans[1]) if spans else None)
    opened = load(encoder, "wic" if in_context else level or "sentence", device, data_dir, offline)
    reading = {"column": column, "in_context": in_context, "spans": spans}
    progress = Progress(output, job_key(opened, reading, output.suffix)) if output else None
    if progress and restart:
        progress.clear()
    again = "; the same command goes on from there" if output else ""
    with on_interrupt(f"Interrupted{again}."), reporter(0) as display:
        display.stage(f"encode {texts}", 0, "texts")
        done = encode_stream(inputs, opened, sink, progress, display.advance)
    if output:
        resumed = f", {done.before:,} of them before this run" if done.before else ""
        shape = f"{done.rows:,} x {done.dimensions}" if done.dimensions else f"{done.rows:,} vectors"
        errors.print(f"{output}: {shape}{resumed}", markup=False, highlight=False, soft_wrap=True)


def _inputs(source: str, column: str, in_context: bool, spans: tuple[str, str] | None) -> Iterator[TextInput]:
    from mirrorbench.core.inputs import TextInput
    from mirrorbench.texts import formats as forms

    if in_context:
        return forms.contexts(source, column, spans)
    return (TextInput(text) for text in forms.texts(source, column))
