"""Plans of ``mirrorbench evaluate``: its data sets, encoders and transformations, and sentences on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os.path import isdir
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirrorbench.core.errors import UsageError, changed_while_read
from mirrorbench.core.specs import as_spec, path_name
from mirrorbench.core.truncation import Truncation
from mirrorbench.core.unknown_words import UnknownWords
from mirrorbench.data.corpora import Contamination, GeneratedCorpus
from mirrorbench.models.encoder_systems import NamedEncoder
from mirrorbench.own_data.layouts import as_option
from mirrorbench.own_data.measures import MEASURE_TITLES, SPREAD, text_groups
from mirrorbench.own_data.tasks import OwnData
from mirrorbench.storage.files import resolved

if TYPE_CHECKING:
    from mirrorbench.core.encoder_protocol import Encoder
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.core.specs import EncoderSpec, Value
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.folders import Folders
    from mirrorbench.runs.outcomes import Reporter
    from mirrorbench.runs.plan import Plan
    from mirrorbench.storage.results import Result

TRANSFORMATIONS: dict[str, dict[str, Value]] = {
    "whitened": {"post": "whiten"},
    "all but the top 3": {"post": "abtt", "abtt": 3},
    "z-scored": {"post": "zscore"},
}
"""Transformations that ``--baselines`` adds to each encoder, fitted on the texts of the data."""


class Data(NamedTuple):
    """A user's data set in memory: its name as a task, its task and its items."""

    name: str
    task: Any
    items: Any
    title: str
    """Name of the file or folder, or of the task if several have the same."""

    @classmethod
    def read(cls, names: Sequence[str], plugins: Plugins, store: DataStore) -> dict[str, Data]:
        """Read data sets by their names as tasks, and return them by name."""
        tasks = {name: plugins.tasks[name] for name in names}
        titles = Counter(task.title for task in tasks.values())
        data: dict[str, Data] = {}
        for name, task in tasks.items():
            title = task.title if titles[task.title] == 1 else name
            if not isinstance(task, OwnData):
                raise UsageError(
                    f"{name} is read by a plugin, and evaluate compares encoders on data that mirrorbench reads itself",
                    f"Compare them by mirrorbench run -e A -e B -t {name} and mirrorbench compare A B",
                )
            data[name] = cls(name, task, task.load(store), title)
        return data

    @property
    def corpus(self) -> GeneratedCorpus:
        """The texts of the data set, to tune on."""
        name = f"texts of {self.name}"
        return GeneratedCorpus(name, name, partial(self.task.documents, self.items))

    @property
    def heading(self) -> str:
        """The title and the main metric: ``cranfield (nDCG@10)``."""
        metric = self.task.main_metric
        return f"{self.title} ({MEASURE_TITLES.get(metric, metric)})"

    @property
    def summary(self) -> str:
        """Kind and numbers of items, as one line."""
        return f"{self.title}: {self.task.kind}, {self.task.summary(self.items)}"

    def difference_sentence(self) -> str:
        """Say what difference of two usual encoders these items detect with a power of .8."""
        from mirrorbench.reports.renderers import number

        metric = self.task.main_metric
        least = self._detectable_difference(confidence=0.975, power=0.8)
        if least >= 1:
            return f"{self.title} has too few items to show any difference in {metric}."
        return (
            f"{self.title} can show differences in {metric} of about {number(least)} and more; "
            "smaller ones need more items."
        )

    def equality_sentence(self, margin: float) -> str:
        """Say whether these items can show, with a power of .8, that two usual, equally good encoders are equal."""
        from mirrorbench.reports.renderers import number
        from mirrorbench.reports.renderers.verdicts import margin_words

        metric = self.task.main_metric
        # The test of equality was not simulated for these metrics, or does not hold its level.
        is_by_thresholds = self.task.kind == "pairs" and metric == "accuracy"
        if metric in ("macro_f1", "v_measure") or is_by_thresholds:
            return f"{self.title}: whether encoders are equal is not tested for {metric}."
        # Equality within a margin is shown by two one-sided tests at a level of .025, each of which has to detect a
        # difference as large as the margin. If each succeeds with a probability of .9, both do with at least .8.
        least_margin = self._detectable_difference(confidence=0.975, power=0.9)
        words = margin_words(margin)
        if least_margin <= margin:
            return f"{self.title} can show that two usual encoders, equally good, are equal within {words}."
        line = f"{self.title} cannot show that two usual encoders, equally good, are equal within {words}"
        if least_margin < 1:
            return f"{line}, but within {number(least_margin)}."
        # Scores differ by 1 at most, so that a margin of 1 or more says nothing.
        return f"{line}, or at all."

    def _detectable_difference(self, confidence: float, power: float) -> float:
        """Return the least difference of two usual encoders that a one-sided test detects with this power.

        With fewer than two independent items it is infinite.
        """
        from scipy.stats import t

        texts = self.task.texts(self.items)
        if self.task.kind == "retrieval":
            n = len(texts)
        else:
            # Items that share a text are not independent.
            n = len(np.unique(text_groups(list(texts.values()))))
        if n < 2:
            return np.inf
        standard_errors = t.ppf([confidence, power], n - 1).sum()
        return float(standard_errors * SPREAD[self.task.main_metric] / n**0.5)


