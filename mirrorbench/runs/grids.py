"""Grid files: many runs in one YAML file (``docs/grids.md`` describes the format).

A file is one block, or several under ``blocks``; what stands beside ``blocks`` holds for all of them that do not say
otherwise. Lists and ranges may stand at every key of an encoder spec; each block becomes one or more requests, and all
their plans become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Never

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import PROTOCOLS, EncoderSpec, Value, parse_spec, parse_value
from mirrorbench.core.yamlfile import Located, read_yaml
from mirrorbench.runs.plan import Plan, Planner, Request, check_spec, expand_tasks, merged

if TYPE_CHECKING:
    from mirrorbench.runs.workspace import Workspace

BLOCK_KEYS = ("encoders", "sweep", "tasks", "seeds", "corpus", "protocol", "precision")
FILE_KEYS = ("title", "source", "blocks", *BLOCK_KEYS)
RANGE_KEYS = ("from", "to", "step")
MAX_RANGE = 1000
MAX_SWEEP = 10_000


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says in place of a file.

    Attributes:
        backbones: stand in for the backbone of every encoder that is none of the registered systems.
        tasks: task and suite names.
        seeds: the seeds.
        corpus: name or path.
        protocol: ``paper`` or ``released``.
        precision: ``auto``, ``fp32`` or ``bf16``.
    """

    backbones: tuple[EncoderSpec, ...] = ()
    tasks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    corpus: str = ""
    protocol: str = ""
    precision: str = ""


@dataclass(frozen=True, slots=True)
class GridBlock:
    """One request of a grid.

    Attributes:
        line: where its block starts in the file.
        request: what it asks for.
    """

    line: int
    request: Request


@dataclass(frozen=True, slots=True)
class GridFile:
    """A grid file, checked and taken apart.

    Attributes:
        path: the file.
        title: one line for the table, may be empty.
        blocks: in the order of the file.
    """

    path: Path
    title: str
    blocks: tuple[GridBlock, ...]


