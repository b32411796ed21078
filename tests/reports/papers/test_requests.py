from __future__ import annotations

import pytest

from mirrorbench.core.specs import parse_spec
from mirrorbench.reports.papers.measured import paper_requests
from mirrorbench.reports.papers.reading import find_table, paper_tables
from mirrorbench.reports.papers.tables import PaperTable


@pytest.mark.parametrize("name", [n for n, t in paper_tables().items() if isinstance(t, PaperTable)])
def test_requests_cover_the_measurable_cells_and_no_others(name: str) -> None:
    table = find_table(name)
    assert isinstance(table, PaperTable)
    wanted = {(t.spec, task) for t in table.targets().values() for task in t.tasks}
    made = [(spec, task) for request in paper_requests(table, 2) for spec in request.encoders for task in request.tasks]
    assert set(made) == wanted
    assert len(made) == len(wanted)
    assert all(request.seeds == (0, 1) for request in paper_requests(table, 2))


def test_another_backbone_once_a_row_and_no_systems() -> None:
    table = find_table("mirror-bert/table3")
    assert isinstance(table, PaperTable)
    (request,) = paper_requests(table, 1, backbone=parse_spec("tiny"))
    assert [str(spec) for spec in request.encoders] == [
        "tiny+base:pooling=cls", "tiny+base:pooling=mean", "tiny+mirror", "tiny+mirror:drophead=0.2,dropout=0",
        "tiny+mirror:drophead=0.05,dropout=0",
    ]  # fmt: skip
    assert len(request.tasks) == 7


def test_released_rows_average_over_padding() -> None:
    table = find_table("mirror-bert/table3")
    assert isinstance(table, PaperTable)
    (request,) = paper_requests(table, 1, "released", backbone=parse_spec("tiny"))
    assert [str(spec) for spec in request.encoders][:3] == [
        "tiny+base:pooling=cls", "tiny+base:pooling=mean-padded", "tiny+mirror",
    ]  # fmt: skip
