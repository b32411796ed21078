"""``mirrorbench encode``: vectors of a file's texts, or of marked words in context."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mirrorbench.cli.options import DataDir, Device, Encoder, Offline, PluginFiles, split_names

Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="One text a line; or .jsonl, .tsv, .csv, .parquet; .gz too; - is standard input."
    ),
]
VectorFile = Annotated[
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
    texts: Source,
    encoder: Encoder,
    output: VectorFile = None,
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
    from mirrorbench.texts.encode import check_vector_file, encode_file, encoded_chunks, json_line
    from mirrorbench.texts.reading import read_inputs

    spans = split_names([span_columns])
    if len(spans) not in (0, 2):
        raise UsageError(f"--span-columns {span_columns} names {len(spans)} columns", "Write START,END.")
    in_context = words_in_context or bool(spans)
    if in_context and level:
        raise UsageError("--level does not go with words in context, which have a recipe of their own")
    if output:
        check_vector_file(output)
    inputs = read_inputs(texts, column, in_context, spans)
    opened = load(encoder, "wic" if in_context else level or "sentence", device, data_dir, offline)
    again = "; the same command goes on from there" if output else ""
    with on_interrupt(f"Interrupted{again}."), reporter(0) as display:
        display.stage(f"encode {texts}", 0, "texts")
        if not output:
            for chunk, vectors, _ in encoded_chunks(inputs, opened):
                sys.stdout.writelines(map(json_line, vectors))
                display.advance(len(chunk))
            return
        done = encode_file(inputs, opened, output, restart, display.advance)
    resumed = f", {done.before:,} of them before this run" if done.before else ""
    errors.print(
        f"{output}: {done.rows:,} x {done.dimensions}{resumed}", markup=False, highlight=False, soft_wrap=True
    )  # fmt: skip
