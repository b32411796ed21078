"""The kinds of analysis, each with its options in ``KINDS``: a function that returns numbers and a way to draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from mirrorbench.analysis import figures
from mirrorbench.analysis.curves import Series, bounds, count_words, curves_over, curves_over_buckets
from mirrorbench.analysis.isotropy import measure_isotropy
from mirrorbench.analysis.layers import Layer, SentenceWords, measure_layer, words_in
from mirrorbench.analysis.projection import examples_of, project, read_examples, silhouette
from mirrorbench.analysis.report import Analysis
from mirrorbench.analysis.scores import answers, changed_answers, distribution, roc_curve, shared_edges, shifted_ranks
from mirrorbench.analysis.study import Loaded, NothingAnalysedError, Predictions, Study
from mirrorbench.core.errors import UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.build import row_label
from mirrorbench.runs.plan import expand_tasks
from mirrorbench.runs.results import Result, read_results
from mirrorbench.runs.workspace import Workspace
from mirrorbench.tasks import Vectors
from mirrorbench.tasks.base import score_task


def isotropy(study: Study, texts: str, limit: int) -> Analysis:
    """How evenly vectors fill their space."""
    inputs, described = study.texts(texts, limit)
    found = study.of_each(lambda loaded: measure_isotropy(study.encode(loaded, inputs)))
    rows = [{"encoder": label, **asdict(one)} for label, one in found.items()]
    return Analysis(f"isotropy-{study.task}", rows, {"texts": described}, partial(figures.isotropy_figure, found))


def layers(study: Study, texts: str, limit: int) -> Analysis:
    """Performance and the shape of the space, layer by layer."""
    inputs, described = study.texts(texts, limit)
    words = words_in(list(dict.fromkeys(item.text for item in inputs)))
    if not words.inputs:
        raise UsageError(f"the texts of {described['source']} have no two words", "Name sentences: --texts FILE")
    found = study.of_each(lambda loaded: _layers(study, loaded, words))
    task = study.workspace.plugins.tasks[study.task]
    rows = [{"encoder": label, **asdict(one)} for label, measured in found.items() for one in measured]
    document = {"metric": task.main_metric, "texts": described, "words": len(words.inputs)}
    title = f"{task.title}: {task.main_metric.replace('_', ' ')}"
    return Analysis(f"layers-{study.task}", rows, document, partial(figures.layers_figure, found, title))


def _layers(study: Study, loaded: Loaded, words: SentenceWords) -> list[Layer]:
    """Every layer of a model; the task's texts and the words are read in one pass each for all layers."""
    plugins = study.workspace.plugins
    task = plugins.tasks[study.task]
    inputs = list(dict.fromkeys(task.inputs(study.items)))
    own, n = loaded.layers()
    poolings = [replace(own, layers=str(layer)) for layer in range(n + 1)]
    scores = [
        score_task(task, study.items, Vectors(inputs, array), study.protocol, plugins.metrics).metrics[task.main_metric]
        for array in study.encode_pooled(loaded, inputs, poolings)
    ]
    arrays = study.encode_pooled(loaded, words.inputs, [replace(pooling, mode="target") for pooling in poolings])
    return [
        measure_layer(layer, array, words, value, study.seed)
        for layer, (array, value) in enumerate(zip(arrays, scores, strict=True))
    ]


def projection(study: Study, word: str, texts: str, method: str) -> Analysis:
    """The senses of a word in two dimensions."""
    if word and texts:
        raise UsageError("--word is looked up in a task, --texts is a file", "Give one of them.")
    examples = examples_of(word, study.items, study.task) if word else read_examples(texts)
    vectors = study.of_each(lambda loaded: study.encode(loaded, examples.inputs))
    points = {label: project(array, method, study.seed) for label, array in vectors.items()}
    rows = [
        {"encoder": label, "sense": sense, "text": bracketed(item), "x": float(x), "y": float(y)}
        for label, plane in points.items()
        for sense, item, (x, y) in zip(examples.senses, examples.inputs, plane, strict=True)
    ]
    table = [
        {"encoder": label, "contexts": len(array), "senses": len(set(examples.senses)),
         "silhouette": silhouette(array, examples.senses)}
        for label, array in vectors.items()
    ]  # fmt: skip
    document = {"method": method, "source": examples.source, "encodings": table}
    name = f"projection-{word or 'contexts'}-{method}"
    return Analysis(
        name, rows, document, partial(figures.projection_figure, points, examples.senses, method == "pca"), table
    )


