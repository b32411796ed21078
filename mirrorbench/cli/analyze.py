"""``mirrorbench analyze``: numbers and figures of what tuning does to a space of vectors, and where it helps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrorbench.cli import analyze_results
from mirrorbench.cli.analysis_options import Asked, Results, TextsFrom, of_encoders
from mirrorbench.cli.analysis_output import leave, leave_failures, provenance

app = typer.Typer(
    help="Numbers and figures: what tuning does to a space of vectors, and where it helps.", no_args_is_help=True
)
app.command()(analyze_results.errors)
app.command()(analyze_results.curves)
app.command()(analyze_results.frequency)


@app.command()
@of_encoders("quick-sts")
def isotropy(
    asked: Asked,
    texts: TextsFrom = "",
    limit: Annotated[int, typer.Option(min=0, help="Texts to draw at random where there are more; 0: all.")] = 10_000,
) -> None:
    """How evenly vectors fill their space: isotropy score, its logarithm, mean-vector norm (Mirror-BERT, Tables 9, 14).

    `mirrorbench analyze isotropy -e bert -t stsb --texts sts-sentences`
    """
    from dataclasses import asdict

    from mirrorbench.analysis import figures
    from mirrorbench.analysis.isotropy import isotropy as measure

    with asked.session() as session:
        chosen = session.texts(texts, limit)
        found = session.of_each(lambda one: measure(session.encode(one, chosen.inputs)))
    if found:
        rows = [{"encoder": label, **asdict(one)} for label, one in found.items()]
        document = {**provenance(session), "texts": chosen.describe()}
        leave(asked.output / f"isotropy-{asked.task}", rows, document, lambda: figures.isotropy(found), asked.formats)
    leave_failures(session)


@app.command()
@of_encoders("quick-sts")
def similarity(
    asked: Asked,
    results: Results = Path("results"),
) -> None:
    """Cosines of similar and dissimilar pairs, before and after tuning (Mirror-BERT, Figure 7).

    `mirrorbench analyze similarity -e bert -t qnli`
    """
    from mirrorbench.analysis import figures
    from mirrorbench.analysis import similarity as numbers
    from mirrorbench.analysis.study import scored
    from mirrorbench.core.errors import UsageError
    from mirrorbench.runs.results import ResultStore

    with asked.session() as session:
        stored = {one.label: scored(one) for one in session.predictions(ResultStore(results))}
    if stored:
        edges = numbers.shared_edges([arrays["scores"] for arrays in stored.values()])
        try:
            found = {
                label: numbers.distribution(arrays["scores"], arrays["gold"], edges) for label, arrays in stored.items()
            }
        except ValueError as error:
            raise UsageError(
                f"the task {asked.task} has no kinds of pairs: {error}", "Take a task of pairs."
            ) from error
        rows = [
            {"encoder": label, "pairs": b.name, "n": b.n, "mean": b.mean, "sd": b.sd, "median": b.median,
             "auc": one.auc, "overlap": one.overlap}
            for label, one in found.items() for b in one.bands
        ]  # fmt: skip
        document = {**provenance(session), "distributions": found}
        leave(
            asked.output / f"similarity-{asked.task}", rows, document, lambda: figures.similarity(found), asked.formats
        )
    leave_failures(session)


@app.command()
@of_encoders("quick-wic")
def layers(
    asked: Asked,
    texts: TextsFrom = "",
    limit: Annotated[int, typer.Option(min=1, help="Sentences to draw at random where there are more.")] = 300,
) -> None:
    """Layer by layer: performance, isotropy, random-word and intra-sentence similarity (MirrorWiC, Figure 2).

    `mirrorbench analyze layers -e bert -t wic --texts wic-sentences --limit 2000`
    """
    from mirrorbench.analysis import figures
    from mirrorbench.analysis.layers import words_in
    from mirrorbench.analysis.study import layers_of
    from mirrorbench.core.errors import UsageError

    with asked.session() as session:
        sentences = session.texts(texts, limit)
        words = words_in(list(dict.fromkeys(item.text for item in sentences.inputs)))
        if not words.inputs:
            raise UsageError(f"the texts of {sentences.source} have no two words", "Name sentences: --texts FILE")
        found = session.of_each(lambda one: layers_of(session, one, words))
    if found:
        from dataclasses import asdict

        metric = session.plugins.tasks[asked.task].main_metric
        rows = [{"encoder": label, **asdict(one)} for label, measured in found.items() for one in measured]
        document = {
            **provenance(session), "metric": metric, "texts": sentences.describe(), "words": len(words.inputs)
        }  # fmt: skip
        title = f"{session.plugins.tasks[asked.task].title}: {metric.replace('_', ' ')}"
        leave(
            asked.output / f"layers-{asked.task}", rows, document, lambda: figures.layers(found, title), asked.formats
        )
    leave_failures(session)


@app.command()
@of_encoders("quick-wic")
def projection(
    asked: Asked,
    word: Annotated[str, typer.Option(help="A lemma of a disambiguation task (`wsd`): all its senses there.")] = "",
    texts: Annotated[
        str,
        typer.Option(
            "--texts",
            metavar="FILE",
            show_default="sentences with spring, inside the package",
            help="Lines of a sense, a tab, and a text with the word marked: `<t>word</t>`.",
        ),
    ] = "",
    method: Annotated[str, typer.Option(help="tsne, pca, or umap (if umap-learn is installed).")] = "tsne",
) -> None:
    """The senses of a word in two dimensions (MirrorWiC, Figure 3), and how well they part (silhouette).

    `mirrorbench analyze projection -e bert -t wsd --word spring`
    """  # fmt: skip
    from mirrorbench.analysis import figures
    from mirrorbench.analysis.projection import project, silhouette
    from mirrorbench.analysis.study import shown

    with asked.session() as session:
        contexts = session.contexts(word, texts)
        vectors = session.of_each(lambda one: session.encode(one, contexts.inputs))
    if vectors:
        points = {label: project(array, method, asked.seed) for label, array in vectors.items()}
        rows = [
            {"encoder": label, "sense": sense, "text": shown(item), "x": float(x), "y": float(y)}
            for label, plane in points.items()
            for sense, item, (x, y) in zip(contexts.senses, contexts.inputs, plane, strict=True)
        ]
        table = [
            {"encoder": label, "contexts": len(array), "senses": len(set(contexts.senses)),
             "silhouette": silhouette(array, contexts.senses)}
            for label, array in vectors.items()
        ]  # fmt: skip
        document = {**provenance(session), "method": method, "source": contexts.source, "encodings": table}
        stem = asked.output / f"projection-{word or 'contexts'}-{method}"
        leave(
            stem,
            rows,
            document,
            lambda: figures.projection(points, contexts.senses, method == "pca"),
            asked.formats,
            table,
        )
    leave_failures(session)


@app.command()
@of_encoders("quick-wic")
def roc(
    asked: Asked,
    results: Results = Path("results"),
) -> None:
    """ROC curves of a task with yes and no (Mirror-BERT, Figure 4).

    `mirrorbench analyze roc -e roberta -t qnli`
    """
    from mirrorbench.analysis import figures
    from mirrorbench.analysis.roc import curve
    from mirrorbench.analysis.study import scored
    from mirrorbench.core.errors import UsageError
    from mirrorbench.runs.results import ResultStore

    with asked.session() as session:
        stored = {one.label: scored(one) for one in session.predictions(ResultStore(results))}
    try:
        found = {label: curve(arrays) for label, arrays in stored.items()}
    except ValueError as error:
        raise UsageError(
            f"the task {asked.task} has no ROC curve: {error}", "Take one of yes and no: qnli, wic ..."
        ) from error
    if found:
        rows = [
            {"encoder": label, "fpr": x, "tpr": y, "threshold": threshold}
            for label, one in found.items()
            for x, y, threshold in zip(one.fpr.tolist(), one.tpr.tolist(), one.thresholds.tolist(), strict=True)
        ]
        table = [
            {"encoder": label, "auc": one.auc, "positives": one.positives, "negatives": one.negatives}
            for label, one in found.items()
        ]
        document = {**provenance(session), "areas": table}
        leave(asked.output / f"roc-{asked.task}", rows, document, lambda: figures.roc(found), asked.formats, table)
    leave_failures(session)
