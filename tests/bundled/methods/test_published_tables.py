"""The published tables of the package's papers, read as tables of the core."""

from __future__ import annotations

import numpy as np
import pytest

from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import check_corpus
from mirrorbench.papers.table_files import FactTable, PaperTable, paper_tables
from mirrorbench.training.recipes import override


def test_published_tables_have_measurable_rows(plugins: Plugins) -> None:
    assert isinstance(
        paper_tables(plugins)["tsdae/results"], FactTable
    )  # on other tasks than those here
    tables = [
        paper_tables(plugins)[name]
        for name in ("simcse/table5", "esimcse/sts", "diffcse/sts", "promptbert/sts")
    ]
    for table in tables:
        assert isinstance(table, PaperTable)
        assert len(table.targets()) == 8 * len(table.rows)
        for row, printed in zip(table.rows, table.printed, strict=True):
            values = [cell.value for cell in printed]
            assert np.mean(values[:-1]) == pytest.approx(values[-1], abs=2e-4)  # type: ignore[arg-type]
            assert row.spec is not None
            method, params = plugins.methods[row.spec.method], dict(row.spec.params)
            override(
                method.preset("sentence", "bert", "paper"), params, plugins.augmentations.by_name()
            )
            check_corpus(str(params["corpus"]), plugins.corpora)
