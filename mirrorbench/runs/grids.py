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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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

MAX_RANGE = 1000
"""Most values of a range."""
MAX_SWEEP = 10_000
"""Most specs of a sweep."""


@dataclass(frozen=True, slots=True)
class GridFile:
    """A checked grid file; ``title`` is the title of its table and may be empty."""

    path: Path
    title: str
    requests: tuple[tuple[int, Request], ...]
    """Requests, each with the first line of its block."""


class _Range(msgspec.Struct, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}):
    """A range of numbers, both ends included: ``{from: 0, to: 0.4, step: 0.1}``."""

    first: int | float
    last: int | float
    step: int | float = 1

    def __post_init__(self) -> None:
        is_finite = all(map(isfinite, (self.first, self.last, self.step)))
        if not is_finite or self.step <= 0 or self.last < self.first:
            raise ValueError(
                f"a range goes up by a step above 0, but this one goes from {self.first} to {self.last} by {self.step}"
            )
        count = int((self.last - self.first) / self.step) + 1
        if count > MAX_RANGE:
            raise ValueError(f"a range of {count:,} values; at most {MAX_RANGE:,}")

    def values(self) -> list[Value]:
        """Return the numbers of the range; all are integers if its start and its step are."""
        # Compute in decimals: as floats, 0.1 + 0.1 + 0.1 is not 0.3.
        first = Decimal(repr(self.first))
        last = Decimal(repr(self.last))
        step = Decimal(repr(self.step))
        count = int((last - first) / step) + 1
        numbers = [first + step * n for n in range(count)]
        if first == first.to_integral_value() and step == step.to_integral_value():
            return [int(number) for number in numbers]
        return [float(number) for number in numbers]


_Scalar = str | int | float | bool
_Swept = _Scalar | _Range | list[_Scalar | _Range]
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
    builtin_names = [file.stem for file in sorted(grids_folder().glob("*.yaml"))]
    for name in (".yaml", ".yml", *builtin_names):
        register(name, plan_of_grid)


def grids_folder() -> Path:
    """Return the folder of the papers' own sweeps: inside the package, or in ``leaderboards`` of a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / "sweeps"
    return installed if installed.is_dir() else package.parents[1] / "leaderboards" / "grids"


def find_grid(name: str) -> Path:
    """Return the path of a built-in grid file by its name (``mirror-bert-table12``), else the name as a path.

    A file of the user with the same name comes first. The path may not exist.
    """
    path = Path(name).expanduser()
    builtin = grids_folder() / f"{name}.yaml"
    if builtin.is_file() and not path.is_file():
        return builtin
    return path


def read_grid(
    path: Path, plugins: Plugins, backbones: Sequence[EncoderSpec] = (), **given: Any
) -> GridFile:
    """Read and check a grid file, including the names in it; a ``UsageError`` names file and line.

    ``backbones`` replace the backbone of every encoder except encoder systems. Values in ``given`` that are not empty
    (tasks, seeds, corpus, protocol, precision, eval_precision, baselines; as in a file) replace those of the file.
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
    """Plan all blocks, and merge their plans into one; a ``UsageError`` names the file and, for a block, the line."""
    maker = PlanMaker(plugins, folders, compute, reporter, fetch)
    plans = []
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
    """Plan a run of a grid file: its path, or the name of a built-in one.

    Args:
        name: the path or the name.
        workspace: the workspace; its precisions, unless they are ``auto``, replace those of the file.
        backbones: specs without method and keys, which replace the backbones of the file's encoders, except encoder
            systems; if empty, those of the file stay.
        limit: as in a ``Request``.
        fetch: whether to download missing data.
        given: values of keys of a block, such as ``seeds``, which replace those of the file unless they are empty.
    """
    for spec in backbones:
        if spec.method or spec.params:
            problem = f"--encoder {spec}: with a grid file, it may only name a backbone"
            raise UsageError(problem, f"Write --encoder {spec.backbone}")
    settings = workspace.settings
    if settings.precision != "auto":
        given["precision"] = settings.precision
    if settings.eval_precision != "auto":
        given["eval_precision"] = settings.eval_precision
    grid = read_grid(find_grid(name), workspace.plugins, backbones, **given)
    requests = [(line, replace(request, limit=limit)) for line, request in grid.requests]
    grid = replace(grid, requests=tuple(requests))
    plan = plan_grid(
        grid, workspace.plugins, workspace.folders, workspace.compute, workspace.reporter, fetch
    )
    return replace(plan, title=grid.title)


class _Key(NamedTuple):
    """The value of a key, and its location."""

    value: Any
    location: str
    """Location in the file as in msgspec (``.blocks[0].tasks``); empty for a default or a value of the command line."""


