"""``mirrorbench tune``: an encoder for one's own domain, from a file of its texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.options import Device, Encoder, Offline, PluginFiles, Precision, split_names

if TYPE_CHECKING:
    from mirrorbench.texts.report import Tuned


Texts = Annotated[
    str,
    typer.Argument(
        metavar="TEXTFILE",
        help="One text a line, or text1||text2; or .jsonl, .tsv, .csv, .parquet; .gz too; - is standard input.",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", "-c", metavar="NAME,...", help="Column of the texts; two columns are pairs."),
]
HeldOut = Annotated[
    int | None,
    typer.Option(
        "--held-out", min=0, help="Lines kept from the tuning and reported on.", show_default="500, at most 10 %"
    ),
]


def tune(
    texts: Texts,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the encoder goes.")],
    encoder: Encoder = "roberta",
    column: Columns = None,
    level: Annotated[str, typer.Option(help="word, phrase, sentence or wic: picks the recipe.")] = "sentence",
    seed: Annotated[int, typer.Option(min=0, help="Of the tuning, and of what is held out.")] = 0,
    held_out: HeldOut = None,
    device: Device = "auto",
    precision: Precision = "auto",
    force: Annotated[bool, typer.Option("--force", help="Replace an encoder that is in --output already.")] = False,
    push_to_hub: Annotated[
        str, typer.Option("--push-to-hub", metavar="REPO", help="Upload the encoder to the Hugging Face hub.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """Tune a language model on your own texts: an encoder that sentence-transformers and transformers open too.

    `mirrorbench tune my_texts.txt --encoder roberta --output my-encoder`

    `mirrorbench tune pairs.jsonl.gz -c question,answer -e roberta:epochs=2 -o qa-encoder --push-to-hub me/qa-encoder`
    """
    from mirrorbench.cli.display import errors, reporter
    from mirrorbench.cli.output import on_interrupt
    from mirrorbench.core.devices import pick_device, pick_precision
    from mirrorbench.core.specs import parse_spec
    from mirrorbench.runs.builtin import plugins
    from mirrorbench.texts import hub
    from mirrorbench.texts.export import check_output
    from mirrorbench.texts.tune import Job, reads_lines, resolve_method, tune_texts
    from mirrorbench.texts.tuning_texts import read_texts

    registered = plugins()
    spec = parse_spec(encoder)
    check_output(output, force)
    resolve_method(spec, level, None, registered)  # a mistake in the spec is told before a large file is read
    if push_to_hub:
        hub.check_repo(push_to_hub, offline)
    chosen = pick_device(device)
    read = read_texts(texts, split_names(column or []), held_out, seed, raw=reads_lines(spec))
    kind = "pairs" if read.are_pairs else "texts"
    errors.print(
        f"{texts}: {read.n_read:,} {kind}, {read.n_duplicates:,} of them repeated; {len(read.train):,} to tune on, "
        f"{len(read.held_out):,} held out",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
    job = Job(read, spec, output, level, seed, pick_precision(precision, chosen), force)
    with on_interrupt(f"Interrupted; nothing was written to {output}."), reporter(0) as display:
        tuned = tune_texts(job, registered, chosen, offline, display)
    _report(tuned)
    if push_to_hub:
        typer.echo(f"Uploaded to {hub.push(tuned.folder, push_to_hub, private)}")


def _report(tuned: Tuned) -> None:
    from mirrorbench.cli.output import print_rows
    from mirrorbench.texts.held_out import LOWER_IS_BETTER, METRICS, TITLES

    if sanity := tuned.sanity:
        rows = [
            (TITLES[m], f"{sanity.before[m]:.3f}", f"{sanity.after[m]:.3f}", _better(m in LOWER_IS_BETTER))
            for m in METRICS
        ]
        print_rows((f"on {sanity.n:,} held-out lines", "before", "after", ""), rows)
        typer.echo("\nNearest neighbours among the held-out lines:")
        for found in sanity.neighbours:
            typer.echo(f"  {_short(found.text)}\n    before: {_short(found.before)}\n    after:  {_short(found.after)}")
        typer.echo("")
    typer.echo(f"{tuned.spec}, tuned in {tuned.seconds:.0f} s: {tuned.folder}")
    typer.echo(f"Evaluate it: mirrorbench run --encoder {_as_spec(tuned.folder)} --tasks sts")


def _better(lower: bool) -> str:
    return "lower is better" if lower else "higher is better"


def _short(text: str, most: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _as_spec(folder: Path) -> str:
    """The directory as one writes it in a shell."""
    import shlex

    from mirrorbench.core.specs import EncoderSpec

    text = str(folder)
    return shlex.quote(str(EncoderSpec(text if text.startswith(("/", ".", "~")) else f"./{text}")))
