"""The layout of result files: types and ranges of what readers of results use, and how the parts of one agree.

Keys that a file of an earlier version does not have are optional, and those that nobody reads are not declared.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from mirrorbench.core.specs import parse_spec
from mirrorbench.tasks.metrics import range_of

Count = Annotated[int, Meta(ge=0, lt=2**53)]
Positive = Annotated[int, Meta(gt=0, lt=2**53)]
Amount = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
_ROUNDING = 1e-9


class _Precision(Struct):
    encoding: str
    tuning: str | None = None


class _Recipe(Struct):
    epochs: Positive
    augment: dict[str, float]


class _Corpus(Struct):
    name: str
    n: Positive
    sha256: str | None = None


class _Cell(Struct):
    spec: str
    task: str
    protocol: str
    seed: Count
    precision: _Precision
    method: str = ""
    level: str = ""
    recipe: _Recipe | None = None
    corpus: _Corpus | None = None
    post: dict[str, list[Any]] | None = None
    computation: Count | None = None

    def __post_init__(self) -> None:
        parse_spec(self.spec)


class _Data(Struct):
    version: Count | None = None
    files: dict[str, str] = {}
    limit: Count = 0


class _Encoder(Struct):
    fingerprint: str = ""
    weights: str = ""
    revision: str = ""
    pooling: str = ""
    layers: str = ""
    prompt: str = ""
    normalize: bool = False
    max_length: Count | None = None
    dimensions: Count | None = None
    parameters: Count | None = None
    texts: Count | None = None


class _Environment(Struct):
    mirrorbench: str = ""
    packages: dict[str, str] = {}
    device: str = ""
    git: str | None = None


class _Cost(Struct, frozen=True):
    encoding: dict[str, Amount] = {}
    tuning: dict[str, bool | Amount] = {}


class _Overlap(Struct):
    n_items: Count = 0
    any_text: Share = 0.0
    all_texts: Share = 0.0


class _State(Struct):
    share: Share
    measures: dict[str, float]
    gained: Count
    lost: Count
    nearest: list[Count]


class _HeldOut(Struct):
    n: Count
    states: list[_State]
    kept: Count


class Layout(Struct):
    """A result file; decoding raises where a type, a range or the agreement of the scores is wrong."""

    cell: _Cell
    cell_id: str
    metrics: dict[str, float | None]
    main_metric: str
    main_score: float | None
    n_items: Count
    coverage: Share
    seconds: dict[str, Amount]
    data: _Data
    encoder: _Encoder
    environment: _Environment
    created: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d")]
    cost: _Cost = _Cost()
    overlap: _Overlap | None = None
    held_out: _HeldOut | None = None

    def __post_init__(self) -> None:
        for name, value in self.metrics.items():
            low, high = range_of(name)
            if value is not None and not low - _ROUNDING <= value <= high + _ROUNDING:
                raise ValueError(f"{name} lies between {low:g} and {high:g}, and {value:g} does not")
        if self.main_metric not in self.metrics or self.metrics[self.main_metric] != self.main_score:
            raise ValueError(f"the main score is not the value of its metric, {self.main_metric}")
