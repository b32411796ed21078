"""Notes on where the numbers of a table come from, and checks that its results are comparable."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins

K = TypeVar("K", bound=Hashable)

_MAX_NAMES = 8
"""Tasks that a note names; the rest are counted."""


def provenance_notes(results: Sequence[Result]) -> list[str]:
    """Notes below a table: metric, protocol, precision, seeds, tuning corpora, overlap, versions, tasks' own notes."""
    of_rows: dict[tuple[str, str], set[int]] = {}
    corpora: dict[str, dict[str, None]] = {}
    shares: dict[str, float] = {}
    for result in results:
        of_rows.setdefault((result.spec, result.protocol), set()).add(result.seed)
        if corpus := result.cell.get("corpus"):
            corpora.setdefault(f"{corpus['name']} ({corpus['n']:,} strings)", {})[result.task] = None
        share = float((result.overlap or {}).get("any_text") or 0)
        shares[result.task] = max(share, shares.get(result.task, 0))
    said = {
        "Metric": {r.main_metric for r in results},
        "protocol": {r.protocol for r in results},
        "precision": {str(r.cell["precision"]["encoding"]) for r in results},
    }
    notes = [f"{what}: {', '.join(sorted(names))}" for what, names in said.items() if names]
    if seeds := sorted({len(found) for found in of_rows.values()} - {1}):
        notes.append(f"± sample standard deviation over {' or '.join(map(str, seeds))} seeds")
    lines = ["; ".join(notes) + "."] if notes else []
    if len({tuple(sorted(tasks)) for tasks in corpora.values()}) > 1:  # tasks of one row differ in their corpus
        named = (f"{corpus} for {_first_names(list(tasks))}" for corpus, tasks in sorted(corpora.items()))
        lines.append(f"Tuned on: {'; '.join(named)}.")
    elif corpora:
        lines.append(f"Tuned on: {', '.join(sorted(corpora))}.")
    if seen := ", ".join(f"{task} {share:.1%}" for task, share in shares.items() if share > 0):
        lines.append(f"Test items with a text that was tuned on: {seen}.")
    lines += _environment_note([r for r in results if r.environment.get("mirrorbench")])
    return lines + sorted({f"{r.task}: {note}" for r in results for note in r.notes})


def _first_names(names: Sequence[str]) -> str:
    if len(names) <= _MAX_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: _MAX_NAMES - 1])} and {len(names) - _MAX_NAMES + 1} more"


def _environment_note(made: Sequence[Result]) -> list[str]:
    """One line: number of results, dates, versions and devices."""
    if not made:
        return []
    tools = set()
    for result in made:
        commit, *dirty = str(result.environment.get("git") or "").split("-")
        git = f" ({'-'.join([commit[:9], *dirty])})" if commit else ""
        torch = result.environment.get("packages", {}).get("torch", "unknown")
        tools.add(f"mirrorbench {result.environment['mirrorbench']}{git}, torch {torch}")
    devices = {str(r.environment.get("device", "unknown")) for r in made}
    days = sorted({r.created[:10] for r in made})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    count = f"{len(made)} results" if len(made) > 1 else "1 result"
    return [f"{count} of {when}: {'; '.join(sorted(tools))}; {', '.join(sorted(devices))}."]


def without_repeats(results: Iterable[Result]) -> list[Result]:
    """The latest result for each spec, protocol, task and seed; ``mixtures`` names those that differ."""
    latest: dict[tuple[str, str, str, int], Result] = {}
    for result in results:
        name = _name(result)
        if name not in latest or latest[name].created < result.created:
            latest[name] = result
    return list(latest.values())


def mixtures(results: Iterable[Result], plugins: Plugins) -> list[str]:
    """Why results cannot be compared in one table, one line for each reason.

    Reasons: several protocols, versions of a task's data, or models behind one spec; and different experiments (recipe,
    corpus, precision ...) under one name or as seeds of one score.
    """

    def model(result: Result) -> tuple[str, str]:
        # A name such as "bert" is a different model in each language.
        task = result.task
        return result.spec, ", ".join(plugins.tasks[task].languages) if task in plugins.tasks else task

    results = list(results)
    protocols = sorted({result.protocol for result in results})
    data = _ambiguous(results, lambda r: r.task, lambda r: json.dumps(r.data, sort_keys=True))
    models = _ambiguous(results, model, lambda r: str(r.encoder.get("weights", "")))
    rest = [result for result in results if result.task not in data and model(result) not in models]
    experiments = _ambiguous(rest, _name, lambda r: r.cell_id)
    told = {name[:3] for name in experiments}
    seeds = _ambiguous((r for r in rest if _name(r)[:3] not in told), lambda r: _name(r)[:3], lambda r: r.experiment)
    what = "different experiments (recipe, corpus or precision)"
    return [
        *([f"protocols {' and '.join(protocols)}"] if len(protocols) > 1 else []),
        *(f"{task}: {n} different versions of its data" for task, n in data.items()),
        *(f"{spec}: {n} different models ({languages})" for (spec, languages), n in models.items()),
        *(f"{spec} on {task}, seed {seed}: {n} {what}" for (spec, _, task, seed), n in experiments.items()),
        *(f"{spec} on {task}: its seeds are of {n} {what}" for (spec, _, task), n in seeds.items()),
    ]


def _name(result: Result) -> tuple[str, str, str, int]:
    return (result.spec, result.protocol, result.task, result.seed)


def _ambiguous(results: Iterable[Result], key: Callable[[Result], K], value: Callable[[Result], str]) -> dict[K, int]:
    """Keys with more than one value, and how many values each has."""
    values: dict[K, set[str]] = {}
    for result in results:
        values.setdefault(key(result), set()).add(value(result))
    return {name: len(found) for name, found in values.items() if len(found) > 1}
