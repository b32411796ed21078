"""Runs that measure the cells of the papers' tables."""

from __future__ import annotations

from itertools import product

import pytest
from helpers.paper_results import joined, table

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.papers.measurement_runs import paper_analyses, paper_requests
from mirrorbench.papers.table_files import PaperTable, paper_tables


def test_requests_cover_exactly_the_measurable_cells() -> None:
    for paper in (t for t in paper_tables().values() if isinstance(t, PaperTable)):
        requests = paper_requests(paper, 2)
        measurable = {(t.spec, task) for t in paper.targets().values() for task in t.tasks}
        requested = []
        for request in requests:
            requested += product(request.encoders, request.tasks)
        for analysis, specs in paper_analyses(paper):
            requested += [(spec, analysis.task_name) for spec in specs]
        assert set(requested) == measurable, paper.name
        assert len(requested) == len(measurable)
        assert all(request.seeds == (0, 1) for request in requests)


def test_replacement_backbone_is_measured_once_per_row() -> None:
    for backbone in ("tiny+mirror", "tiny:pooling=cls"):
        with pytest.raises(UsageError, match="more than a backbone"):
            joined("mirror-bert/table3", [], backbone)
    (request,) = paper_requests(
        table("mirror-bert/table3"), 1, "released", backbone=parse_spec("tiny")
    )
    assert [str(spec) for spec in request.encoders] == [
        "tiny+base:pooling=cls",
        "tiny+base:pooling=mean-padded",
        "tiny+mirror",
        "tiny+mirror:drophead=0.2,dropout=0",
        "tiny+mirror:drophead=0.05,dropout=0",
    ]
    assert (len(request.tasks), request.protocol) == (7, "released")
    specs = [
        str(target.spec)
        for target in table("mirror-bert/table8").targets(parse_spec("tiny")).values()
    ]
    assert specs == [  # no dropout beside the controlled one
        f"tiny+mirror:{dropout},span_mask=0"
        for dropout in ("dropout=0", "dropout=0.1", "controlled_dropout=0.1")
    ]
