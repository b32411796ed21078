"""The analyses: one function each, called by name with the options in ``ANALYSES``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mirrorbench.analysis import ANALYSES, STUDY_OPTIONS, figures, geometry, scores
from mirrorbench.analysis.layers import (
    LayerSums,
    Rows,
    Sentence,
    draw_samples,
    top_layer_means,
    words_in,
)
from mirrorbench.analysis.scores import Series
from mirrorbench.analysis.study import (
    Analysis,
    NothingAnalysedError,
    StoredByLabel,
    Study,
    described,
    task_title,
)
from mirrorbench.analysis.words_in_context import encode_words
from mirrorbench.core.encoder_protocol import Encoder, TextInput
from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.quoting import without_texts
from mirrorbench.models.pooling import PoolingEncoder
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.reports.comparable import newest, without_repeats
from mirrorbench.reports.leaderboard import row_label
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.compute import Compute
from mirrorbench.runs.folders import Folders
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.storage.results import Result, read_results
from mirrorbench.tasks.base import Vectors, score_task


def isotropy(study: Study, texts: str, limit: int) -> Analysis:
    """Measure the isotropy of each encoder's vectors."""
    inputs, source = study.texts(texts)
    inputs = [inputs[row] for row in draw_samples(len(inputs), limit, 1, study.seed)[0]]

    def measure(cell: Cell, encoder: Encoder) -> dict[str, Any]:
        return geometry.measure_isotropy(study.encode(cell, encoder, inputs)[0])

    measures = study.measure_each(measure)
    rows = [{"encoder": label, **numbers} for label, numbers in measures.items()]
    values = {
        label: {name: x for name, x in row.items() if name != "dimensions"}
        for label, row in measures.items()
    }
    plot = partial(figures.isotropy_figure, rows)
    title = f"{len(inputs):,} texts of {study.title if source == study.task else Path(source).name}"
    document = {"texts": described(source, inputs)}
    return Analysis(f"isotropy-{study.task}", rows, document, plot, title=title, values=values)


def layers(study: Study, texts: str, limit: int, samples: int) -> Analysis:
    """Measure task score and geometry of each layer."""
    for spec in (cell.spec for cell in study.plan.cells if cell.model.posts):
        raise UsageError(
            f"{spec}: single layers are not transformed", "Leave post= out of the encoder spec."
        )
    inputs, source = study.texts(texts)
    sentences = words_in(dict.fromkeys(item.text for item in inputs))
    if not sentences:
        raise UsageError(f"no text of {source} has two words", "Name sentences: --texts FILE")
    drawn = draw_samples(len(sentences), limit, samples, study.seed)
    union = np.unique(np.concatenate(drawn))
    sentences = [sentences[row] for row in union]
    drawn = [np.searchsorted(union, rows) for rows in drawn]
    measures = study.measure_each(partial(_measure_layers, study, sentences, drawn))
    task = study.plugins.tasks[study.task]
    rows = [
        {"encoder": label, **numbers}
        for label, (measured, _) in measures.items()
        for numbers in measured
    ]
    texts_read = described(source, [TextInput(sentence.words[0].text) for sentence in sentences])
    document = {
        "metric": task.main_metric,
        "texts": texts_read,
        "samples": [len(sample) for sample in drawn],
        "words": {label: words for label, (_, words) in measures.items()},
    }
    metric = f"{task.title}: {task.main_metric.replace('_', ' ')}"
    title = f"{study.title}; {len(sentences):,} sentences of {'it' if source == study.task else Path(source).name}"
    values = {
        label: {"n": words, **top_layer_means(measured)}
        for label, (measured, words) in measures.items()
    }
    plot = partial(
        figures.layers_figure,
        {label: measured for label, (measured, _) in measures.items()},
        metric,
    )
    return Analysis(f"layers-{study.task}", rows, document, plot, title=title, values=values)