def data_name(path: str, kind: str, columns: Sequence[str]) -> str:
    """Return the name of a path as a task: ``./faq.csv:kind=clustering``.

    Args:
        path: a file or folder, which may have options already; they come first in the name.
        kind: the option ``kind``; empty for none.
        columns: names of columns in the file, each as ``COLUMN=NAME``.

    Raises:
        UsageError: one of ``columns`` has another form, or the path has a comma or a colon in its name.
    """
    renames = []
    for column in columns:
        if column.count("=") != 1:
            raise UsageError(
                f"--columns {column} is not COLUMN=NAME", "Such as --columns sentence1=question"
            )
        column_name, name_in_file = column.split("=")
        renames.append(f"{as_option(column_name)}={name_in_file}")
    # A path with options, as a whole, is usually no file. If it is one, its commas and colons would be read as options.
    if set(path) & {",", ":"} and Path(path).expanduser().exists():
        raise UsageError(f"{path}: the name of data may hold no comma and no colon", "Rename it.")
    path, _, path_options = path.partition(":")
    options = []
    if path_options:
        options.append(path_options)
    if kind:
        options.append(f"kind={kind}")
    options += renames
    name = path_name(path)
    return f"{name}:{','.join(options)}" if options else name


def without_repeats(names: Sequence[str]) -> list[str]:
    """Return the first of all names that have the same file or folder and the same options."""
    first_names: dict[tuple[Path, str], str] = {}
    for name in names:
        path, _, options = name.partition(":")
        first_names.setdefault((resolved(path), options), name)
    return list(first_names.values())


def specs_by_name(
    encoders: Sequence[str | EncoderSpec | NamedEncoder], plugins: Plugins, folders: Folders
) -> dict[str, EncoderSpec]:
    """Return the spec of each encoder by its name: the text that the user typed, or the name of a ``NamedEncoder``.

    Raises:
        UsageError: two are the same encoder.
    """
    from mirrorbench.runs.backbone_files import BackboneFiles
    from mirrorbench.runs.ladder import untuned_row
    from mirrorbench.runs.model_trials import planned_traits

    files = BackboneFiles(folders.offline, partial(planned_traits, cache=folders.cache))
    specs: dict[str, EncoderSpec] = {}
    for encoder in encoders:
        name = str(encoder)
        # A spec without a method stands for the untuned model, read as its files state.
        if isinstance(encoder, NamedEncoder):
            spec = encoder.spec
        else:
            spec = untuned_row(as_spec(encoder), plugins, files)
        for earlier_name, earlier_spec in specs.items():
            if _is_same_encoder(earlier_spec, spec):
                raise UsageError(
                    f"{earlier_name} and {name} are the same encoder, {spec}", "Name each once."
                )
        specs[name] = spec
    return specs


def _is_same_encoder(first: EncoderSpec, second: EncoderSpec) -> bool:
    """Return whether two specs are equal, even if they spell the path of a model's directory differently."""
    if not (first.is_path and second.is_path):
        return first == second
    if replace(first, backbone=second.backbone) != second:
        return False
    return resolved(first.backbone) == resolved(second.backbone)


def transformed_specs(spec: EncoderSpec) -> dict[str, EncoderSpec]:
    """Return a spec with each of ``TRANSFORMATIONS``, by name; none if it transforms its vectors already."""
    if spec.get("post") is not None or spec.get("dims") is not None:
        return {}
    return {name: spec.with_params(**post) for name, post in TRANSFORMATIONS.items()}


