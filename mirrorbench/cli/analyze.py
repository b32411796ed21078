"""``mirrorbench analyze``: show what tuning does to vectors and scores, in numbers and figures."""

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from mirrorbench.analysis import ANALYSES
from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    DataDir,
    Device,
    Offline,
    PluginFiles,
    Protocol,
    encoders_option,
    print_rows,
    say,
    tasks_option,
)
from mirrorbench.core.specs import split_names

analyze_app = typer.Typer(
    help="Show what tuning does to vectors and scores, in numbers and figures.",
    no_args_is_help=True,
)


def _encoders(help_: str, default: str) -> Any:
    return Annotated[list[str] | None, encoders_option(help_, default)]


_Texts = Annotated[
    str,
    typer.Option(
        "--texts",
        metavar="NAME|FILE",
        help="A corpus or text file.",
        show_default="the task's texts",
        autocompletion=complete("corpora"),
    ),
]
_Results = Annotated[
    Path,
    typer.Option(
        "--results", help="Folder of results; missing results are computed and stored there."
    ),
]
_Folders = Annotated[
    list[Path] | None, typer.Argument(help="Folders of results.", show_default="results")
]
_FIRST_OPTIONS: dict[str, Any] = {
    "encoders": _encoders(
        "Specs as for `run`; a bare backbone gives several rows. May be repeated.",
        "tiny, the model inside the package",
    ),
    "task": Annotated[
        str,
        typer.Option(
            "--task",
            "-t",
            metavar="NAME",
            help="Task that determines the texts, the level, the language and the tuning corpus.",
            autocompletion=complete("tasks"),
        ),
    ],
}
_LAST_OPTIONS: dict[str, Any] = {
    "corpus": Annotated[
        str,
        typer.Option(
            help="Corpus or text file to tune on.",
            show_default="the task's own",
            autocompletion=complete("corpora"),
        ),
    ],
    "seed": Annotated[int, typer.Option(help="Seed of the tuning and of random samples.")],
    "protocol": Protocol,
    "device": Device,
    "data_dir": DataDir,
    "offline": Offline,
    "output": Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for numbers and figures.")
    ],
    "format_": Annotated[
        str,
        typer.Option(
            "--format", "-f", metavar="NAME,...", help="pdf, svg, png, or none.", show_default="pdf"
        ),
    ],
    "plugin": PluginFiles,
}
"""Options of several analyses; the special options of an analysis come between ``_FIRST_OPTIONS`` and these."""
_DEFAULTS: dict[str, Any] = {
    "results": Path("results"),
    "device": "auto",
    "data_dir": None,
    "offline": False,
    "output": Path("analysis"),
    "format_": "",
    "plugin": None,
}
"""Defaults of the options that are not parameters of an analysis in ``ANALYSES``."""


def _add_command(analysis: str, summary: str, *examples: str, **special_options: Any) -> None:
    """Add the command of an analysis to ``analyze_app``.

    Its options are the parameters of the analysis in ``ANALYSES`` and those of ``_DEFAULTS`` that it needs, with the
    defaults given there.

    Args:
        analysis: name of the analysis.
        summary: first paragraph of its help.
        examples: calls for its help, without ``mirrorbench``.
        special_options: annotations of the options that only few analyses have, or that differ for this one, by name.
    """
    help_ = "\n\n".join([summary, *(f"`mirrorbench {example}`" for example in examples)])
    defaults = _DEFAULTS | ANALYSES[analysis]
    # An analysis without encoders computes nothing on a device, and one without a task fetches no data.
    if "encoders" not in defaults:
        del defaults["device"]
    if "task" not in defaults:
        del defaults["data_dir"]
        del defaults["offline"]

    # Typer reads the options from the signature and the annotations of the function; their order is that of the help.
    annotations = {}
    parameters = []
    for name, annotation in (_FIRST_OPTIONS | special_options | _LAST_OPTIONS).items():
        # An option without a default is one that this analysis does not have.
        if name not in defaults:
            continue
        default = defaults[name]
        # For Typer, the default of an option that may be repeated is None.
        if default == ():
            default = None
        annotations[name] = annotation
        parameters.append(
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        )

    # The callback of ``--plugin`` has loaded the files in ``plugin``.
    def command(output: Path, format_: str, plugin: object, **values: Any) -> None:
        # ``None`` is a list that was not given: the analysis has its own default.
        analysis_options = {}
        for name in ANALYSES[analysis]:
            value = values.pop(name)
            if value is not None:
                analysis_options[name] = value
        # What remains are settings of the session: device, data_dir and offline.
        _analyze(analysis, analysis_options, values, output, format_)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = annotations
    analyze_app.command(analysis, help=help_)(command)


