"""Grid files: many runs in one YAML file (format: ``docs/cluster.md``).

A file is one block, or several under ``blocks``, with defaults beside them. Every key of an encoder spec may have lists
and ranges; each block becomes one or more requests, and their plans are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.schema import convert, problem_at, read_yaml
from mirrorbench.core.specs import EncoderSpec, Value, parse_spec, parse_value
from mirrorbench.runs.plan import Plan, merged
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.recipe_resolution import check_spec
from mirrorbench.runs.registry import expand_tasks
from mirrorbench.runs.requests import Request

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.folders import Folders
    from mirrorbench.runs.outcomes import Reporter
    from mirrorbench.runs.workspace import Workspace

MAX_RANGE, MAX_SWEEP = 1000, 10_000
"""Most values of a range, and most specs of a sweep."""


@dataclass(frozen=True, slots=True)
class GridFile:
    """A checked grid file; ``title`` is the title of its table and may be empty."""

    path: Path
    title: str
    requests: tuple[tuple[int, Request], ...]
    """Requests, each with the first line of its block."""


class _Range(msgspec.Struct, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}):
    """``{from: 0, to: 0.4, step: 0.1}``, both ends included."""

    first: int | float
    last: int | float
    step: int | float = 1

    def __post_init__(self) -> None:
        first, last, step = self.first, self.last, self.step
        if not all(map(isfinite, (first, last, step))) or step <= 0 or last < first:
            raise ValueError(
                f"a range goes up from {first} to {last} by steps above 0, not by {step}"
            )
        if (count := int((last - first) / step) + 1) > MAX_RANGE:
            raise ValueError(f"a range of {count:,} values; at most {MAX_RANGE:,}")

    def values(self) -> list[Value]:
        # In decimals: as floats, 0.1 + 0.1 + 0.1 is not 0.3.
        first, last, step = (Decimal(repr(number)) for number in (self.first, self.last, self.step))
        numbers = [first + step * n for n in range(int((last - first) / step) + 1)]
        whole = all(number == number.to_integral_value() for number in (first, step))
        return [int(number) if whole else float(number) for number in numbers]


_Plain = str | int | float | bool
_Swept = _Plain | _Range | list[_Plain | _Range]
_Encoder = str | dict[str, _Swept]
_Protocol = Literal["paper", "released"]
_Precision = Literal["auto", "fp32", "bf16", "fp16"]


class _Block(msgspec.Struct, forbid_unknown_fields=True):
    encoders: _Encoder | list[_Encoder] | UnsetType = UNSET
    sweep: dict[str, _Swept] | UnsetType = UNSET
    tasks: str | list[str] | UnsetType = UNSET
    seeds: int | _Range | list[int | _Range] | UnsetType = UNSET
    corpus: str | UnsetType = UNSET
    protocol: _Protocol | list[_Protocol] | UnsetType = UNSET
    precision: _Precision | list[_Precision] | UnsetType = UNSET
    eval_precision: _Precision | list[_Precision] | UnsetType = UNSET
    baselines: bool | UnsetType = UNSET


class _File(_Block, forbid_unknown_fields=True):
    title: str = ""
    source: str = ""
    blocks: list[_Block] | UnsetType = UNSET


@hookimpl
def register_grids(register: Register) -> None:
    """Register YAML files (and files of an unknown ending), and the papers' own sweeps."""
    for name in (".yaml", ".yml", *(file.stem for file in sorted(grids_folder().glob("*.yaml")))):
        register(name, plan_of_grid)


