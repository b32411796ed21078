"""The analyses: one function each, called by name with the options in ``ANALYSES``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    describe_inputs,
    task_title,
)
from mirrorbench.analysis.words_in_context import encode_words
from mirrorbench.core.encoder_protocol import Array, Encoder, TextInput
from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.quoting import without_texts
from mirrorbench.models.pooling import Pooling, PoolingEncoder
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
    """Measure the isotropy of each encoder's vectors of texts; return a row for each encoder.

    ``texts`` is a corpus or a file; empty for the texts of the task. At most ``limit`` texts are drawn; 0 for all.
    """
    all_inputs, source = study.texts(texts)
    (sample,) = draw_samples(len(all_inputs), limit, 1, study.seed)
    inputs = [all_inputs[row] for row in sample]

    def measure(cell: Cell, encoder: Encoder) -> dict[str, Any]:
        # One array, since the cell has one pooling.
        (vectors,) = study.encode(cell, encoder, inputs)
        return geometry.measure_isotropy(vectors)

    rows = []
    # What the papers' tables may show of each encoder.
    values = {}
    for label, measures in study.measure_each(measure).items():
        rows.append({"encoder": label, **measures})
        values[label] = {name: x for name, x in measures.items() if name != "dimensions"}
    draw = partial(figures.isotropy_figure, rows)
    source_title = study.title if source == study.task else Path(source).name
    title = f"{len(inputs):,} texts of {source_title}"
    document = {"texts": describe_inputs(source, inputs)}
    return Analysis(f"isotropy-{study.task}", rows, document, draw, title=title, values=values)


@dataclass(frozen=True, slots=True)
class _LayerMeasures:
    """The measures of all layers of an encoder."""

    rows: list[dict[str, Any]]
    """Measures of each layer, by column name."""
    n_words: int
    """Number of words that were encoded."""


def layers(study: Study, texts: str, limit: int, samples: int) -> Analysis:
    """Measure the task score and the geometry of each layer; return a row for each encoder and layer.

    The geometry is that of the words of ``samples`` random samples of ``limit`` sentences; ``limit`` 0 for all.
    """
    for cell in study.plan.cells:
        if cell.model.posts:
            raise UsageError(
                f"{cell.spec}: single layers are not transformed",
                "Leave post= out of the encoder spec.",
            )
    inputs, source = study.texts(texts)
    sentences = words_in(dict.fromkeys(item.text for item in inputs))
    if not sentences:
        raise UsageError(f"no text of {source} has two words", "Name sentences: --texts FILE")
    sentence_samples = draw_samples(len(sentences), limit, samples, study.seed)
    # Only sentences in a sample are encoded, so the samples become indices of those sentences.
    sampled = np.unique(np.concatenate(sentence_samples))
    sentences = [sentences[row] for row in sampled]
    sentence_samples = [np.searchsorted(sampled, sample) for sample in sentence_samples]

    measure = partial(_measure_layers, study, sentences, sentence_samples)
    measures_by_label = study.measure_each(measure)
    rows = []
    # What the papers' tables may show of each encoder: the means over its last layers.
    values = {}
    for label, measures in measures_by_label.items():
        rows += [{"encoder": label, **layer} for layer in measures.rows]
        values[label] = {"n": measures.n_words, **top_layer_means(measures.rows)}

    task = study.plugins.tasks[study.task]
    # Every word of a sentence has the text of the sentence.
    encoded_texts = [TextInput(sentence.words[0].text) for sentence in sentences]
    document = {
        "metric": task.main_metric,
        "texts": describe_inputs(source, encoded_texts),
        "samples": [len(sample) for sample in sentence_samples],
        "words": {label: measures.n_words for label, measures in measures_by_label.items()},
    }
    draw = partial(
        figures.layers_figure,
        {label: measures.rows for label, measures in measures_by_label.items()},
        f"{task.title}: {task.main_metric.replace('_', ' ')}",
    )
    source_title = "the task" if source == study.task else Path(source).name
    title = f"{study.title}; {len(sentences):,} sentences of {source_title}"
    return Analysis(f"layers-{study.task}", rows, document, draw, title=title, values=values)


def _measure_layers(
    study: Study,
    sentences: Sequence[Sentence],
    samples: Sequence[Rows],
    cell: Cell,
    encoder: Encoder,
) -> _LayerMeasures:
    """Return each layer's score on the task and geometry of the sentences' words; a text is encoded once for all.

    Raises:
        UsageError: the layers cannot be read, or all sentences are too long for the encoder.
    """
    # Only backbones have a pooling and layers.
    if cell.pooling is None or not isinstance(encoder, PoolingEncoder):
        raise UsageError(
            f"{cell.spec} is an encoder system, whose layers cannot be read",
            "Name a backbone, such as tiny, bert or ./my-model.",
        )
    # A backbone with a model for each language of the task is no single transformer.
    if not isinstance(encoder, TransformerEncoder):
        raise UsageError(
            f"{cell.spec} stands for several models here", "Name a task in one language."
        )
    n_layers = encoder.transformer.model.config.num_hidden_layers + 1  # 0: the embeddings
    poolings = [replace(cell.pooling, layers=str(layer)) for layer in range(n_layers)]
    task_scores = _score_layers(study, cell, encoder, poolings)

    sums = LayerSums(sentences, study.seed)
    study.reporter.stage("encoding", str(cell.spec), len(sentences), "sentences")
    # The vector of a word is the mean of its tokens in a layer.
    word_poolings = [replace(pooling, mode="target") for pooling in poolings]
    words_by_sentence = [sentence.words for sentence in sentences]
    encoded = encode_words(encoder, words_by_sentence, word_poolings, study.reporter.advance)
    for index, vectors in encoded:
        sums.add(index, vectors)
    # Sentences that are too long for the encoder are left out, here all of them.
    if not sums.n_words:
        raise UsageError(
            f"{cell.spec} reads {cell.pooling.max_length} tokens, and all sentences are longer",
            "Add a larger max_length to the encoder spec.",
        )
    return _LayerMeasures(sums.measure(samples, task_scores), sums.n_words)


def _score_layers(
    study: Study, cell: Cell, encoder: TransformerEncoder, poolings: Sequence[Pooling]
) -> list[float | None]:
    """Return the main score on the task for the vectors of each pooling."""
    of_target = poolings[0].of_target
    task = study.plugins.tasks[study.task].reading(study.protocol, of_target)
    items = task.load(study.folders.data)
    inputs = list(dict.fromkeys(task.inputs(items)))
    main_scores = []
    for array in study.encode(cell, encoder, inputs, poolings):
        vectors = Vectors(inputs, array)
        task_score = score_task(task, items, vectors, study.protocol, study.plugins.metrics)
        main_scores.append(task_score.metrics[task.main_metric])
    return main_scores


_DEFAULT_WORD = "spring"
"""The word of a projection that names neither a word nor a file."""


def sense_examples(study: Study, word: str, texts: str) -> geometry.SenseExamples:
    """Return the contexts of a word of the task, or those in a file; by default the package's contexts of *spring*."""
    if word and texts:
        raise UsageError(
            "--word (a word of the task) and --texts (a file) exclude each other",
            "Give one of them.",
        )
    if texts:
        return geometry.read_examples(texts)
    if not word:
        return geometry.bundled_examples(_DEFAULT_WORD)
    senses = study.plugins.tasks[study.task].senses(study.items, word)
    return geometry.task_examples(word, senses, study.task)