def _analyze(
    name: str, options: dict[str, Any], settings: dict[str, Any], output: Path, format_: str
) -> None:
    """Run an analysis, print its table and failures, and write its files; exit with 1 if a cell failed."""
    from mirrorbench.cli.progress import progress_display
    from mirrorbench.session import Session

    formats = _figure_formats(format_)
    if "tasks" in options:
        options["tasks"] = split_names(options["tasks"])
    with progress_display() as reporter:
        analysis = Session(reporter=reporter, **settings).analyze(name, **options)
    if analysis.summary:
        say(analysis.summary)
    # The rows may be many; some analyses have a shorter table for the screen.
    rows = analysis.rows if analysis.table is None else analysis.table
    if rows:
        head = [column.replace("_", " ") for column in rows[0]]
        print_rows(head, [list(map(cell_text, row.values())) for row in rows])
    files = analysis.write(output, formats)
    if files:
        say(f"written: {', '.join(map(str, files))}", err=True)
    for failure in analysis.failures:
        line = f"Failed: {failure.spec} on {failure.task}: {failure.reason}"
        say(f"{line}\n{failure.hint}".rstrip(), err=True)
    if analysis.failures:
        raise typer.Exit(1)


def cell_text(value: Any) -> str:
    """Format a value for the screen: numbers with four decimals or significant digits, ``None`` and NaN as a dash."""
    if value is None or value != value:
        return "–"
    if not isinstance(value, float):
        return str(value)
    if value == 0 or 0.001 <= abs(value) < 1000:
        return f"{value:.4f}"
    return f"{value:.4g}"


def _figure_formats(text: str) -> tuple[str, ...]:
    """Return the formats in a text such as ``pdf,svg`` or ``none``; if it is empty, PDF, or none without matplotlib."""
    from mirrorbench.analysis.figures import check_formats, have_matplotlib

    if not text and not have_matplotlib():
        say(
            "No figure: matplotlib is not installed (pip install 'mirrorbench[figures]').", err=True
        )
        return ()
    if text == "none":
        return ()
    return check_formats(split_names([text or "pdf"]))


_add_command(
    "errors",
    "Items whose answer (for graded tasks: rank) changes between two encoders (MirrorWiC, Table 6).",
    "analyze errors -e bert+base:pooling=target,layers=-4: -e bert+mirrorwic -t wic",
    encoders=_encoders("Two encoders: before and after tuning.", "tiny before and after MirrorWiC"),
    show=Annotated[
        int,
        typer.Option(
            min=0,
            help="Print this many items that changed for the better, and as many for the worse.",
        ),
    ],
    results=_Results,
)
_add_command(
    "curves",
    "Scores by a setting of the tuning, from the results of a sweep (Mirror-BERT, Figure 5; MirrorWiC, Figure 4).",
    "run -e tiny+mirror:corpus_size=100 -e tiny+mirror:corpus_size=300 -t quick-sts --seeds 2",
    "analyze curves --x corpus_size",
    results=_Folders,
    x=Annotated[
        str,
        typer.Option(
            "--x",
            metavar="KEY",
            help="The spec key that varies: corpus_size, dropout, span_mask ...",
        ),
    ],
    tasks=Annotated[list[str] | None, tasks_option("Tasks to draw.", "all")],
    log=Annotated[bool, typer.Option("--log", help="Use a logarithmic x axis.")],
)
_add_command(
    "frequency",
    "A task's words by frequency bucket, and scores after tuning on each bucket (Mirror-BERT, Figure 8).",
    "run -e bert+mirror:corpus=words-en-0-10k -e bert+mirror:corpus=words-en-10-20k -t multisimlex-en",
    "analyze frequency --task multisimlex-en",
    results=_Folders,
)
_add_command(
    "isotropy",
    "Isotropy of vectors: isotropy score, its logarithm, mean-vector norm (Mirror-BERT, Tables 9, 14).",
    "analyze isotropy -e bert -t stsb --texts sts-sentences",
    texts=_Texts,
    limit=Annotated[
        int, typer.Option(min=0, help="Maximum number of texts, drawn at random; 0 for all.")
    ],
)
_add_command(
    "similarity",
    "Cosines of similar and dissimilar pairs, before and after tuning (Mirror-BERT, Figure 7).",
    "analyze similarity -e bert -t qnli",
    results=_Results,
)
_add_command(
    "layers",
    "Layer by layer: performance, isotropy, random-word and intra-sentence similarity (MirrorWiC, Figure 2).",
    "analyze layers -e bert -t wic --texts wic-sentences-20k",
    texts=_Texts,
    limit=Annotated[int, typer.Option(min=1, help="Maximum number of sentences in a sample.")],
    samples=Annotated[
        int,
        typer.Option(
            min=1, help="Number of random samples of sentences; isotropy is averaged over them."
        ),
    ],
)
_add_command(
    "projection",
    "The senses of a word in two dimensions (MirrorWiC, Figure 3), and their separation (silhouette).",
    "analyze projection -e bert -t wsd:examples=all --word spring",
    word=Annotated[
        str,
        typer.Option(
            help="A lemma of a disambiguation task (`wsd`), with all its senses; for other tasks, spring or summer.",
            show_default="spring",
        ),
    ],
    texts=Annotated[
        str,
        typer.Option(
            "--texts",
            metavar="FILE",
            show_default="sentences inside the package",
            help="File of lines with a sense, a tab, and a text with the word marked: `<t>word</t>`.",
        ),
    ],
    method=Annotated[str, typer.Option(help="Projection: tsne, pca, or umap (needs umap-learn).")],
)
_add_command(
    "roc",
    "ROC curves of a task with binary labels (Mirror-BERT, Figure 4).",
    "analyze roc -e roberta -t qnli",
    results=_Results,
)
