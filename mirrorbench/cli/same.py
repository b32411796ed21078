"""``mirrorbench same``: certify that an encoder's vectors are another one's, or say what the difference comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import (
    DataDir,
    Device,
    EvalPrecision,
    Json,
    Offline,
    PluginFiles,
    Quiet,
    TextColumn,
    print_json,
    print_numbers,
    say,
)
from mirrorbench.core.quoting import shown, without_texts

if TYPE_CHECKING:
    from mirrorbench.agreement.certificate import Certificate

EXIT_CODES = {"equal": 0, "cannot say": 3, "different": 4}
"""Exit code of each verdict; 1 and 2 are errors, as in the other commands."""

_First = Annotated[
    str,
    typer.Argument(
        metavar="A",
        help="The encoder that was measured: a spec or a directory.",
        autocompletion=complete("encoders"),
    ),
]
_Second = Annotated[
    str,
    typer.Argument(
        metavar="B",
        help="The encoder that is in use: a spec, a directory, or vectors:path=FILE.npy, vectors from elsewhere.",
        autocompletion=complete("encoders"),
    ),
]
_Texts = Annotated[
    str,
    typer.Option(
        "--texts",
        "-t",
        metavar="FILE",
        help="File of the texts to encode; of vectors:path=, the texts of its rows.",
        show_default="those of --data, else 200 included ones",
    ),
]
_OwnData = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="DATA",
        help="Your own labelled data, as of evaluate; the verdict is then whether scores are equal. May be repeated.",
    ),
]
_ScoreMargin = Annotated[
    float,
    typer.Option(
        "--margin", metavar="M", help="With --data: scores that differ by less are equal."
    ),
]
_Cosine = Annotated[
    float,
    typer.Option(metavar="C", help="Vectors of a text with a larger cosine are the same."),
]
_Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="With --data: folder for results.")
]


def same(
    first: _First,
    second: _Second,
    texts: _Texts = "",
    column: TextColumn = "",
    data: _OwnData = None,
    margin: _ScoreMargin = 0.01,
    cosine: _Cosine = 0.9999,
    output: _Output = Path("results"),
    device: Device = "auto",
    eval_precision: EvalPrecision = "auto",
    data_dir: DataDir = None,
    offline: Offline = False,
    as_json: Json = False,
    quiet: Quiet = False,
    plugin: PluginFiles = None,
) -> None:
    """Certify that an encoder's vectors are another one's, or say what the difference comes from.

    The exit code is 0 if they are equal, 4 if they are different and 3 if the data cannot say; 1 is a failure, and 2 a
    wrong command.

    `mirrorbench same minilm vectors:path=served.npy --texts texts.txt`

    `mirrorbench same ./my-encoder ./my-encoder:type=int8 --data ./faq.csv --margin .02`
    """
    from mirrorbench.cli.display import on_interrupt
    from mirrorbench.cli.progress import print_logged, progress_display
    from mirrorbench.session import Session

    interruption = "Interrupted. Vectors so far are kept; run the same command again to continue."
    with on_interrupt(interruption), progress_display(quiet) as reporter:
        session = Session(
            output,
            data_dir=data_dir,
            device=device,
            eval_precision=eval_precision,
            offline=offline,
            reporter=reporter,
        )
        certificate = session.same(
            first,
            second,
            texts=texts,
            column=column,
            data=data or (),
            margin=margin,
            cosine=cosine,
        )
    if as_json:
        print_json(certificate.to_json(with_texts=not without_texts()))
    else:
        print_certificate(certificate)
    if certificate.failures:
        print_logged(certificate.failures, output)
        raise typer.Exit(1)
    raise typer.Exit(EXIT_CODES[certificate.verdict])


def print_certificate(certificate: Certificate) -> None:
    """Print the verdict, how far the vectors agree, what a difference comes from, and the verdicts on data."""
    from mirrorbench.agreement.certificate import COSINES, WORST

    say(f"A: {certificate.first}\nB: {certificate.second}\nTexts: {certificate.source}\n")
    say(_verdict_sentence(certificate))
    if certificate.cause is not None:
        say(_sentence(certificate.cause.sentence))
        for detail in certificate.cause.details:
            say(_sentence(detail))
    for task in certificate.tasks:
        say(f"{task.title} ({task.metric}): {task.verdict}. {task.sentence}.")
    say()

    agreement = certificate.agreement
    head = ["texts", *[f"cosine above {value:g}" for value in COSINES], "least cosine"]
    shares = [f"{agreement.share_above(value):.1%}" for value in COSINES]
    row = [f"{len(certificate.texts):,}", *shares, f"{agreement.cosines.min():.5f}"]
    if agreement.neighbours is not None:
        head.append("same ten neighbours")
        row.append(f"{agreement.neighbours:.1%}")
    print_numbers(head, [row])
    say()
    rows = []
    for name, lengths, dimensions in zip(
        "AB",
        (agreement.first_lengths, agreement.second_lengths),
        agreement.dimensions,
        strict=True,
    ):
        rows.append([name, str(dimensions), f"{lengths.min():.4g}", f"{lengths.max():.4g}"])
    print_numbers(["", "dimensions", "shortest vector", "longest vector"], rows)
    different_rows = []
    for index in agreement.worst(WORST):
        if agreement.cosines[index] <= certificate.cosine:
            text = certificate.texts[index]
            excerpt = f"row {index}" if without_texts() else shown(text, 50)
            cosine = f"{agreement.cosines[index]:.5f}"
            different_rows.append([excerpt, f"{len(text):,}", cosine])
    if different_rows:
        say("\nThe texts that differ most:\n")
        print_numbers(["text", "characters", "cosine"], different_rows)


def _verdict_sentence(certificate: Certificate) -> str:
    """Say the verdict, and what it is about, in two sentences."""
    from mirrorbench.agreement.certificate import CANNOT_SAY, DIFFERENT, EQUAL
    from mirrorbench.reports.renderers.verdicts import margin_words

    agreement = certificate.agreement
    n = len(certificate.texts)
    n_same = round(agreement.share_above(certificate.cosine) * n)
    first_dimensions, second_dimensions = agreement.dimensions
    if certificate.has_same_vectors:
        words = f"B's vectors are A's on all {n:,} texts."
    elif first_dimensions != second_dimensions:
        words = f"B's vectors have {second_dimensions} dimensions, and A's {first_dimensions}."
    elif n_same == n:
        words = f"B's vectors have the directions of A's on all {n:,} texts, but other lengths."
    else:
        texts = "text has" if n == 1 else "texts have"
        words = f"B's vectors are not A's: {n_same:,} of {n:,} {texts} a cosine above {certificate.cosine:g}."
    if certificate.has_same_vectors or not certificate.tasks:
        return f"{certificate.verdict.capitalize()}. {words}"
    within = margin_words(certificate.margin)
    verdicts = {
        EQUAL: f"Equal scores within {within}.",
        DIFFERENT: "Different scores.",
        CANNOT_SAY: f"The data cannot say whether scores are equal within {within}.",
    }
    return f"{verdicts[certificate.verdict]} {words}"


def _sentence(words: str) -> str:
    """Return words with a capital letter and a full stop."""
    words = words[:1].upper() + words[1:]
    return words if words.endswith(".") else f"{words}."
