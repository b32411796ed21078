"""All methods of the package on the command line, and their published tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.plugin_fixtures import Said
from helpers.suite_marks import few, slow
from tuned import TEXTS

from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import check_corpus
from mirrorbench.papers.table_files import FactTable, PaperTable, paper_tables
from mirrorbench.training.recipes import override


@pytest.mark.parametrize(
    "labels",
    few([(("ESimCSE", "PromptBERT"),), (("SimCSE", "DiffCSE", "CT", "TSDAE"),)], suite=slow),
)
def test_methods_tune_through_the_command_line(
    said: Said, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    (tmp_path / "mine.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    specs = [
        part for label in labels for part in ("--encoder", f"tiny+{label.lower()}:batch_size=16")
    ]
    code, out, err = said(
        "run", "--offline", "--tasks", "quick-sts", "--corpus", "mine.txt", *specs
    )
    assert code == 0, err
    for label in labels:
        assert f"tiny+{label.lower()}:batch_size=16" in out
        (result,) = (tmp_path / "results").glob(f"tiny+{label.lower()}_*/quick-sts/seed-0.json")
        cell = json.loads(result.read_text(encoding="utf-8"))
        assert cell["cell"]["corpus"]["n"] == len(TEXTS)
        assert 0.3 < cell["main_score"] < 1


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