def _measure_layers(
    study: Study,
    sentences: Sequence[Sentence],
    samples: Sequence[Rows],
    cell: Cell,
    encoder: Encoder,
) -> tuple[list[dict[str, Any]], int]:
    """Measures of every layer, and their number of words; each text is encoded once for all layers."""
    if cell.pooling is None or not isinstance(encoder, PoolingEncoder):
        raise UsageError(
            f"{cell.spec} is an encoder system, whose layers cannot be read",
            "Name a backbone, such as tiny, bert or ./my-model.",
        )
    if not isinstance(encoder, TransformerEncoder):
        raise UsageError(
            f"{cell.spec} stands for several models here", "Name a task in one language."
        )
    n_layers = encoder.transformer.model.config.num_hidden_layers + 1
    poolings = [replace(cell.pooling, layers=str(n)) for n in range(n_layers)]
    plugins, reporter = study.plugins, study.reporter
    task = plugins.tasks[study.task].reading(study.protocol, cell.pooling.of_target)
    items = task.load(study.folders.data)
    inputs = list(dict.fromkeys(task.inputs(items)))
    task_scores = [
        score_task(task, items, Vectors(inputs, array), study.protocol, plugins.metrics).metrics[
            task.main_metric
        ]
        for array in study.encode(cell, encoder, inputs, poolings)
    ]
    sums = LayerSums(sentences, study.seed)
    reporter.stage("encoding", str(cell.spec), len(sentences), "sentences")
    at_words = [replace(pooling, mode="target") for pooling in poolings]
    for index, vectors in encode_words(
        encoder, [sentence.words for sentence in sentences], at_words, reporter.advance
    ):
        sums.add(index, vectors)
    if not sums.n_words:
        problem = (
            f"{cell.spec} reads {cell.pooling.max_length} tokens, and all sentences are longer"
        )
        raise UsageError(problem, "Add a larger max_length to the encoder spec.")
    return sums.measure(samples, task_scores), sums.n_words


def sense_examples(study: Study, word: str, texts: str) -> geometry.SenseExamples:
    """Return the contexts of a word of the task, or those in a file; by default our own of *spring*."""
    if word and texts:
        raise UsageError(
            "--word (a word of the task) and --texts (a file) exclude each other",
            "Give one of them.",
        )
    if texts:
        return geometry.read_examples(texts)
    if not word:
        return geometry.own_examples("spring")
    senses = study.plugins.tasks[study.task].senses(study.items, word)
    return geometry.task_examples(word, senses, study.task)


def projection(study: Study, word: str, texts: str, method: str) -> Analysis:
    """Project the contexts of a word to two dimensions, by sense."""
    examples = sense_examples(study, word, texts)
    vectors = study.measure_each(
        lambda cell, encoder: study.encode(cell, encoder, examples.inputs)[0]
    )
    points = {
        label: geometry.project(array, method, study.seed) for label, array in vectors.items()
    }
    rows = [
        {
            "encoder": label,
            "sense": sense,
            **({} if without_texts() else {"text": bracketed(item)}),
            "x": x,
            "y": y,
        }
        for label, plane in points.items()
        for sense, item, (x, y) in zip(
            examples.senses, examples.inputs, plane.tolist(), strict=True
        )
    ]
    counts = {"contexts": len(examples.senses), "senses": len(set(examples.senses))}
    silhouettes = {
        label: geometry.silhouette(array, examples.senses) for label, array in vectors.items()
    }
    table = [
        {"encoder": label, **counts, "silhouette": value} for label, value in silhouettes.items()
    ]
    document = {"method": method, "source": examples.source, "encodings": table}
    draw = partial(figures.projection_figure, points, examples.senses, method == "pca", silhouettes)
    values = {
        label: {"n": counts["contexts"], "silhouette": value}
        for label, value in silhouettes.items()
    }
    subject = Path(texts).stem if texts else word or "spring"
    projection_name = "t-SNE" if method == "tsne" else method.upper()
    title = f"{subject}: contexts by sense ({projection_name}); silhouettes by cosine, before projection"
    name = f"projection-{word or 'contexts'}-{method}"
    return Analysis(name, rows, document, draw, table, title=title, values=values)


