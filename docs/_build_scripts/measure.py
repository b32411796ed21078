"""Measures what ``measured.md`` says, keeps the values, and writes the page from them.

    python docs/_build_scripts/measure.py             # run what is missing, then keep the values and write the page
    python docs/_build_scripts/measure.py --no-run    # from what is stored

The commands stand in ``docs/measurements/commands.txt``. They run in ``build/measured``, where results, tuned models
and analyses stay, so that a second call computes nothing again; the data must be there (``mirrorbench data import`` or
``fetch``). A value that is not stored there stays as it is kept, with the commit that computed it; it counts as of an
earlier measurement from the next rise of the computation on.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import measured_page
from measured_page import Value, keep_values, kept_values

from mirrorbench import Session
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.table import read_table
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.storage.results import read_results

DOCS = Path(__file__).resolve().parents[1]
WORK = DOCS.parent / "build" / "measured"


def run_all() -> None:
    """Run every command that is not done."""
    WORK.mkdir(parents=True, exist_ok=True)
    write_names()
    for command in (
        (DOCS / "measurements" / "commands.txt").read_text(encoding="utf-8").splitlines()
    ):
        arguments = shlex.split(command, comments=True)
        if not arguments or (
            arguments[0] == "analyze" and any((WORK / arguments[-1]).glob("*.json"))
        ):
            continue
        sys.stderr.write(f"mirrorbench {command}\n")
        if (code := mirrorbench(*arguments)) not in (
            0,
            1,
        ):  # 1: some cells failed, and their values are missing
            sys.exit(code)


def mirrorbench(*arguments: str) -> int:
    """Run the command line in the folder of the results; its exit code."""
    environment = {**os.environ, "MIRRORBENCH_CACHE": str(WORK / "cache")}
    process = [sys.executable, "-m", "mirrorbench", *arguments]
    return subprocess.run(
        process, cwd=WORK, env=environment, stdout=subprocess.DEVNULL, check=False
    ).returncode


def write_names() -> None:
    """Write ``names.txt``, the names of the NCBI data's dictionary."""
    archive = Session(offline=True).folders.data.root / "ncbi-disease" / "ncbi-disease.tar.gz"
    if not archive.is_file():
        sys.exit(f"there is no {archive}: mirrorbench data fetch ncbi-disease")
    with tarfile.open(archive) as members:
        dictionary = next(
            member for member in members if member.name.endswith("/test_dictionary.txt")
        )
        content = members.extractfile(dictionary)
        assert content is not None
        names = dict.fromkeys(
            line.rpartition("||")[2] for line in content.read().decode().splitlines()
        )
    (WORK / "names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")