def projection(study: Study, word: str, texts: str, method: str) -> Analysis:
    """Project each encoder's vectors of a word's contexts to two dimensions; return a row for each context.

    The shorter table has a row for each encoder: how well its vectors, before projection, separate the senses.
    """
    examples = sense_examples(study, word, texts)

    def encode(cell: Cell, encoder: Encoder) -> Array:
        # One array, since the cell has one pooling.
        (vectors,) = study.encode(cell, encoder, examples.inputs)
        return vectors

    vectors_by_label = study.measure_each(encode)
    points = {
        label: geometry.project(vectors, method, study.seed)
        for label, vectors in vectors_by_label.items()
    }
    rows = _context_rows(points, examples)

    n_contexts = len(examples.senses)
    n_senses = len(set(examples.senses))
    silhouettes = {}
    table = []
    # What the papers' tables may show of each encoder.
    values = {}
    for label, vectors in vectors_by_label.items():
        silhouette = geometry.silhouette(vectors, examples.senses)
        silhouettes[label] = silhouette
        table.append(
            {
                "encoder": label,
                "contexts": n_contexts,
                "senses": n_senses,
                "silhouette": silhouette,
            }
        )
        values[label] = {"n": n_contexts, "silhouette": silhouette}
    document = {"method": method, "source": examples.source, "encodings": table}
    # The components of a PCA are axes with a meaning; those of the other methods have none.
    axis_names = method == "pca"
    draw = partial(figures.projection_figure, points, examples.senses, axis_names, silhouettes)
    subject = Path(texts).stem if texts else word or _DEFAULT_WORD
    method_name = "t-SNE" if method == "tsne" else method.upper()
    title = (
        f"{subject}: contexts by sense ({method_name}); silhouettes by cosine, before projection"
    )
    name = f"projection-{word or 'contexts'}-{method}"
    return Analysis(name, rows, document, draw, table, title=title, values=values)