def similarity(study: Study) -> Analysis:
    """Cosines of similar and dissimilar pairs."""
    stored = {one.label: one.scored for one in study.predictions()}
    edges = shared_edges([arrays["scores"] for arrays in stored.values()])
    try:
        found = {label: distribution(arrays["scores"], arrays["gold"], edges) for label, arrays in stored.items()}
    except ValueError as error:
        raise UsageError(f"the task {study.task} has no kinds of pairs: {error}", "Take a task of pairs.") from error
    rows = [
        {"encoder": label, "pairs": b.name, "n": b.n, "mean": b.mean, "sd": b.sd, "median": b.median,
         "auc": one.auc, "overlap": one.overlap}
        for label, one in found.items() for b in one.bands
    ]  # fmt: skip
    document = {"distributions": found}
    return Analysis(f"similarity-{study.task}", rows, document, partial(figures.similarity_figure, found))


def roc(study: Study) -> Analysis:
    """ROC curves of a task with yes and no."""
    try:
        found = {one.label: roc_curve(one.scored) for one in study.predictions()}
    except ValueError as error:
        raise UsageError(
            f"the task {study.task} has no ROC curve: {error}", "Take one of yes and no: qnli, wic ..."
        ) from error
    rows = [
        {"encoder": label, "fpr": x, "tpr": y, "threshold": threshold}
        for label, one in found.items()
        for x, y, threshold in zip(one.fpr.tolist(), one.tpr.tolist(), one.thresholds.tolist(), strict=True)
    ]
    table = [
        {"encoder": label, "auc": one.auc, "positives": one.positives, "negatives": one.negatives}
        for label, one in found.items()
    ]
    document = {"areas": table}
    return Analysis(f"roc-{study.task}", rows, document, partial(figures.roc_figure, found), table)


def errors(study: Study, show: int) -> Analysis:
    """Items whose answer changes between two encoders; for graded tasks, whose rank does."""
    specs = [str(cell.spec) for cell in study.plan.cells]
    if len(specs) + len(study.failures) != 2:
        raise UsageError(
            f"errors compares two encoders, and these are {len(specs)}: {', '.join(specs)}",
            "Name two with their methods: -e BACKBONE+base -e BACKBONE+mirror",
        )
    stored = study.predictions()
    name = f"errors-{study.task}"
    if len(stored) < 2:
        raise NothingAnalysedError
    first, second = (one.scored for one in stored)
    ids = [str(item) for item in first["ids"]]
    if ids != [str(item) for item in second["ids"]]:
        raise UsageError(f"the two encoders were scored on other items of {study.task}", "Run both anew.")
    document: dict[str, Any] = {"cell_ids": [one.result.cell_id for one in stored]}
    labels, texts = (stored[0].label, stored[1].label), _texts_of(study.items)
    before, after = (_answers(one) for one in stored)
    if before is None or after is None:
        shifts = shifted_ranks(ids, first["gold"], first["scores"], second["scores"])
        rows: list[dict[str, Any]] = [
            {"id": s.id, "gold_rank": s.gold, "rank_before": s.before, "rank_after": s.after, "gain": s.gain,
             "texts": texts.get(s.id, "")}
            for s in shifts
        ]  # fmt: skip
        table = [r for r in rows if r["gain"] > 0][:show] + [r for r in rows if r["gain"] < 0][:show]
        return Analysis(name, rows, document, partial(figures.shifts_figure, shifts, labels), table)
    changes = changed_answers(ids, first["gold"], before, after)
    rows = [asdict(change) | {"texts": texts.get(change.id, "")} for change in changes]
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
    summary = "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in counts.items())
    return Analysis(
        name, rows, document | counts, partial(figures.errors_figure, changes, labels),
        corrected[:show] + spoiled[:show], summary,
    )  # fmt: skip


def _answers(stored: Predictions) -> Any:
    return answers(stored.scored, stored.result.metrics.get("threshold"))


def _texts_of(items: Any) -> dict[str, str]:
    """The texts of each item by its id, as far as items are pairs or words in context; others are not in it."""
    found = {}
    for item in getattr(items, "occurrences", items):
        sides = [getattr(item, name) for name in ("left", "right", "target") if hasattr(item, name)]
        if sides and hasattr(item, "id"):
            found[str(item.id)] = " | ".join(map(bracketed, sides))
    return found


