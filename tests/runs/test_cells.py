from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirrorbench.core.identity import COMPUTATIONS
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformations import Transformation
from mirrorbench.runs.cells import Cell, CorpusRef, ModelRef, PostRef, computation_of
from mirrorbench.training.methods import mirror_preset

BERT, CORPUS = parse_spec("bert+mirror"), CorpusRef("mine", 0, "c" * 64, 9)
RECIPE = mirror_preset("sentence", "bert", "paper")
TUNED = ModelRef(BERT, "f", Path("bert"), "mirror", RECIPE, CORPUS, 1, "paper", "bf16")
UNTUNED = ModelRef(BERT, "f", Path("bert"), "base")
POST = PostRef(Transformation("whiten", 5), CORPUS)


@pytest.mark.parametrize("model", [
    ModelRef(parse_spec("toy"), "f"), UNTUNED, replace(UNTUNED, attention="bidirectional"), TUNED,
    replace(TUNED, deterministic=True), replace(TUNED, posts=(("", POST),)),
])  # fmt: skip
@pytest.mark.parametrize("limit", [0, 5])
@pytest.mark.parametrize("number", COMPUTATIONS)
def test_the_computation_of_a_result_is_recognised_by_its_identity(
    monkeypatch: pytest.MonkeyPatch, model: ModelRef, limit: int, number: int
) -> None:
    """From what its file holds, of versions that did not state it."""
    monkeypatch.setattr("mirrorbench.runs.cells.COMPUTATION", number)
    pooling = Pooling("mean", "-1:", 64) if model.method else None
    files = {"pairs": "1"}
    cell = Cell(model.spec, "cats", "sentence", 1, model, pooling, "fp32", "paper", (("pairs", "1"),), 2, limit)
    encoder = {"weights": "f", "dimensions": 4, **(pooling.to_json() if pooling else {})}
    data = {"version": 2, "files": files} | ({"limit": limit} if limit else {})
    stored = cell.to_json()
    assert stored.pop("computation") == number
    assert computation_of(cell.id, stored, encoder, data) == number
    assert computation_of(cell.id, stored | {"seed": 2}, encoder, data) is None
    assert computation_of(cell.id, stored, encoder | {"weights": "g"}, data) is None


def test_parts_that_stand_in_no_file_leave_it_unknown() -> None:
    model = ModelRef(BERT, "f", members=(("en", UNTUNED), ("fr", TUNED)))
    cell = Cell(BERT, "cats", "sentence", 1, model, None, "fp32", "paper", (("pairs", "1"),), 2)
    assert computation_of(cell.id, cell.to_json(), {"weights": "f"}, {"version": 2, "files": {"pairs": "1"}}) is None