def _context_rows(
    points: Mapping[str, NDArray[np.float64]], examples: geometry.SenseExamples
) -> list[dict[str, Any]]:
    """Return a row for each encoder and context: sense, text (if texts may be shown), and place in the figure."""
    show_texts = not without_texts()
    rows: list[dict[str, Any]] = []
    for label, plane in points.items():
        contexts = zip(examples.senses, examples.inputs, plane.tolist(), strict=True)
        for sense, item, (x, y) in contexts:
            row = {"encoder": label, "sense": sense}
            if show_texts:
                row["text"] = with_bracketed_targets(item)
            rows.append({**row, "x": x, "y": y})
    return rows


def similarity(study: Study) -> Analysis:
    """Describe cosines in bands of pairs, from dissimilar to similar; return a row for each encoder and band."""
    stored = study.predictions()
    # The histograms of all encoders have the same bins.
    edges = scores.shared_edges([predictions["scores"] for _, predictions in stored.values()])
    measure = partial(scores.distribution, edges=edges)
    distributions = _measure_predictions(
        study, stored, measure, "bands of pairs", "Take a task of pairs."
    )
    rows = []
    values = {}
    for label, distribution in distributions.items():
        bands = distribution["bands"]
        for band in bands:
            rows.append(
                {
                    "encoder": label,
                    "pairs": band["name"],
                    "n": band["n"],
                    "mean": band["mean"],
                    "sd": band["sd"],
                    "median": band["median"],
                    "auc": distribution["auc"],
                    "overlap": distribution["overlap"],
                }
            )
        n_pairs = sum(band["n"] for band in bands)
        band_means = {band["name"]: band["mean"] for band in bands}
        values[label] = {"n": n_pairs, "auc": distribution["auc"], **band_means}
    draw = partial(figures.similarity_figure, distributions)
    document = {"distributions": distributions}
    title = f"{study.title}: pairs by their judgement"
    return Analysis(f"similarity-{study.task}", rows, document, draw, title=title, values=values)