def similarity(study: Study) -> Analysis:
    """Describe the cosines of similar and dissimilar pairs."""
    stored = study.predictions()
    edges = scores.shared_edges([arrays["scores"] for _, arrays in stored.values()])
    measure = partial(scores.distribution, edges=edges)
    distributions = _measure_predictions(
        study, stored, measure, "bands of pairs", "Take a task of pairs."
    )
    columns = ("n", "mean", "sd", "median")
    rows = [
        {
            "encoder": label,
            "pairs": band["name"],
            **{name: band[name] for name in columns},
            "auc": distribution["auc"],
            "overlap": distribution["overlap"],
        }
        for label, distribution in distributions.items()
        for band in distribution["bands"]
    ]
    values = {
        label: {"n": sum(band["n"] for band in distribution["bands"]), "auc": distribution["auc"]}
        | {band["name"]: band["mean"] for band in distribution["bands"]}
        for label, distribution in distributions.items()
    }
    draw = partial(figures.similarity_figure, distributions)
    title, document = f"{study.title}: pairs by their judgement", {"distributions": distributions}
    return Analysis(f"similarity-{study.task}", rows, document, draw, title=title, values=values)


def roc(study: Study) -> Analysis:
    """Compute the ROC curves of a task with binary labels."""
    hint = "Take a task with binary labels: qnli, wic ..."
    roc_curves = _measure_predictions(
        study, study.predictions(), scores.roc_curve, "ROC curve", hint
    )
    rows = [
        {"encoder": label, "fpr": x, "tpr": y, "threshold": threshold}
        for label, curve in roc_curves.items()
        for x, y, threshold in zip(curve["fpr"], curve["tpr"], curve["threshold"], strict=True)
    ]
    numbers = ("auc", "positives", "negatives")
    table = [
        {"encoder": label, **{name: curve[name] for name in numbers}}
        for label, curve in roc_curves.items()
    ]
    draw, title = (
        partial(figures.roc_figure, roc_curves),
        f"{study.title}: area under the ROC curve",
    )
    return Analysis(f"roc-{study.task}", rows, {"areas": table}, draw, table, title=title)


def _measure_predictions(
    study: Study,
    stored: StoredByLabel,
    measure: Callable[[scores.Arrays], dict[str, Any]],
    noun: str,
    hint: str,
) -> dict[str, dict[str, Any]]:
    """A measure of each encoder's predictions, by label; ``UsageError`` if the task does not allow it."""
    try:
        return {label: measure(arrays) for label, (_, arrays) in stored.items()}
    except ValueError as error:
        raise UsageError(f"the task {study.task} has no {noun}: {error}", hint) from error


