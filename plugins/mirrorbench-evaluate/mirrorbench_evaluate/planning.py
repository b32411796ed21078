"""Plans of evaluations: data, encoders as they are read, transformations, texts that are cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirrorbench.plugin import Contamination, UsageError, parse_spec
from mirrorbench_evaluate.layouts import as_option
from mirrorbench_evaluate.measures import SPREAD, together

if TYPE_CHECKING:
    from mirrorbench.plugin import EncoderSpec, Plan, Session, Value

TRANSFORMATIONS: dict[str, dict[str, Value]] = {
    "whitened": {"post": "whiten"}, "all but the top 3": {"post": "abtt", "abtt": 3}, "z-scored": {"post": "zscore"},
}  # fmt: skip
"""Transformations that ``--baselines`` adds to each encoder; fitted on the texts of the data."""


class Data(NamedTuple):
    """Own data that have been read: their name as a task, their task and their items."""

    name: str
    task: Any
    items: Any
    title: str
    """The name of file or folder; that of the task where several have it."""

    @classmethod
    def read(cls, names: Sequence[str], session: Session) -> dict[str, Data]:
        """Read the data of names."""
        tasks = {name: session.workspace.plugins.tasks[name] for name in names}
        titles = Counter(task.title for task in tasks.values())
        return {
            name: cls(name, task, task.load(session.workspace.data), task.title if titles[task.title] == 1 else name)
            for name, task in tasks.items()
        }

    @property
    def about(self) -> str:
        """One line: the kind, and the numbers of items."""
        return f"{self.title}: {self.task.kind}, {self.task.about(self.items)}"

    def can_show(self) -> str:
        """The difference of two encoders that so many items show in four of five samples, where they differ usually."""
        from scipy.stats import t

        from mirrorbench.plugin import number

        texts, metric = self.task.texts(self.items), self.task.main_metric
        n = len(texts) if self.task.kind == "retrieval" else len(set(together(list(texts.values())).tolist()))
        sizes = t.ppf([0.975, 0.8], n - 1) if n > 1 else np.array([np.inf])
        if (least := sizes.sum() * SPREAD[metric] / n**0.5) >= 1:
            return f"{self.title} has too few items to show any difference in {metric}."
        more = f"of about {number(least)} and more; smaller ones need more items."
        return f"{self.title} can show differences in {metric} {more}"


def named(path: str, kind: str, columns: Sequence[str]) -> str:
    """The name of a path as a task: with a slash, and with its options behind it, its own first."""
    for column in columns:
        if column.count("=") != 1:
            raise UsageError(f"--columns {column} is not COLUMN=NAME", "Such as --columns sentence1=question")
    renamed = ("=".join((as_option(own), name)) for own, name in (column.split("=") for column in columns))
    if set(path) & {",", ":"} and Path(path).expanduser().exists():
        raise UsageError(f"{path}: the name of data may hold no comma and no colon", "Rename it.")
    path, _, own = path.partition(":")
    options = [*([own] if own else []), *([f"kind={kind}"] if kind else []), *renamed]
    slashed = path if "/" in path or path.startswith((".", "~")) else f"./{path}"
    return slashed + (f":{','.join(options)}" if options else "")


def without_repeats(names: Sequence[str]) -> list[str]:
    """Names of data without those of the same file or folder, read in the same way."""
    first: dict[tuple[Path, str], str] = {}
    for name in names:
        path, _, options = name.partition(":")
        first.setdefault((Path(path).expanduser().resolve(), options), name)
    return list(first.values())


def rows_of(encoders: Sequence[str], session: Session) -> dict[str, EncoderSpec]:
    """The row of each encoder as it was written; ``UsageError`` where two are one."""
    from mirrorbench.plugin import Planner

    planner = Planner(session.workspace)
    rows: dict[str, EncoderSpec] = {}
    for text in encoders:
        row = planner.untuned(parse_spec(text))
        if first := next((encoder for encoder, spec in rows.items() if spec == row), ""):
            raise UsageError(f"-e {first} and -e {text} are the same encoder, {row}", "Name each once.")
        rows[text] = row
    return rows


def transformed(spec: EncoderSpec) -> dict[str, EncoderSpec]:
    """An encoder with its vectors transformed, by the name of the transformation; none where it has one already."""
    if spec.get("post") is not None or spec.get("dims") is not None:
        return {}
    return {name: spec.with_params(**post) for name, post in TRANSFORMATIONS.items()}


def plan_of(
    specs: Iterable[EncoderSpec], data: Mapping[str, Data], session: Session, baselines: bool, fetch: bool
) -> Plan:  # fmt: skip
    """The plan of encoders on data; what is tuned or fitted for it is so on the texts of the data themselves."""
    from mirrorbench.plugin import merged

    plans, specs = [], [row for spec in specs for row in (spec, *(transformed(spec).values() if baselines else ()))]
    for own in data.values():
        plans.append(session.plan(specs, [own.name], corpus=corpus_of(own, session), fetch=fetch))
    return merged(plans)


def corpus_of(data: Data, session: Session) -> str:
    """The name of the texts of own data as a corpus, which the session knows from now on."""
    from mirrorbench.plugin import GeneratedCorpus

    name, space = f"texts of {data.name}", session.workspace
    if name not in space.plugins.corpora.by_name():
        corpus = GeneratedCorpus(name, name, lambda: data.task.documents(data.items))
        space.plugins = space.plugins.extended("register_corpora", corpus)
    return name


def overlap_with(texts: str, data: Mapping[str, Data], session: Session) -> Iterator[str]:
    """Lines on how many items of own data hold a text of a file or folder."""
    read = Data.read([named(texts, "", ())], session) if isdir(texts) else {}
    corpus = corpus_of(next(iter(read.values())), session) if read else texts
    for own, seen in zip(data.values(), session.overlap(corpus, list(data)).values(), strict=True):
        share = f"{seen.to_json()['any_text']:.1%}" if isinstance(seen, Contamination) else "unknown"
        yield f"{own.title}: {share} of the {own.task.items_name} hold a text of {texts}"


def cut_texts(plan: Plan, data: Mapping[str, Data], labels: Mapping[str, str]) -> Iterator[str]:
    """A line for each backbone that does not read all texts of some data to their end."""
    from mirrorbench.plugin import read_tokenizer

    tokenizers: dict[Path, Any] = {}
    for own in data.values():
        inputs = {item.text for item in own.task.inputs(own.items)}
        for cell in plan.cells:
            if cell.task != own.name or cell.pooling is None or cell.model.path is None or cell.model.posts:
                continue
            most, path = cell.pooling.max_length, cell.model.path
            texts = [text for text in inputs if len(text) > most]  # a token has a character at least
            tokenizer = tokenizers.setdefault(path, read_tokenizer(path))
            n = sum(len(ids) > most for ids in tokenizer(texts, verbose=False)["input_ids"]) if texts else 0
            if n:
                of = f"{n:,} of {len(inputs):,} in {own.title}"
                yield f"{labels[str(cell.spec)]} reads {most:,} tokens of a text; {of} are longer"