def roc(study: Study) -> Analysis:
    """Compute the ROC curves of a task with binary labels: a row for each point, and a table of the areas."""
    hint = "Take a task with binary labels: qnli, wic ..."
    roc_curves = _measure_predictions(
        study, study.predictions(), scores.roc_curve, "ROC curve", hint
    )
    rows = []
    table = []
    for label, curve in roc_curves.items():
        points = zip(curve["fpr"], curve["tpr"], curve["threshold"], strict=True)
        for false_rate, true_rate, threshold in points:
            rows.append(
                {"encoder": label, "fpr": false_rate, "tpr": true_rate, "threshold": threshold}
            )
        table.append(
            {
                "encoder": label,
                "auc": curve["auc"],
                "positives": curve["positives"],
                "negatives": curve["negatives"],
            }
        )
    draw = partial(figures.roc_figure, roc_curves)
    title = f"{study.title}: area under the ROC curve"
    return Analysis(f"roc-{study.task}", rows, {"areas": table}, draw, table, title=title)


def _measure_predictions(
    study: Study,
    stored: StoredByLabel,
    measure: Callable[[scores.Arrays], dict[str, Any]],
    noun: str,
    hint: str,
) -> dict[str, dict[str, Any]]:
    """Return a measure of each encoder's predictions, by label; ``UsageError`` if the task does not allow it."""
    try:
        return {label: measure(arrays) for label, (_, arrays) in stored.items()}
    except ValueError as error:
        raise UsageError(f"the task {study.task} has no {noun}: {error}", hint) from error


def errors(study: Study, show: int) -> Analysis:
    """Compare the answers (for graded tasks: ranks) of two encoders; return a row for each item that changes.

    Of a graded task, the rows are all items. The shorter table has the ``show`` largest changes for the better, then as
    many for the worse.
    """
    planned = [str(cell.spec) for cell in study.plan.cells]
    # Before the run, the failures are the encoders that cannot be planned.
    specs = planned + [str(failure.spec) for failure in study.failures]
    if len(specs) != 2:
        raise UsageError(
            f"errors compares two encoders, but got {len(specs)}: {', '.join(specs)}",
            "Name two with their methods: -e BACKBONE+base -e BACKBONE+mirror",
        )
    stored = study.predictions()
    # One of the two failed, so there is nothing to compare it with.
    if len(stored) < 2:
        raise NothingAnalysedError
    first, second = stored.values()
    changes = _compare_answers(study.task, first, second)
    if not without_texts():
        texts = _texts_by_id(study.items)
        # The rows of ``better`` and ``worse`` are the same objects, so they get the texts too.
        for row in changes.rows:
            row["texts"] = texts.get(row["id"], "")
    first_result, _ = first
    second_result, _ = second
    document = {"cell_ids": [first_result.cell_id, second_result.cell_id], **changes.counts}
    draw = partial(
        figures.errors_figure, changes.better, changes.worse, list(stored), changes.graded
    )
    summary = "; ".join(f"{key.replace('_', ' ')}: {n}" for key, n in changes.counts.items())
    changing = "rank" if changes.graded else "answer"
    title = f"{study.title}: items whose {changing} changes"
    table = changes.better[:show] + changes.worse[:show]
    return Analysis(f"errors-{study.task}", changes.rows, document, draw, table, summary, title)


@dataclass(frozen=True, slots=True)
class _Changes:
    """The items of a task that two encoders answer differently; of a graded task, those that they rank differently."""

    graded: bool
    """Whether the judgements of the task are graded."""
    rows: list[dict[str, Any]]
    """The changed items of a binary task, all items of a graded one; the largest change comes first."""
    better: list[dict[str, Any]]
    """The rows in which the second encoder is right, or nearer to the gold rank."""
    worse: list[dict[str, Any]]
    """The rows in which the second encoder is wrong, or further from the gold rank."""
    counts: dict[str, int]
    """Numbers of items, changed items and kinds of changes; empty for graded tasks."""