_Keys = dict[str, _Key]
"""The keys of a block, by name."""
_DEFAULTS: _Keys = {
    "sweep": _Key({}, ""),
    "seeds": _Key(1, ""),
    "corpus": _Key("", ""),
    "protocol": _Key("paper", ""),
    "precision": _Key("auto", ""),
    "eval_precision": _Key("auto", ""),
    "baselines": _Key(False, ""),
}


class _Reader:
    """Reads a grid file; every method raises ``UsageError`` with file and line."""

    def __init__(
        self, path: Path, plugins: Plugins, backbones: Sequence[EncoderSpec], given: dict[str, Any]
    ) -> None:
        self.path = path
        self.plugins = plugins
        self.backbones = backbones
        self.given: _Keys = {key: _Key(value, "") for key, value in given.items() if value}
        try:
            self.content = read_yaml(path)
            self.file = convert(self.content, _File, path)
        except DataFormatError as error:  # a grid file is user input
            raise UsageError(error.message, error.hint) from None

    def read(self) -> GridFile:
        """Return the checked file with a request for each block and protocol."""
        # The keys of the file are defaults of its blocks. Without blocks they are the only block.
        defaults = self._keys(self.file, "")
        if self.file.blocks is UNSET:
            blocks = [(self.content.line, defaults)]
        elif not self.file.blocks:
            raise self._error(".blocks", "there are no blocks")
        else:
            # ``content`` is the file as read, with the line of each value.
            lines = [block.line for block in self.content.value["blocks"].value]  # type: ignore[index,union-attr,call-overload]
            blocks = []
            for n, block in enumerate(self.file.blocks):
                keys = defaults | self._keys(block, f".blocks[{n}]")
                blocks.append((lines[n], keys))
        requests = []
        for line, keys in blocks:
            for request in self._requests(line, keys):
                requests.append((line, request))
        return GridFile(self.path, self.file.title, tuple(requests))

    def _keys(self, block: _Block, location: str) -> _Keys:
        """Return the keys that a block has, without defaults."""
        keys = {}
        for key in _Block.__struct_fields__:
            value = getattr(block, key)
            if value is not UNSET:
                keys[key] = _Key(value, f"{location}.{key}")
        return keys

    def _error(self, location: str, problem: str, hint: str = "") -> UsageError:
        """Return an error with the file and line of a location."""
        located = problem_at(self.path, self.content, f"{problem} - at `${location}`")
        return UsageError(located.message, hint)

    @contextmanager
    def _reading(self, location: str) -> Iterator[None]:
        """Add file and line of a location to errors raised inside, unless it is empty (command line)."""
        try:
            yield
        except UsageError as error:
            if not location:
                raise
            raise self._error(location, error.message, error.hint) from None

    def _requests(self, line: int, keys: _Keys) -> Iterator[Request]:
        """Yield a request for each protocol of a block."""
        # From weak to strong: defaults, the keys of the block, and those given by the caller.
        keys = _DEFAULTS | keys | self.given
        for key in ("encoders", "tasks"):
            if key not in keys:
                problem = f"{self.path}, line {line}: this block names no {key}"
                raise UsageError(problem, f"Write {key}: in it, or beside blocks.")
        for value, location in keys.values():
            if value == []:
                raise self._error(location, "an empty list")
        precision = self._single_value(keys, "precision")
        eval_precision = self._single_value(keys, "eval_precision")
        tasks = self._tasks(*keys["tasks"])
        seeds = self._seeds(*keys["seeds"])
        for protocol in _listed(keys["protocol"].value):
            specs = tuple(dict.fromkeys(self._specs(keys, protocol)))
            # A directory is named in the table as it is written in the file.
            names = {spec: str(spec) for spec in specs if spec.is_path}
            yield Request(
                encoders=specs,
                tasks=tasks,
                seeds=seeds,
                corpus=keys["corpus"].value,
                protocol=protocol,
                precision=precision,
                eval_precision=eval_precision,
                baselines=keys["baselines"].value,
                names=names,
            )

    def _single_value(self, keys: _Keys, key: str) -> str:
        """Return the value of a key that may be a list of one value only."""
        value, location = keys[key]
        values = _listed(value)
        if len(values) > 1:
            raise self._error(
                location, f"a block has one {key}", "Use two files and two --output folders."
            )
        return str(values[0])

    def _tasks(self, value: Any, location: str) -> tuple[str, ...]:
        names: list[str] = []
        for n, name in enumerate(_listed(value)):
            with self._reading(location and f"{location}[{n}]"):
                names += expand_tasks([name], self.plugins)
        return tuple(dict.fromkeys(names))

    def _seeds(self, value: Any, location: str) -> tuple[int, ...]:
        """Return the seeds: those listed, or 0 to n - 1 for a single number n."""
        is_count = isinstance(value, int)
        # 0 is a seed, but not a number of seeds.
        least = 1 if is_count else 0
        numbers: list[int] = []
        for number in self._values(value, location):
            if type(number) is not int or number < least:
                raise self._error(
                    location, "seeds must be whole numbers: their number, or a list of them"
                )
            numbers.append(number)
        if not is_count:
            return tuple(dict.fromkeys(numbers))
        count = numbers[0]
        if count > MAX_RANGE:
            raise self._error(location, f"{count:,} seeds; at most {MAX_RANGE:,}")
        return tuple(range(count))

    def _specs(self, keys: _Keys, protocol: str) -> Iterator[EncoderSpec]:
        """Yield the encoder specs of a block with lists and ranges expanded; the first key varies slowest."""
        encoders, location = keys["encoders"]
        for n, encoder in enumerate(_listed(encoders)):
            encoder_location = f"{location}[{n}]"
            # An encoder is a spec, or a mapping with one or several specs and keys to sweep.
            entry = encoder if isinstance(encoder, dict) else {"encoder": encoder}
            if "encoder" not in entry:
                raise self._error(
                    encoder_location, "this encoder has no key 'encoder', which holds its spec"
                )
            swept_keys = self._swept_keys(entry, encoder_location, keys["sweep"])
            for m, text in enumerate(_listed(entry["encoder"])):
                spec_location = encoder_location
                if isinstance(encoder, dict):
                    spec_location = f"{encoder_location}.encoder[{m}]"
                # One spec, or one for each backbone that the caller gave.
                for spec in self._parsed_specs(text, spec_location):
                    yield from self._swept(spec, swept_keys, spec_location, protocol)

    def _swept_keys(self, entry: dict[str, Any], location: str, sweep: _Key) -> _Keys:
        """Return the keys of an encoder that may have several values: its own, then those of ``sweep``."""
        for key in entry:
            if key in sweep.value:
                raise self._error(f"{location}.{key}", f"{key!r} is in this encoder and in sweep")
        swept_keys = {}
        for key, value in entry.items():
            if key != "encoder":
                swept_keys[key] = _Key(value, f"{location}.{key}")
        for key, value in sweep.value.items():
            swept_keys[key] = _Key(value, f"{sweep.location}.{key}")
        return swept_keys

    def _parsed_specs(self, text: Any, location: str) -> list[EncoderSpec]:
        """Parse a spec; return it, or its copies with each of the given backbones."""
        with self._reading(location):
            if not isinstance(text, str):
                raise UsageError(f"expected a spec, not {text!r}")
            spec = parse_spec(text)
        if not self.backbones or spec.backbone in self.plugins.encoders:
            return [spec]
        return [
            EncoderSpec(backbone.backbone, backbone.revision, spec.method, spec.params)
            for backbone in self.backbones
        ]

    def _swept(
        self, spec: EncoderSpec, keys: _Keys, location: str, protocol: str
    ) -> Iterator[EncoderSpec]:
        """Yield a spec with each combination of the values of some keys, checked; the spec itself without keys."""
        for key, located in keys.items():
            if spec.get(key) is not None:
                raise self._error(located.location, f"{key!r} is in {spec} already")
        values = [self._values(*located) for located in keys.values()]
        count = prod(map(len, values))
        if count > MAX_SWEEP:
            raise self._error(
                location,
                f"a sweep over {count:,} values of {', '.join(keys)}; at most {MAX_SWEEP:,}",
            )
        for combination in product(*values):
            params = dict(zip(keys, combination, strict=True))
            swept_spec = spec.with_params(**params)
            try:
                check_spec(swept_spec, protocol, self.plugins)
            except UsageError as error:
                # Point at the first key that the message names, or else at the spec.
                error_location = location
                for key, located in keys.items():
                    if key in error.message:
                        error_location = located.location
                        break
                raise self._error(error_location, error.message, error.hint) from None
            yield swept_spec

    def _values(self, value: Any, location: str) -> list[Value]:
        """Return the values of a key, which is a plain value, a range, or a list of both, with ranges expanded."""
        values: list[Value] = []
        for element in _listed(value):
            if isinstance(element, _Range):
                values += element.values()
            else:
                values.append(element)
        if not values:
            raise self._error(location, "an empty list")
        if "" in values:
            raise self._error(location, "a value is missing")
        return [parse_value(value) if isinstance(value, str) else value for value in values]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