def bracketed(side: object) -> str:
    """A text, or a word in a text, as a reader sees it: the word stands in square brackets."""
    if not isinstance(side, TextInput):
        return str(side)
    text = side.text
    for start, end in sorted(side.spans, reverse=True):
        text = f"{text[:start]}[{text[start:end]}]{text[end:]}"
    return text


def curves(workspace: Workspace, results: Sequence[str | Path], x: str, tasks: Sequence[str], log: bool) -> Analysis:
    """Scores by a setting of the tuning, from the results of a sweep."""
    folders = [Path(folder) for folder in results] or [workspace.results.root]
    found = curves_over(_results(folders, tasks, workspace.plugins), x)
    if not found:
        raise UsageError(
            f"no encoder has results for two values of {x} here",
            f"Make some: mirrorbench run -e BACKBONE+mirror:{x}=A -e BACKBONE+mirror:{x}=B -t TASK",
        )
    if log and any(point.x <= 0 for one in found for point in one.points):
        raise UsageError(f"{x} is 0 in some results, which has no logarithm", "Leave --log out.")
    rows = [
        {"encoder": str(one.spec), "task": one.task, "protocol": one.protocol, "metric": one.metric,
         x: int(point.x) if float(point.x).is_integer() else point.x,
         "mean": point.mean, "sd": point.sd, "seeds": point.n}
        for one in found for point in one.points
    ]  # fmt: skip
    document = {"x": x, "folders": [str(folder) for folder in folders]}
    labelled = _labelled(found, workspace.plugins)
    return Analysis(f"curves-{x}", rows, document, partial(figures.curves_figure, labelled, x, log))


def frequency(workspace: Workspace, results: Sequence[str | Path], task: str) -> Analysis:
    """How a task's words are spread over buckets of frequency, and scores after tuning on each."""
    plugins, entry = workspace.plugins, workspace.plugins.tasks[task]
    folders = [Path(folder) for folder in results] or [workspace.results.root]
    there = results or folders[0].is_dir()  # the default folder may be missing: the spread needs no results
    found = curves_over_buckets(_results(folders, [task], plugins)) if there else []
    corpora = [(one.name, one.value.generate()) for one in plugins.corpora if bounds(one.name)]
    buckets = count_words([item.text for item in entry.inputs(entry.load(workspace.data))], corpora)
    if not found:
        workspace.reporter.note(
            f"No results of {task} for any bucket; make some: mirrorbench run -e BACKBONE+mirror:corpus="
            f"{buckets[0].corpus} ... -t {task}"
        )
    labelled = _labelled(found, plugins)
    rows = []
    for bucket in buckets:
        row: dict[str, Any] = {"corpus": bucket.corpus, "words": bucket.words, "share": bucket.share}
        for label, one in labelled.items():
            point = bucket.point(one)
            row |= {label: point.mean if point else None, f"{label} sd": point.sd if point else None}
        rows.append(row)
    document = {"task": task, "words": {"outside": 1 - sum(bucket.share for bucket in buckets)}, "series": found}
    return Analysis(f"frequency-{task}", rows, document, partial(figures.frequency_figure, buckets, labelled))


def _results(folders: Sequence[Path], tasks: Sequence[str], plugins: Plugins) -> list[Result]:
    """The results of some tasks (none: all) in some folders."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder of results {folder}", "Make some: mirrorbench run")
    names = expand_tasks(tasks, plugins)
    return [one for folder in folders for one in read_results(folder) if not names or one.task in names]


def _labelled(found: Sequence[Series], plugins: Plugins) -> dict[str, Series]:
    """Curves by what tells them apart: the encoder, and the task and protocol where there are several."""
    several_tasks = len({one.task for one in found}) > 1
    several_protocols = len({one.protocol for one in found}) > 1
    labelled: dict[str, Series] = {}
    for one in found:
        name = row_label(one.spec, plugins)
        if several_tasks:
            name += f", {plugins.tasks[one.task].title if one.task in plugins.tasks else one.task}"
        if several_protocols:
            name += f" [{one.protocol}]"
        labelled[name if name not in labelled else f"{one.spec}, {one.task}"] = one
    return labelled