def errors(study: Study, show: int) -> Analysis:
    """Compare the answers (for graded tasks: ranks) of two encoders, item by item."""
    specs = [str(cell.spec) for cell in study.plan.cells]
    if len(specs) + len(study.failures) != 2:
        raise UsageError(
            f"errors compares two encoders, but got {len(specs)}: {', '.join(specs)}",
            "Name two with their methods: -e BACKBONE+base -e BACKBONE+mirror",
        )
    stored = study.predictions()
    if len(stored) < 2:
        raise NothingAnalysedError
    (first_result, first), (second_result, second) = stored.values()
    ids = [str(item) for item in first["ids"]]
    if ids != [str(item) for item in second["ids"]]:
        raise UsageError(
            f"the two encoders were scored on different items of {study.task}", "Run both again."
        )
    before, after = (
        scores.answers(arrays, result.metrics.get("threshold"))
        for result, arrays in stored.values()
    )
    if graded := before is None or after is None:
        rows = scores.shifted_ranks(ids, first["gold"], first["scores"], second["scores"])
        better, worse = (
            [row for row in rows if row["gain"] > 0],
            [row for row in rows if row["gain"] < 0],
        )
    else:
        rows = scores.changed_answers(ids, first["gold"], before, after)
        better, worse = (
            [r for r in rows if r["after"] == r["gold"]],
            [r for r in rows if r["after"] != r["gold"]],
        )
    texts = _texts_of(study.items)
    for row in () if without_texts() else rows:
        row["texts"] = texts.get(row["id"], "")
    counts = (
        {}
        if graded
        else {
            "items": len(ids),
            "changed": len(rows),
            "corrected": len(better),
            "new_true_positives": sum(row["gold"] for row in better),
            "spoiled": len(worse),
            "new_false_positives": sum(1 - row["gold"] for row in worse),
        }
    )
    document = {"cell_ids": [first_result.cell_id, second_result.cell_id], **counts}
    draw = partial(figures.errors_figure, better, worse, list(stored), graded)
    summary = "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in counts.items())
    title = f"{study.title}: items whose {'rank' if graded else 'answer'} changes"
    return Analysis(
        f"errors-{study.task}", rows, document, draw, better[:show] + worse[:show], summary, title
    )


def _texts_of(items: Any) -> dict[str, str]:
    """The texts of pairs and words in context, by id of the item."""
    texts = {}
    for item in getattr(items, "occurrences", items):
        sides = [getattr(item, name) for name in ("left", "right", "target") if hasattr(item, name)]
        if sides and hasattr(item, "id"):
            texts[str(item.id)] = " | ".join(map(bracketed, sides))
    return texts


def bracketed(side: object) -> str:
    """Return a text with its target words in square brackets."""
    if not isinstance(side, TextInput):
        return str(side)
    text = side.text
    for start, end in sorted(side.spans, reverse=True):
        text = f"{text[:start]}[{text[start:end]}]{text[end:]}"
    return text


def curves(
    study: Study, results: Sequence[str | Path], x: str, tasks: Sequence[str], log: bool
) -> Analysis:
    """Draw scores by a tuning hyper-parameter, from the results of a sweep."""
    plugins = study.plugins
    folders = [*map(Path, results)] or [study.folders.results.root]
    series = scores.curves_over(_results(study, folders, tasks), x)
    if not series:
        raise UsageError(
            f"no encoder has results for two values of {x}",
            f"Make some: mirrorbench run -e BACKBONE+mirror:{x}=A -e BACKBONE+mirror:{x}=B -t TASK",
        )
    if log and any(point["x"] <= 0 for curve in series for point in curve.points):
        raise UsageError(
            f"{x} is not positive in some results, so it has no logarithm", "Leave --log out."
        )
    rows = [
        {
            "encoder": str(curve.spec),
            "task": curve.task,
            "protocol": curve.protocol,
            "metric": curve.metric,
            x: int(point["x"]) if point["x"].is_integer() else point["x"],
            "mean": point["mean"],
            "sd": point["sd"],
            "seeds": point["n"],
        }
        for curve in series
        for point in curve.points
    ]
    document = {"x": x, "folders": [str(folder) for folder in folders]}
    draw = partial(figures.curves_figure, _labelled(series, plugins), x, log)
    titles = dict.fromkeys(task_title(curve.task, plugins) for curve in series)
    return Analysis(f"curves-{x}", rows, document, draw, title=", ".join(titles))