def _compare_answers(
    task: str, first: tuple[Result, scores.Arrays], second: tuple[Result, scores.Arrays]
) -> _Changes:
    """Compare the predictions of two encoders: their answers, or their ranks if judgements are graded.

    Raises:
        UsageError: the predictions are of different items.
    """
    first_result, first_arrays = first
    second_result, second_arrays = second
    ids = [str(item) for item in first_arrays["ids"]]
    if ids != [str(item) for item in second_arrays["ids"]]:
        raise UsageError(
            f"the two encoders were scored on different items of {task}", "Run both again."
        )
    gold = first_arrays["gold"]
    before = scores.answers(first_arrays, first_result.metrics.get("threshold"))
    after = scores.answers(second_arrays, second_result.metrics.get("threshold"))
    # ``answers`` returns None for graded judgements, which have no right answer: compare ranks.
    if before is None or after is None:
        rows = scores.shifted_ranks(ids, gold, first_arrays["scores"], second_arrays["scores"])
        better = [row for row in rows if row["gain"] > 0]
        worse = [row for row in rows if row["gain"] < 0]
        return _Changes(True, rows, better, worse, {})
    rows = scores.changed_answers(ids, gold, before, after)
    corrected = [row for row in rows if row["after"] == row["gold"]]
    spoiled = [row for row in rows if row["after"] != row["gold"]]
    counts = {
        "items": len(ids),
        "changed": len(rows),
        "corrected": len(corrected),
        "new_true_positives": sum(row["gold"] for row in corrected),
        "spoiled": len(spoiled),
        "new_false_positives": sum(1 - row["gold"] for row in spoiled),
    }
    return _Changes(False, rows, corrected, spoiled, counts)


def _texts_by_id(items: Any) -> dict[str, str]:
    """Return the texts of pairs and words in context, by id of the item; other items are left out."""
    texts = {}
    for item in getattr(items, "occurrences", items):
        sides = [getattr(item, name) for name in ("left", "right", "target") if hasattr(item, name)]
        if sides and hasattr(item, "id"):
            texts[str(item.id)] = " | ".join(map(with_bracketed_targets, sides))
    return texts


def with_bracketed_targets(side: object) -> str:
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
    """Return scores by a tuning hyper-parameter ``x``, from stored results of a sweep: a row for each curve and x.

    ``results`` are folders; empty for the session's. ``tasks`` empty: all. ``log``: draw x on a logarithmic axis.
    """
    plugins = study.plugins
    folders = [*map(Path, results)] or [study.folders.results.root]
    series = scores.curves_over(_stored_results(study, folders, tasks), x)
    if not series:
        raise UsageError(
            f"no encoder has results for two values of {x}",
            f"Make some: mirrorbench run -e BACKBONE+mirror:{x}=A -e BACKBONE+mirror:{x}=B -t TASK",
        )
    if log and any(point["x"] <= 0 for curve in series for point in curve.points):
        raise UsageError(
            f"{x} is not positive in some results, so it has no logarithm", "Leave --log out."
        )
    rows = []
    for curve in series:
        for point in curve.points:
            value = point["x"]
            rows.append(
                {
                    "encoder": str(curve.spec),
                    "task": curve.task,
                    "protocol": curve.protocol,
                    "metric": curve.metric,
                    x: int(value) if value.is_integer() else value,
                    "mean": point["mean"],
                    "sd": point["sd"],
                    "seeds": point["n"],
                }
            )
    document = {"x": x, "folders": [str(folder) for folder in folders]}
    draw = partial(figures.curves_figure, _curves_by_label(series, plugins), x, log)
    titles = dict.fromkeys(task_title(curve.task, plugins) for curve in series)
    return Analysis(f"curves-{x}", rows, document, draw, title=", ".join(titles))