class Stored:
    """What is stored: each public method but ``of`` is a kind of value that a template asks for.

    Scores are read from the results of the commands, and from the leaderboards that are kept where there are none.

    Attributes:
        values: the values that templates asked for.
    """

    def __init__(self) -> None:
        self.folder = folder = WORK
        self.session = Session(folder / "results", cache=folder / "cache", offline=True)
        self.kept = kept_values()
        self.values: dict[str, Value] = {}
        self.scores: dict[tuple[str, str], dict[str, dict[int, tuple[float, str]]]] = {}
        for result in read_results(folder / "results") if (folder / "results").is_dir() else ():
            self._add(
                "",
                result.spec,
                result.task,
                result.seed,
                result.main_score,
                result.environment["git"][:9],
            )
        for path in sorted((DOCS.parent / "leaderboards" / "rendered").glob("*.json")):
            table = read_table(path)
            earlier = any(text.startswith("Of computation ") for text in table.warnings)
            source = "" if earlier else f"leaderboards/rendered/{path.name}"
            for row in table.rows:
                for column, score in zip(table.columns, row.scores, strict=True):
                    for seed, value in score.seeds if score and not column.average_of else ():
                        self._add(path.name, row.spec, column.name, seed, value, source)

    def _add(
        self, place: str, spec: str, task: str, seed: int, score: float | None, source: str
    ) -> None:
        if score is not None:
            places = self.scores.setdefault((str(parse_spec(spec)), task), {})
            places.setdefault(place, {}).setdefault(seed, (score, source))

    def __call__(self, kind: str, *arguments: str) -> Value:
        """A value, measured if it is stored, else as it was kept."""
        key = " ".join((kind, *arguments))
        if key not in self.values:
            try:
                found: Value | None = getattr(self, kind)(*arguments)
            except (
                LookupError,
                UsageError,
            ):  # of a comparison: a score is kept, its predictions are not
                found = None
            if not (found and found["from"]):
                found = self.kept.get(key, found)
            if not found:
                raise SystemExit(f"nothing is stored for {key!r}, and nothing was kept")
            self.values[key] = found
        return self.values[key]

    def of(self, spec: str, tasks: str, most_seeds: bool = False) -> tuple[list[float], set[str]]:
        """The means over the tasks of names and suites, seed by seed, and where they are from.

        Of a task the scores are those of one place: of the commands' results, or of where the most seeds were run.

        Raises:
            LookupError: a task has no score.
        """
        names = expand_tasks(tasks.split(","), self.session.plugins)
        places = [list(self.scores[str(parse_spec(spec)), name].values()) for name in names]
        stored = [max(one, key=len) if most_seeds else one[0] for one in places]
        seeds = sorted(set.intersection(*map(set, stored)))
        means = [statistics.fmean(scores[seed][0] for scores in stored) for seed in seeds]
        return means, {source for scores in stored for _, source in scores.values()}

    def score(self, spec: str, tasks: str) -> Value:
        """The score of seed 0; of several tasks their mean."""
        means, sources = self.of(spec, tasks)
        return valued(means[0], sources)

    def mean(self, spec: str, tasks: str) -> Value:
        """The mean over seeds."""
        means, sources = self.of(spec, tasks, most_seeds=True)
        return valued(statistics.fmean(means), sources)

    def deviation(self, spec: str, tasks: str) -> Value:
        """The sample standard deviation over seeds."""
        means, sources = self.of(spec, tasks, most_seeds=True)
        if len(means) < 2:
            raise LookupError("a single seed")
        return valued(statistics.stdev(means), sources)

    def compared(self, spec: str, over: str, task: str) -> Value:
        """Difference, interval and p-value, as ``mirrorbench compare`` has them."""
        sources = self.of(spec, task)[1] | self.of(over, task)[1]
        found = self.session.compare(spec, over, task).tasks[0].estimate
        return {**valued(found.value, sources), "interval": found.interval(), "p": found.p}

    def unseen(self, spec: str, over: str, task: str) -> Value:
        """The same on items without a text that was tuned on, as ``leaderboard --without-overlap`` has them."""
        sources = self.of(spec, task)[1] | self.of(over, task)[1]
        verdicts = self.session.leaderboard(
            tasks=task, encoders=[spec, over], without_overlap=True
        ).table.verdicts
        asked = str(parse_spec(spec)), str(parse_spec(over))
        verdict = next(verdict for verdict in verdicts if (verdict.spec, verdict.over) == asked)
        return {
            **valued(verdict.difference or 0.0, sources),
            "interval": verdict.interval,
            "p": verdict.p,
        }

    def analysis(self, name: str, spec: str, key: str) -> Value:
        """A number that ``mirrorbench analyze`` wrote: of all, or of an encoder (of its last layer)."""
        files = sorted((self.folder / "analyses" / name).glob("*.json"))
        if not files:
            raise LookupError(f"no analysis {name}")
        document = json.loads(files[0].read_text(encoding="utf-8"))
        label = next(
            e["encoder"] for e in document["encoders"] if e["spec"] == str(parse_spec(spec))
        )
        rows = [
            row
            for row in document.get("encodings", document["rows"])
            if row.get("encoder", label) == label
        ]
        value = document[key] if key in document else rows[-1][key]
        return valued(value, {f"{files[0].name} of {document['created'][:10]}"})


def valued(value: float, sources: Iterable[str]) -> Value:
    """A value and where it is from: commits, files, a command; from nothing where an earlier computation gave it."""
    return {"value": value, "from": [] if "" in (found := sorted(sources)) else found}


def main() -> None:
    """The command line."""
    if sys.argv[1:] not in ([], ["--no-run"]):
        sys.exit(__doc__)
    if "--no-run" not in sys.argv:
        run_all()
    stored = Stored()
    (DOCS / measured_page.PAGE).write_text(measured_page.render(stored), encoding="utf-8")
    keep_values(stored.values)
    for key in (key for key, value in sorted(stored.values.items()) if not value["from"]):
        sys.stderr.write(f"of an earlier measurement: {key}\n")


if __name__ == "__main__":
    main()
