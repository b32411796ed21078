"""All methods of the package, as its users meet them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from harness.fixtures import Said
from suites import few, slow
from tuned import TEXTS

from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import check_corpus
from mirrorbench.reports.papers.tables import FactTable, PaperTable, paper_tables
from mirrorbench.training.recipes import override

LABELS = {
    "simcse": "tiny + SimCSE",
    "esimcse": "tiny + ESimCSE",
    "diffcse": "tiny + DiffCSE",
    "promptbert": "tiny + PromptBERT",
    "ct": "tiny + CT",
    "tsdae": "tiny + TSDAE",
}
RUN = ("run", "--offline", "--tasks", "quick-sts")


@pytest.mark.parametrize(
    "methods", few([(("esimcse", "promptbert"),), (("simcse", "diffcse", "ct", "tsdae"),)], suite=slow)
)
def test_they_tune_through_the_command_line(said: Said, tmp_path: Path, methods: tuple[str, ...]) -> None:
    (tmp_path / "mine.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    specs = [part for method in methods for part in ("--encoder", f"tiny+{method}:batch_size=16")]
    code, out, err = said(*RUN, "--corpus", "mine.txt", *specs)
    assert code == 0, err
    for method in methods:
        assert LABELS[method] in out
        (result,) = (tmp_path / "results").glob(f"tiny+{method}_*/quick-sts/seed-0.json")
        cell = json.loads(result.read_text(encoding="utf-8"))
        assert cell["cell"]["corpus"]["n"] == len(TEXTS)
        assert 0.3 < cell["main_score"] < 1


@pytest.mark.slow
def test_a_corpus_of_less_than_a_batch_is_told_by_the_pairs_that_a_method_makes(said: Said, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("\n".join(TEXTS[:12]) + "\n", encoding="utf-8")
    code, _, err = said(*RUN, "--corpus", "mine.txt", "--encoder", "tiny+ct", "--encoder", "tiny+simcse")
    assert code == 0, err
    assert "tiny+simcse: mine.txt makes 12 pairs, fewer than one batch of 64" in err
    assert err.count("fewer than one batch") == 1


def test_what_is_published_is_listed_with_rows_that_can_be_measured(plugins: Plugins) -> None:
    assert isinstance(paper_tables(plugins)["tsdae/results"], FactTable)  # on other tasks than those here
    tables = [paper_tables(plugins)[name] for name in ("simcse/table5", "esimcse/sts", "diffcse/sts", "promptbert/sts")]
    for table in tables:
        assert isinstance(table, PaperTable)
        assert len(table.targets()) == 8 * len(table.rows)
        for row, printed in zip(table.rows, table.printed, strict=True):
            values = [cell.value for cell in printed]
            assert np.mean(values[:-1]) == pytest.approx(values[-1], abs=2e-4)  # type: ignore[arg-type]
            assert row.spec is not None
            method, params = plugins.methods[row.spec.method], dict(row.spec.params)
            override(method.preset("sentence", "bert", "paper"), params, plugins.augmentations.by_name())
            check_corpus(str(params["corpus"]), plugins.corpora.by_name())
