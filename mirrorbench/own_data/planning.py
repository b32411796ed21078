"""Plans of ``mirrorbench evaluate``: names of data, rows of encoders, transformations, and remarks."""

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
from mirrorbench.own_data.measures import SPREAD, USUAL_NAMES, text_groups
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
    """Own data in memory: their name as a task, their task and their items."""

    name: str
    task: Any
    items: Any
    title: str
    """Name of the file or folder, or of the task if several have the same."""

    @classmethod
    def read(cls, names: Sequence[str], plugins: Plugins, store: DataStore) -> dict[str, Data]:
        """Read data by their names."""
        tasks = {name: plugins.tasks[name] for name in names}
        titles = Counter(task.title for task in tasks.values())
        data: dict[str, Data] = {}
        for name, task in tasks.items():
            title = task.title if titles[task.title] == 1 else name
            data[name] = cls(name, task, task.load(store), title)
        return data

    @property
    def corpus(self) -> GeneratedCorpus:
        """Their texts, to tune on."""
        name = f"texts of {self.name}"
        return GeneratedCorpus(name, name, partial(self.task.documents, self.items))

    @property
    def heading(self) -> str:
        """The title and the score: ``cranfield (nDCG@10)``."""
        metric = self.task.main_metric
        return f"{self.title} ({USUAL_NAMES.get(metric, metric)})"

    @property
    def summary(self) -> str:
        """Kind and numbers of items, as one line."""
        return f"{self.title}: {self.task.kind}, {self.task.summary(self.items)}"

    def detectable(self) -> str:
        """Return the least difference of two usual encoders that these items detect with a power of .8, as a line."""
        from mirrorbench.reports.renderers import number

        metric = self.task.main_metric
        least = self._reach(0.975, 0.8)
        if least >= 1:
            return f"{self.title} has too few items to show any difference in {metric}."
        more = f"of about {number(least)} and more; smaller ones need more items."
        return f"{self.title} can show differences in {metric} {more}"

    def can_show_equality(self, margin: float) -> str:
        """Return, as a line, whether these items can show (power .8) that two usual, equally good encoders are equal."""
        from mirrorbench.reports.renderers import number
        from mirrorbench.reports.renderers.verdicts import margin_words

        metric = self.task.main_metric
        # The test of equality was not simulated for these measures.
        if metric in ("macro_f1", "v_measure"):
            return f"{self.title}: whether encoders are equal is not tested for {metric}."
        # Two one-sided tests that succeed in .9 of cases each succeed together in .8.
        least = self._reach(0.975, 0.9)
        words = margin_words(margin)
        if least <= margin:
            return f"{self.title} can show that two usual encoders, equally good, are equal within {words}."
        line = f"{self.title} cannot show that two usual encoders, equally good, are equal within {words}"
        if least < 1:
            return f"{line}, but within {number(least)}."
        return f"{line}, or at all."

    def _reach(self, level: float, power: float) -> float:
        """Return the distance of two usual encoders at which a one-sided test at ``1 - level`` has this power."""
        from scipy.stats import t

        texts = self.task.texts(self.items)
        if self.task.kind == "retrieval":
            n = len(texts)
        else:
            n = len(np.unique(text_groups(list(texts.values()))))
        if n < 2:
            return np.inf
        standard_errors = t.ppf([level, power], n - 1).sum()
        return float(standard_errors * SPREAD[self.task.main_metric] / n**0.5)


def data_name(path: str, kind: str, columns: Sequence[str]) -> str:
    """Return the name of a path as a task: with a slash, and with options behind it, those of the path first."""
    renames = []
    for column in columns:
        if column.count("=") != 1:
            raise UsageError(
                f"--columns {column} is not COLUMN=NAME", "Such as --columns sentence1=question"
            )
        column_name, name_in_file = column.split("=")
        renames.append(f"{as_option(column_name)}={name_in_file}")
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
    """Drop names of the same file or folder with the same options."""
    first_names: dict[tuple[Path, str], str] = {}
    for name in names:
        path, _, options = name.partition(":")
        first_names.setdefault((resolved(path), options), name)
    return list(first_names.values())