def frequency(study: Study, results: Sequence[str | Path]) -> Analysis:
    """Count the words of a task in each frequency bucket; return a row for each, with the scores after tuning on it."""
    task = study.task
    plugins = study.plugins
    inputs = plugins.tasks[task].inputs(study.items)
    folders = [*map(Path, results)] or [study.folders.results.root]
    series: list[Series] = []
    # The default folder may be missing: counting words needs no results.
    if results or folders[0].is_dir():
        stored = _stored_results(study, folders, [task])
        # A curve over the tuning corpora that are buckets; the score of a single bucket is shown too.
        series = scores.curves_over(stored, "corpus", scores.rank_of_corpus, fewest_points=1)
    buckets = [
        (entry.name, entry.value.generate())
        for entry in plugins.corpora
        if scores.bucket_ranks(entry.name)
    ]
    rows = scores.count_words([item.text for item in inputs], buckets)
    if not series:
        study.reporter.note(
            f"No results of {task} for any bucket; make some: mirrorbench run -e BACKBONE+mirror:corpus="
            f"{rows[0]['corpus']} ... -t {task}"
        )
    # The share of the task's words that are in no bucket.
    share_outside = 1 - sum(row["share"] for row in rows)
    document = {"task": task, "words": {"outside": share_outside}, "series": series}
    curves_by_label = _curves_by_label(series, plugins)
    # Add the scores of each curve to the rows, in columns under its label.
    for row in rows:
        # The points of a curve are at the middle ranks of buckets.
        middle = scores.middle_rank(row["corpus"])
        assert middle is not None  # the corpus of a row is a bucket
        for label, curve in curves_by_label.items():
            # Without results for the bucket, mean and deviation are None.
            point = curve.at(middle)
            row[label] = point["mean"]
            row[f"{label} sd"] = point["sd"]
    draw = partial(figures.frequency_figure, rows, curves_by_label)
    return Analysis(f"frequency-{task}", rows, document, draw, title=study.title)


def _stored_results(study: Study, folders: Sequence[Path], tasks: Sequence[str]) -> list[Result]:
    """Return the results in folders on some tasks (empty: all) that are of the newest computation.

    The reporter notes which outdated ones are left out, or shown for want of newer ones.

    Raises:
        UsageError: a folder is missing.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder} with results", "Make some: mirrorbench run"
            )
    task_names = expand_tasks(tasks, study.plugins)
    stored = []
    for folder in folders:
        for result in read_results(folder):
            if not task_names or result.task in task_names:
                stored.append(result)
    folder_names = " ".join(map(str, folders))
    # The leaderboard of the folders names the commands that compute outdated results anew.
    results, notes = newest(
        without_repeats(stored), anew=f"mirrorbench leaderboard {folder_names} says how"
    )
    for note in notes:
        study.reporter.note(note)
    return results


def _curves_by_label(series: Sequence[Series], plugins: Plugins) -> dict[str, Series]:
    """Return curves by label: the encoder, and the task, metric and protocol if there are several."""
    several_tasks = len({curve.task for curve in series}) > 1
    several_protocols = len({curve.protocol for curve in series}) > 1
    several_metrics = len({curve.metric for curve in series}) > 1
    curves_by_label: dict[str, Series] = {}
    for curve in series:
        label = row_label(curve.spec, plugins)
        if several_tasks:
            task = plugins.tasks[curve.task].title if curve.task in plugins.tasks else curve.task
            label += f", {task}"
        if several_metrics:
            label += f": {curve.metric.replace('_', ' ')}"
        if several_protocols:
            label += f" [{curve.protocol}]"
        # Different specs may have the same label: the first keeps it.
        if label in curves_by_label:
            label = f"{curve.spec}, {curve.task}"
        curves_by_label[label] = curve
    return curves_by_label


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
    analysis_options = {**ANALYSES[name], **options}
    study_options = {}
    for option in STUDY_OPTIONS:
        if option in analysis_options:
            study_options[option] = analysis_options.pop(option)
    study = Study(plugins, folders, compute, reporter, **study_options)
    return run_analysis(study, name, analysis_options)


def run_analysis(study: Study, name: str, options: dict[str, Any]) -> Analysis:
    """Run an analysis of a study; it has no rows if all encoders failed.

    ``options`` are all options of the analysis except ``STUDY_OPTIONS``.
    """
    try:
        analysis: Analysis = globals()[name](study, **options)
    except NothingAnalysedError:
        analysis = Analysis(name, [], {}, None)
    document = study.describe() if study.encoders else {}
    return replace(analysis, document={**document, **analysis.document}, failures=study.failures)