def frequency(study: Study, results: Sequence[str | Path]) -> Analysis:
    """Count the words of a task in each frequency bucket, beside the scores after tuning on each."""
    task, plugins = study.task, study.plugins
    inputs = plugins.tasks[task].inputs(study.items)
    folders = [*map(Path, results)] or [study.folders.results.root]
    series = []
    if (
        results or folders[0].is_dir()
    ):  # the default folder may be missing: counting words needs no results
        series = scores.curves_over(
            _results(study, folders, [task]), "corpus", scores.bucket, least=1
        )
    corpora = [
        (entry.name, entry.value.generate())
        for entry in plugins.corpora
        if scores.bounds(entry.name)
    ]
    rows = scores.count_words([item.text for item in inputs], corpora)
    if not series:
        study.reporter.note(
            f"No results of {task} for any bucket; make some: mirrorbench run -e BACKBONE+mirror:corpus="
            f"{rows[0]['corpus']} ... -t {task}"
        )
    document = {
        "task": task,
        "words": {"outside": 1 - sum(row["share"] for row in rows)},
        "series": series,
    }
    labelled = _labelled(series, plugins)
    for row in rows:
        for label, curve in labelled.items():
            point = curve.at(scores.middle(row["corpus"]) or 0.0)
            row |= {label: point["mean"], f"{label} sd": point["sd"]}
    draw = partial(figures.frequency_figure, rows, labelled)
    return Analysis(f"frequency-{task}", rows, document, draw, title=study.title)


def _results(study: Study, folders: Sequence[Path], tasks: Sequence[str]) -> list[Result]:
    """The results in folders on some tasks (empty: all), all of the same computation."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder} with results", "Make some: mirrorbench run"
            )
    names = expand_tasks(tasks, study.plugins)
    read = [
        result
        for folder in folders
        for result in read_results(folder)
        if not names or result.task in names
    ]
    chosen, remarks = newest(
        without_repeats(read), f"mirrorbench leaderboard {' '.join(map(str, folders))} says how"
    )
    for remark in remarks:
        study.reporter.note(remark)
    return chosen


def _labelled(series: Sequence[Series], plugins: Plugins) -> dict[str, Series]:
    """Curves by label: the encoder, and task, metric and protocol if there are several."""
    several_tasks = len({curve.task for curve in series}) > 1
    several_protocols = len({curve.protocol for curve in series}) > 1
    several_metrics = len({curve.metric for curve in series}) > 1
    labelled: dict[str, Series] = {}
    for curve in series:
        name = row_label(curve.spec, plugins)
        if several_tasks:
            name += f", {plugins.tasks[curve.task].title if curve.task in plugins.tasks else curve.task}"
        if several_metrics:
            name += f": {curve.metric.replace('_', ' ')}"
        if several_protocols:
            name += f" [{curve.protocol}]"
        labelled[name if name not in labelled else f"{curve.spec}, {curve.task}"] = curve
    return labelled


def analyze(
    name: str,
    options: Mapping[str, Any],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
) -> Analysis:
    """Run one of ``ANALYSES``; ``UnknownNameError`` for an unknown name or option.

    The option ``encoders`` holds specs (a bare backbone stands for the ladder of the task's level), ``task`` decides
    level, language and tuning corpus, ``texts`` names a corpus or a file, ``results`` are folders.
    """
    if name not in ANALYSES:
        raise unknown_name("analysis", name, list(ANALYSES))
    for option in options:
        if option not in ANALYSES[name]:
            raise unknown_name(f"option of the analysis {name}", option, list(ANALYSES[name]))
    given = {**ANALYSES[name], **options}
    of_study = {option: given.pop(option) for option in STUDY_OPTIONS if option in given}
    study = Study(plugins, folders, compute, reporter, **of_study)
    return run_analysis(study, name, given)


def run_analysis(study: Study, name: str, options: dict[str, Any]) -> Analysis:
    """Run an analysis of a study; ``options`` are all that the analysis has beside ``STUDY_OPTIONS``."""
    try:
        analysis: Analysis = globals()[name](study, **options)
    except NothingAnalysedError:
        analysis = Analysis(name, [], {}, None)
    document = study.describe() if study.encoders else {}
    return replace(analysis, document={**document, **analysis.document}, failures=study.failures)