def encoder_rows(
    encoders: Sequence[str | EncoderSpec | NamedEncoder], plugins: Plugins, folders: Folders
) -> dict[str, EncoderSpec]:
    """Return the spec of each encoder by its text; ``UsageError`` if two are the same encoder."""
    from mirrorbench.runs.backbone_files import BackboneFiles
    from mirrorbench.runs.ladder import untuned_row
    from mirrorbench.runs.model_trials import planned_traits

    files = BackboneFiles(folders.offline, partial(planned_traits, cache=folders.cache))
    rows: dict[str, EncoderSpec] = {}
    for encoder in encoders:
        text = str(encoder)
        if isinstance(encoder, NamedEncoder):
            row = encoder.spec
        else:
            row = untuned_row(as_spec(encoder), plugins, files)
        for earlier_text, earlier_row in rows.items():
            if _is_same(earlier_row, row):
                raise UsageError(
                    f"{earlier_text} and {text} are the same encoder, {row}", "Name each once."
                )
        rows[text] = row
    return rows


def _is_same(first: EncoderSpec, second: EncoderSpec) -> bool:
    """Return whether two specs are equal, whatever the spelling of a directory."""
    if not (first.is_path and second.is_path):
        return first == second
    if replace(first, backbone=second.backbone) != second:
        return False
    return resolved(first.backbone) == resolved(second.backbone)


def transformed(spec: EncoderSpec) -> dict[str, EncoderSpec]:
    """Return an encoder with each of ``TRANSFORMATIONS``, by name; none if its spec has a transformation already."""
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
    """Plan the evaluation of encoders on data; tuning and transformations use the texts of the data themselves.

    Args:
        encoders: the spec of each encoder by its name, as typed.
        data: the data by name.
        plugins: all that is registered.
        folders: data and cache.
        compute: device and precisions.
        reporter: receives notes.
        baselines: add ``TRANSFORMATIONS`` of each encoder.
        objects: encoders that are passed as objects, by spec.
        fetch: download models that are missing.
    """
    from mirrorbench.pipeline import make_plan
    from mirrorbench.runs.requests import Request

    names: dict[EncoderSpec, str] = {}
    optional: list[EncoderSpec] = []
    for text, spec in encoders.items():
        names[spec] = text
        if baselines:
            for transformation, baseline in transformed(spec).items():
                names[baseline] = f"{text}, {transformation}"
                optional.append(baseline)
    requests = []
    for tested in data.values():
        request = Request(
            tuple(names),
            (tested.name,),
            corpus=tested.corpus,
            optional=frozenset(optional),
            objects=objects,
            names=names,
        )
        requests.append(request)
    plan = make_plan(requests, plugins, folders, compute, reporter, fetch)
    for cell in plan.cells:
        tested = data[cell.task]
        if dict(cell.data) != tested.task.identity_of(tested.items, folders.data):
            raise changed_while_read(tested.title)
    return plan


def overlaps(
    texts: str,
    data: Mapping[str, Data],
    plugins: Plugins,
    store: DataStore,
    reporter: Reporter,
) -> dict[str, Contamination]:
    """Return the overlap of each data, by name, with the texts of a file or folder, if their texts are known."""
    from mirrorbench.runs.corpus_overlap import corpus_overlap

    corpus: str | GeneratedCorpus = texts
    if isdir(texts):
        name = data_name(texts, "", ())
        corpus = Data.read([name], plugins, store)[name].corpus
    found = corpus_overlap(corpus, list(data), plugins, store, reporter)
    return {
        name: overlap
        for name, overlap in zip(data, found.values(), strict=True)
        if isinstance(overlap, Contamination)
    }


def overlap_lines(
    texts: str, seen: Mapping[str, Contamination], data: Mapping[str, Data]
) -> Iterator[str]:
    """Yield a line for each data with the share of items that hold a text of a file or folder; none without a name."""
    if not texts:
        return
    for tested in data.values():
        share = "unknown"
        if tested.name in seen:
            share = f"{seen[tested.name].to_json()['any_text']:.1%}"
        yield f"{tested.title}: {share} of the {tested.task.items_name} hold a text of {texts}"


def encoder_lines(
    results: Sequence[Result], labels: Mapping[str, str], data: Mapping[str, Data]
) -> Iterator[str]:
    """Yield sentences on texts that an encoder does not read whole: those it cuts, and words without a vector.

    Args:
        results: of all rows.
        labels: labels of the encoders by spec; transformations of their vectors read the same texts.
        data: the data by name.
    """
    described: set[tuple[str, str]] = set()
    for result in results:
        row = (result.spec, result.task)
        if result.spec not in labels or row in described:
            continue
        described.add(row)
        tested = data[result.task]
        place = f"{labels[result.spec]} on {tested.title}"
        if "truncation" in result.encoder:
            truncation = Truncation.of_json(result.encoder["truncation"])
            yield f"{place}: {truncation.sentence}"
        if "unknown_words" in result.encoder:
            unknown = UnknownWords.of_json(result.encoder["unknown_words"])
            yield f"{place}: {unknown.sentence(tested.task.items_name)}"
