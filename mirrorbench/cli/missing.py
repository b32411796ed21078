"""Data and models that are not available, told together: names, hosts without an answer, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mirrorbench.core.errors import Lack
from mirrorbench.core.files import writing
from mirrorbench.runs.outcomes import Failure

LOG = "failures.log"
"""In the folder of results: why each cell failed, in full."""


def summary(lacks: Iterable[Lack]) -> Iterator[str]:
    """Lines for a reader: names by kind, hosts, and what can be done."""
    lacks = list(lacks)
    named = {kind: list(dict.fromkeys(lack.name for lack in lacks if lack.kind == kind)) for kind in ("models", "data")}
    for kind, names in named.items():
        if names:
            yield f"  {kind:7} {', '.join(names)}"
    hosts = list(dict.fromkeys(host for lack in lacks for host in lack.hosts))
    if hosts:
        yield f"No answer from {', '.join(hosts)}."
    yield "What to do:"
    again = "the same command" if hosts else "the same command without --offline"
    yield f"  with a network  {again}" + (", or mirrorbench data fetch NAME ..." if named["data"] else "")
    files = ["data: mirrorbench data import DIR"] if named["data"] else []
    files += ["a model: --encoder ./path/to/model, or HF_HOME=DIR for another cache"] if named["models"] else []
    yield f"  with the files  {'; '.join(files)}"
    yield "  with neither    mirrorbench run: the model and the data inside the package"


def write_log(failures: Sequence[Failure], folder: Path) -> Path:
    """Write every failure into the folder of results, those of one reason together; returns the file's path."""
    cells: dict[str, list[str]] = {}
    for failure in failures:
        seed = "" if failure.seed is None else f" seed {failure.seed}"
        reason = f"{failure.reason}\n{failure.hint}".strip().replace("\n", "\n  ")
        cells.setdefault(reason, []).append(f"{failure.spec} {failure.task}{seed}\n")
    with writing(folder / LOG) as sink:
        sink.writelines(f"{''.join(names)}  {reason}\n\n".encode() for reason, names in cells.items())
    return folder / LOG