def evaluation_plan(
    encoders: Mapping[str, EncoderSpec],
    data: Mapping[str, Data],
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    baselines: bool = False,
    objects: Mapping[EncoderSpec, Encoder] = MappingProxyType({}),
    fetch: bool = True,
) -> Plan:
    """Plan the evaluation of encoders on data sets; tuning and transformations use the texts of each data set.

    Args:
        encoders: the spec of each encoder by its name, from ``specs_by_name``.
        data: the data sets by name, which are also their names as tasks.
        plugins: the registered tasks, metrics and methods.
        folders: the folders of data and cache.
        compute: device and precisions.
        reporter: receives notes.
        baselines: also plan each encoder with each of ``TRANSFORMATIONS``, as rows that may be left out.
        objects: encoders that exist in memory, by spec.
        fetch: download missing models.

    Raises:
        DataFormatError: a data set changed after it was read.
    """
    from mirrorbench.pipeline import make_plan
    from mirrorbench.runs.requests import Request

    # The name of each row of the table.
    names: dict[EncoderSpec, str] = {}
    optional: list[EncoderSpec] = []
    for name, spec in encoders.items():
        names[spec] = name
        if baselines:
            for transformation, baseline in transformed_specs(spec).items():
                names[baseline] = f"{name}, {transformation}"
                optional.append(baseline)
    requests = []
    for data_set in data.values():
        request = Request(
            tuple(names),
            (data_set.name,),
            corpus=data_set.corpus,
            optional=frozenset(optional),
            objects=objects,
            names=names,
        )
        requests.append(request)
    plan = make_plan(requests, plugins, folders, compute, reporter, fetch)
    for cell in plan.cells:
        data_set = data[cell.task]
        if dict(cell.data) != data_set.task.identity_of(data_set.items, folders.data):
            raise changed_while_read(data_set.title)
    return plan


def overlaps(
    texts: str,
    data: Mapping[str, Data],
    plugins: Plugins,
    store: DataStore,
    reporter: Reporter,
) -> dict[str, Contamination]:
    """Return the overlap of each data set, by name, with texts that encoders were tuned on.

    Data sets whose overlap cannot be computed are left out.

    Args:
        texts: a corpus or a file of texts, or a folder that is a data set itself.
        data: the data sets by name.
        plugins: the registered tasks and corpora.
        store: the data store.
        reporter: receives progress and notes.
    """
    from mirrorbench.runs.corpus_overlap import corpus_overlap

    corpus: str | GeneratedCorpus = texts
    if isdir(texts):
        folder_name = data_name(texts, "", ())
        corpus = Data.read([folder_name], plugins, store)[folder_name].corpus
    overlap_by_task = corpus_overlap(corpus, list(data), plugins, store, reporter)
    overlap_by_name = {}
    for name, overlap in zip(data, overlap_by_task.values(), strict=True):
        if isinstance(overlap, Contamination):
            overlap_by_name[name] = overlap
    return overlap_by_name


def overlap_lines(
    texts: str, overlap_by_name: Mapping[str, Contamination], data: Mapping[str, Data]
) -> Iterator[str]:
    """Yield a sentence for each data set on the share of its items that hold a text of ``texts``.

    Args:
        texts: the file or folder that encoders were tuned on; empty for no sentences.
        overlap_by_name: the overlap of data sets by name, from ``overlaps``.
        data: the data sets by name.
    """
    if not texts:
        return
    for data_set in data.values():
        share = "unknown"
        if data_set.name in overlap_by_name:
            share = f"{overlap_by_name[data_set.name].to_json()['any_text']:.1%}"
        yield f"{data_set.title}: {share} of the {data_set.task.items_name} hold a text of {texts}"


def encoder_lines(
    results: Sequence[Result], labels: Mapping[str, str], data: Mapping[str, Data]
) -> Iterator[str]:
    """Yield sentences on texts that encoders do not read whole: texts that they cut, and words without a vector.

    Args:
        results: the results of all rows.
        labels: labels of the encoders by spec; results of other rows are skipped.
        data: the data sets by name.
    """
    described: set[tuple[str, str]] = set()
    for result in results:
        spec_and_task = (result.spec, result.task)
        if result.spec not in labels or spec_and_task in described:
            continue
        described.add(spec_and_task)
        data_set = data[result.task]
        place = f"{labels[result.spec]} on {data_set.title}"
        if "truncation" in result.encoder:
            truncation = Truncation.of_json(result.encoder["truncation"])
            yield f"{place}: {truncation.sentence}"
        if "unknown_words" in result.encoder:
            unknown = UnknownWords.of_json(result.encoder["unknown_words"])
            yield f"{place}: {unknown.sentence(data_set.task.items_name)}"