def grids_folder() -> Path:
    """Where the papers' own sweeps lie: inside the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "gridfiles"
    return installed if installed.is_dir() else package.parent / "leaderboards" / "grids"


def find_grid(name: str) -> Path:
    """The grid file of a path, or of the name of one that is shipped (``mirror-bert-table12``).

    Raises:
        UnknownNameError: neither.
    """
    path = Path(name).expanduser()
    shipped = grids_folder() / f"{name}.yaml"
    if path.is_file() or (path.exists() and not path.is_dir()):
        return path
    if "/" not in name and shipped.is_file():
        return shipped
    known = sorted(file.stem for file in grids_folder().glob("*.yaml"))
    raise unknown_name("grid, and no file,", name, known)


def read_grid(path: Path, plugins: Plugins, overrides: Overrides | None = None) -> GridFile:
    """Read and check a grid file; nothing is looked up but names.

    Args:
        path: the file.
        plugins: what is registered.
        overrides: what the command line says instead.

    Raises:
        UsageError: the file is not what it should be; the message names file and line.
    """
    return _Reader(path, plugins, overrides or Overrides()).read()


def plan_grid(grid: GridFile, workspace: Workspace, fetch: bool = True) -> Plan:
    """One plan of all blocks.

    Raises:
        UsageError: a request is wrong, or two blocks ask for different cells in one place of the results.
    """
    planner = Planner(workspace, fetch)
    plans = []
    for block in grid.blocks:
        try:
            plans.append(planner.plan(block.request))
        except UsageError as error:
            raise _at(grid.path, block.line, error) from None
    try:
        return merged(plans)
    except UsageError as error:
        raise UsageError(f"{grid.path}: {error.message}", error.hint) from None


def _at(path: Path, line: int, error: UsageError) -> UsageError:
    """The same error with file and line in front."""
    return type(error)(f"{path}, line {line}: {error.message}", error.hint)


class _Reader:
    """Reads one file; every method raises ``UsageError`` with file and line."""

    def __init__(self, path: Path, plugins: Plugins, overrides: Overrides) -> None:
        self.path = path
        self.plugins = plugins
        self.overrides = overrides

    def read(self) -> GridFile:
        """The whole file."""
        try:
            root = read_yaml(self.path)
        except DataFormatError as error:  # a grid is part of the request
            raise UsageError(error.message, error.hint) from None
        top = self._mapping(root, "a grid", FILE_KEYS)
        defaults = {key: value for key, value in top.items() if key in BLOCK_KEYS}
        blocks = self._items(top["blocks"]) if "blocks" in top else [Located({}, root.line)]
        if not blocks:
            self._fail(top["blocks"].line, "there are no blocks")
        for key in ("title", "source"):
            if key in top and not isinstance(top[key].value, str):
                self._fail(top[key].line, f"{key} must be a line of text")
        requests = [
            GridBlock(block.line, request)
            for block in blocks
            for request in self._requests(block.line, defaults | self._mapping(block, "a block", BLOCK_KEYS))
        ]
        return GridFile(self.path, str(top["title"].value) if "title" in top else "", tuple(requests))

    def _requests(self, line: int, block: dict[str, Located]) -> Iterator[Request]:
        """One request for each protocol and precision of a block."""
        for key in ("encoders", "tasks"):
            if key not in block and not getattr(self.overrides, key, ()):
                self._fail(line, f"this block names no {key}", f"Write {key}: in it, or beside blocks.")
        for key in ("encoders", "tasks", "protocol", "precision"):
            if key in block and block[key].value == ():
                self._fail(block[key].line, f"{key}: an empty list")
        tasks = self._tasks(block)
        seeds = self.overrides.seeds or self._seeds(block.get("seeds"))
        corpus = self.overrides.corpus or self._word(block.get("corpus"))
        protocols = self._choices(block, "protocol", self.overrides.protocol, PROTOCOLS, "paper")
        precisions = self._choices(block, "precision", self.overrides.precision, ("auto", "fp32", "bf16"), "auto")
        if len(precisions) > 1:
            self._fail(block["precision"].line, "a block has one precision", "Use two files and two --output folders.")
        for protocol in protocols:
            specs = tuple(dict.fromkeys(self._specs(block, protocol)))
            yield Request(specs, tasks, seeds, corpus, protocol, precisions[0])

    def _tasks(self, block: dict[str, Located]) -> tuple[str, ...]:
        if self.overrides.tasks:
            return expand_tasks(self.overrides.tasks, self.plugins)
        names: dict[str, None] = {}
        for item in self._items(block["tasks"]):
            name = self._word(item)
            try:
                names.update(dict.fromkeys(expand_tasks([name], self.plugins)))
            except UsageError as error:
                raise _at(self.path, item.line, error) from None
        return tuple(names)

    def _seeds(self, found: Located | None) -> tuple[int, ...]:
        """A number of seeds, counted from 0, or the seeds themselves."""
        if found is None:
            return (0,)
        single = not isinstance(found.value, tuple | dict)
        values = self._values(found)
        if any(type(value) is not int or value < single for value in values):
            self._fail(found.line, "seeds must be whole numbers: how many there are, or a list of them")
        whole = [int(value) for value in values]
        if single and whole[0] > MAX_RANGE:
            self._fail(found.line, f"{whole[0]:,} seeds; at most {MAX_RANGE:,}")
        return tuple(range(whole[0])) if single else tuple(dict.fromkeys(whole))

    def _choices(
        self, block: dict[str, Located], key: str, given: str, known: Sequence[str], default: str
    ) -> Sequence[str]:
        if given:
            return [given]
        items = self._items(block[key]) if key in block else []
        for item in items:
            if item.value not in known:
                raise _at(self.path, item.line, unknown_name(key, str(item.value), list(known)))
        return [str(item.value) for item in items] or [default]

    def _specs(self, block: dict[str, Located], protocol: str) -> Iterator[EncoderSpec]:
        """The encoder specs of a block, lists and ranges taken apart; the first key varies slowest."""
        sweep = self._mapping(block["sweep"], "sweep", ()) if "sweep" in block else {}
        for item in self._items(block["encoders"]):
            own = self._mapping(item, "an encoder", ()) if isinstance(item.value, dict) else {"encoder": item}
            if "encoder" not in own:
                self._fail(item.line, "this encoder has no key 'encoder', which holds its spec")
            if both := [key for key in own if key in sweep]:
                self._fail(own[both[0]].line, f"{both[0]!r} stands at this encoder and in sweep")
            keys = {key: value for key, value in (own | sweep).items() if key != "encoder"}
            for text in self._items(own["encoder"]):
                for spec in self._backbones(text):
                    yield from self._swept(spec, keys, text.line, protocol)

    def _backbones(self, text: Located) -> Iterable[EncoderSpec]:
        word = self._word(text)
        try:
            spec = parse_spec(word)
        except UsageError as error:
            raise _at(self.path, text.line, error) from None
        if spec.backbone in self.plugins.encoders or not self.overrides.backbones:
            return [spec]
        return [EncoderSpec(b.backbone, b.revision, spec.method, spec.params) for b in self.overrides.backbones]

    def _swept(self, spec: EncoderSpec, keys: dict[str, Located], line: int, protocol: str) -> Iterator[EncoderSpec]:
        for key in keys:
            if spec.get(key) is not None:
                self._fail(keys[key].line, f"{key!r} stands in {spec} already")
        swept = [self._values(value) for value in keys.values()]
        if (count := prod(map(len, swept))) > MAX_SWEEP:
            self._fail(line, f"a sweep over {count:,} values of {', '.join(keys)}; at most {MAX_SWEEP:,}")
        for values in product(*swept):
            full = spec.with_params(**dict(zip(keys, values, strict=True)))
            try:
                check_spec(full, protocol, self.plugins)
            except UsageError as error:
                named = [keys[key].line for key in keys if key in error.message]
                raise _at(self.path, named[0] if named else line, error) from None
            yield full

    def _values(self, found: Located) -> list[Value]:
        """A plain value, a list, or a range; lists may hold ranges."""
        if isinstance(found.value, tuple):
            values = [value for item in found.value for value in self._values(item)]
            if not values:
                self._fail(found.line, "an empty list")
            return values
        if isinstance(found.value, dict):
            return self._range(found)
        if found.value is None or found.value == "":
            self._fail(found.line, "a value is missing")
        return [parse_value(found.value) if isinstance(found.value, str) else found.value]

    def _range(self, found: Located) -> list[Value]:
        """``{from: 0, to: 0.4, step: 0.1}``: both ends belong to it."""
        keys = self._mapping(found, "a range", RANGE_KEYS)
        numbers: list[Decimal] = []
        for key in RANGE_KEYS:
            value = keys[key].value if key in keys else 1 if key == "step" else None
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._fail(found.line, f"a range needs numbers: from, to, step; {key} is {value!r}")
            numbers.append(Decimal(repr(value)))  # or 0.1 + 0.1 + 0.1 would not be 0.3
        first, last, step = numbers
        if not all(number.is_finite() for number in numbers) or step <= 0 or last < first:
            self._fail(found.line, f"a range goes up from {first} to {last} by steps above 0, not by {step}")
        count = int((last - first) / step) + 1
        if count > MAX_RANGE:
            self._fail(found.line, f"a range of {count:,} values; at most {MAX_RANGE:,}")
        values = [first + step * n for n in range(count)]
        whole = all(number == number.to_integral_value() for number in (first, step))
        return [int(value) if whole else float(value) for value in values]

    def _mapping(self, found: Located, what: str, known: Sequence[str]) -> dict[str, Located]:
        if not isinstance(found.value, dict):
            self._fail(found.line, f"{what} must be a mapping of keys to values")
        for key, value in found.value.items():
            if known and key not in known:
                raise _at(self.path, value.line, unknown_name(f"key of {what}", key, list(known)))
        return found.value

    def _items(self, found: Located) -> list[Located]:
        return list(found.value) if isinstance(found.value, tuple) else [found]

    def _word(self, found: Located | None) -> str:
        if found is None:
            return ""
        if not isinstance(found.value, str):
            self._fail(found.line, "a name is wanted here, not a list, a number or nothing")
        return found.value

    def _fail(self, line: int, problem: str, hint: str = "") -> Never:
        raise UsageError(f"{self.path}, line {line}: {problem}", hint)