def grids_folder() -> Path:
    """Return the folder of the papers' own sweeps: inside the package, or in ``leaderboards`` of a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "sweeps"
    return installed if installed.is_dir() else package.parents[1] / "leaderboards" / "grids"


def find_grid(name: str) -> Path:
    """Return the path of a grid file by its path or by the name of a built-in one (``mirror-bert-table12``)."""
    path, builtin = Path(name).expanduser(), grids_folder() / f"{name}.yaml"
    return builtin if builtin.is_file() and not path.is_file() else path


def read_grid(
    path: Path, plugins: Plugins, backbones: Sequence[EncoderSpec] = (), **given: Any
) -> GridFile:
    """Read and check a grid file, including names; a ``UsageError`` names file and line.

    ``backbones`` replace the backbone of every encoder except encoder systems, and values in ``given`` (tasks, seeds,
    corpus, protocol, precision, eval_precision, baselines; as in a file) replace those of the file, unless empty.
    """
    return _Reader(path, plugins, backbones, given).read()


def plan_grid(
    grid: GridFile,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    fetch: bool = True,
) -> Plan:
    """Merge the plans of all blocks into one."""
    maker, plans = PlanMaker(plugins, folders, compute, reporter, fetch), []
    for line, request in grid.requests:
        try:
            plans.append(maker.plan(request))
        except UsageError as error:
            raise type(error)(f"{grid.path}, line {line}: {error.message}", error.hint) from None
    try:
        return merged(plans)
    except UsageError as error:
        raise UsageError(f"{grid.path}: {error.message}", error.hint) from None


def plan_of_grid(
    name: str,
    workspace: Workspace,
    backbones: Sequence[EncoderSpec],
    limit: int,
    fetch: bool,
    **given: Any,
) -> Plan:
    """Plan a run of a grid file; ``given`` is as for ``read_grid``, ``limit`` as in a ``Request``."""
    for spec in backbones:
        if spec.method or spec.params:
            problem = f"--encoder {spec}: beside a grid file it names a backbone alone"
            raise UsageError(problem, f"Write --encoder {spec.backbone}")
    settings = workspace.settings
    precisions = {"precision": settings.precision, "eval_precision": settings.eval_precision}
    given |= {key: value for key, value in precisions.items() if value != "auto"}
    grid = read_grid(find_grid(name), workspace.plugins, backbones, **given)
    grid = replace(
        grid,
        requests=tuple((line, replace(request, limit=limit)) for line, request in grid.requests),
    )
    plan = plan_grid(
        grid, workspace.plugins, workspace.folders, workspace.compute, workspace.reporter, fetch
    )
    return replace(plan, title=grid.title)


_Keys = dict[str, tuple[Any, str]]
"""Values of the keys of a block, with their locations in the file as in msgspec (``.blocks[0].tasks``)."""
_DEFAULTS: _Keys = {
    "sweep": ({}, ""),
    "seeds": (1, ""),
    "corpus": ("", ""),
    "protocol": ("paper", ""),
    "precision": ("auto", ""),
    "eval_precision": ("auto", ""),
    "baselines": (False, ""),
}


class _Reader:
    """A file that is read; every method raises ``UsageError`` with file and line."""

    def __init__(
        self, path: Path, plugins: Plugins, backbones: Sequence[EncoderSpec], given: dict[str, Any]
    ) -> None:
        self.path, self.plugins, self.backbones = path, plugins, backbones
        self.given: _Keys = {key: (value, "") for key, value in given.items() if value}
        try:
            self.content = read_yaml(path)
            self.file = convert(self.content, _File, path)
        except DataFormatError as error:  # a grid file is user input
            raise UsageError(error.message, error.hint) from None

    def read(self) -> GridFile:
        defaults = self._keys(self.file, "")
        if self.file.blocks is UNSET:
            blocks = [(self.content.line, defaults)]
        elif not self.file.blocks:
            raise self._error(".blocks", "there are no blocks")
        else:
            lines = [block.line for block in self.content.value["blocks"].value]  # type: ignore[index,union-attr,call-overload]
            block_keys = [
                self._keys(block, f".blocks[{n}]") for n, block in enumerate(self.file.blocks)
            ]
            blocks = [(line, defaults | keys) for line, keys in zip(lines, block_keys, strict=True)]
        requests = [
            (line, request) for line, keys in blocks for request in self._requests(line, keys)
        ]
        return GridFile(self.path, self.file.title, tuple(requests))

    def _keys(self, block: _Block, location: str) -> _Keys:
        values = {key: getattr(block, key) for key in _Block.__struct_fields__}
        return {
            key: (value, f"{location}.{key}") for key, value in values.items() if value is not UNSET
        }

    def _error(self, location: str, problem: str, hint: str = "") -> UsageError:
        """An error with the file and line of a location."""
        return UsageError(
            problem_at(self.path, self.content, f"{problem} - at `${location}`").message, hint
        )

    @contextmanager
    def _reading(self, location: str) -> Iterator[None]:
        """Add file and line of a location to errors raised inside; values of the command line have none."""
        try:
            yield
        except UsageError as error:
            raise self._error(location, error.message, error.hint) if location else error from None

    def _requests(self, line: int, keys: _Keys) -> Iterator[Request]:
        """A request for each protocol of a block."""
        keys = _DEFAULTS | keys | self.given
        for key in ("encoders", "tasks"):
            if key not in keys:
                problem = f"{self.path}, line {line}: this block names no {key}"
                raise UsageError(problem, f"Write {key}: in it, or beside blocks.")
        for value, location in keys.values():
            if value == []:
                raise self._error(location, "an empty list")
        precisions = []
        for key in ("precision", "eval_precision"):
            precision, *more = _listed(keys[key][0])
            if more:
                raise self._error(
                    keys[key][1],
                    f"a block has one {key}",
                    "Use two files and two --output folders.",
                )
            precisions.append(precision)
        tasks, seeds, corpus = (
            self._tasks(*keys["tasks"]),
            self._seeds(*keys["seeds"]),
            keys["corpus"][0],
        )
        for protocol in _listed(keys["protocol"][0]):
            specs = tuple(dict.fromkeys(self._specs(keys, protocol)))
            yield Request(
                specs,
                tasks,
                seeds,
                corpus,
                protocol,
                precisions[0],
                precisions[1],
                keys["baselines"][0],
                names={spec: str(spec) for spec in specs if spec.is_path},
            )

    def _tasks(self, value: Any, location: str) -> tuple[str, ...]:
        names: list[str] = []
        for n, name in enumerate(_listed(value)):
            with self._reading(location and f"{location}[{n}]"):
                names += expand_tasks([name], self.plugins)
        return tuple(dict.fromkeys(names))

    def _seeds(self, value: Any, location: str) -> tuple[int, ...]:
        """A number of seeds, counted from 0, or the seeds themselves."""
        single = isinstance(value, int)
        seeds = self._values(value, location)
        if any(type(seed) is not int or seed < single for seed in seeds):
            raise self._error(
                location, "seeds must be whole numbers: their number, or a list of them"
            )
        whole = [int(seed) for seed in seeds]
        if single and whole[0] > MAX_RANGE:
            raise self._error(location, f"{whole[0]:,} seeds; at most {MAX_RANGE:,}")
        return tuple(range(whole[0])) if single else tuple(dict.fromkeys(whole))

    def _specs(self, keys: _Keys, protocol: str) -> Iterator[EncoderSpec]:
        """The encoder specs of a block with lists and ranges expanded; the first key varies slowest."""
        (encoders, location), (sweep, sweep_location) = keys["encoders"], keys["sweep"]
        for n, item in enumerate(_listed(encoders)):
            item_location = f"{location}[{n}]"
            entry = item if isinstance(item, dict) else {"encoder": item}
            if "encoder" not in entry:
                raise self._error(
                    item_location, "this encoder has no key 'encoder', which holds its spec"
                )
            if both := [key for key in entry if key in sweep]:
                raise self._error(
                    f"{item_location}.{both[0]}", f"{both[0]!r} is in this encoder and in sweep"
                )
            swept = {
                key: (value, f"{item_location}.{key}")
                for key, value in entry.items()
                if key != "encoder"
            }
            swept |= {key: (value, f"{sweep_location}.{key}") for key, value in sweep.items()}
            for m, text in enumerate(_listed(entry["encoder"])):
                spec_location = (
                    f"{item_location}.encoder[{m}]" if isinstance(item, dict) else item_location
                )
                with self._reading(spec_location):
                    if not isinstance(text, str):
                        raise UsageError(f"expected a spec, not {text!r}")
                    spec = parse_spec(text)
                replacing = () if spec.backbone in self.plugins.encoders else self.backbones
                for b in replacing or [spec]:
                    full = EncoderSpec(b.backbone, b.revision, spec.method, spec.params)
                    yield from self._swept(full, swept, spec_location, protocol)

    def _swept(
        self, spec: EncoderSpec, keys: _Keys, location: str, protocol: str
    ) -> Iterator[EncoderSpec]:
        for key, (_, key_location) in keys.items():
            if spec.get(key) is not None:
                raise self._error(key_location, f"{key!r} is in {spec} already")
        values = [self._values(value, key_location) for value, key_location in keys.values()]
        if (count := prod(map(len, values))) > MAX_SWEEP:
            raise self._error(
                location,
                f"a sweep over {count:,} values of {', '.join(keys)}; at most {MAX_SWEEP:,}",
            )
        for chosen in product(*values):
            full = spec.with_params(**dict(zip(keys, chosen, strict=True)))
            try:
                check_spec(full, protocol, self.plugins)
            except UsageError as error:
                named = [
                    key_location for key, (_, key_location) in keys.items() if key in error.message
                ]
                raise self._error(
                    named[0] if named else location, error.message, error.hint
                ) from None
            yield full

    def _values(self, value: Any, location: str) -> list[Value]:
        """A plain value, a range, or a list of both, as a list of plain values."""
        values: list[Value] = []
        for item in _listed(value):
            values += item.values() if isinstance(item, _Range) else [item]
        if not values or "" in values:
            raise self._error(location, "a value is missing" if values else "an empty list")
        return [parse_value(item) if isinstance(item, str) else item for item in values]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
