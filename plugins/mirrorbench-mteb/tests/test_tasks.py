"""Tasks of MTEB as tasks of mirrorbench: the catalogue, the data, and the scores."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import mteb
import pytest
from memory import classification_task, on_disk
from mirrorbench_mteb.catalogue import FILE, _content, catalogue
from mirrorbench_mteb.model import MirrorbenchModel
from mirrorbench_mteb.tasks import from_mteb

import mirrorbench
from mirrorbench.plugin import DataStore, DataUnavailableError, Pair, Plugins, UsageError

PROJECT = Path(__file__).resolve().parents[1]


def test_catalogue_matches_the_installed_mteb() -> None:
    pytest.importorskip("langcodes")
    if _content()["mteb"] != mteb.__version__:
        pytest.skip(
            f"the catalogue is that of mteb {_content()['mteb']}, and {mteb.__version__} is installed"
        )
    installed = runpy.run_path(str(PROJECT / "make_catalogue.py"))["installed_catalogue"]()
    assert installed == _content(), f"write {FILE.name} again: python make_catalogue.py"


def test_the_tasks_are_registered_under_mtebs_names(plugins: Plugins, tmp_path: Path) -> None:
    assert {entry.name for entry in plugins.tasks if entry.origin == "mteb"} == set(catalogue())
    assert {
        "mteb-STS12",
        "mteb-STSBenchmark",
        "mteb-SICK-R",
        "mteb-BIOSSES",
        "mteb-STS17-en-en",
    } <= set(catalogue())
    task = plugins.tasks["mteb-STS17-es-en"]
    assert (task.level, task.languages, task.main_metric) == ("sentence", ("es", "en"), "spearman")
    assert plugins.tasks["mteb-TwitterURLCorpus"].main_metric == "ap"
    pinned = mteb.get_task(
        "STSBenchmark"
    ).metadata.dataset  # the identity is the data set at the revision of MTEB
    identity = plugins.tasks["mteb-STSBenchmark"].identity(DataStore(tmp_path, offline=True))
    assert identity == {f"hf:{pinned['path']}/default/test": pinned["revision"]}


@pytest.mark.slow
def test_registering_imports_neither_mteb_nor_datasets() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import mirrorbench_mteb as m\n"
        "import mirrorbench\n"
        "p = mirrorbench.Session().plugins\n"
        "m in p or p.add(m, 'mteb')\n"
        "p.tasks['mteb-STSBenchmark']\n"
        "import mirrorbench_mteb.commands\n"
        "print(sorted({'mteb', 'datasets', 'torch', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (
        done.stdout == "['typer']\n"
    )  # typer, of the command, shows that the list is of what was imported


def test_missing_data_error_explains_the_download(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets
    import huggingface_hub.constants as hub

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    task, pinned = (
        plugins.tasks["mteb-STSBenchmark"],
        r"MTEB's STSBenchmark \(mteb/stsbenchmark-sts at b0fddb56ed78\)",
    )
    with pytest.raises(DataUnavailableError, match=pinned) as caught:
        task.fetch(DataStore(tmp_path, offline=True))
    assert "HF_HOME" in caught.value.hint
    assert "mteb.get_task('STSBenchmark').load_data()" in caught.value.hint
    assert (datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE) == (
        False,
        False,
    )  # the switch is put back


def test_task_data_are_loaded_through_mteb(sts17: list[Pair], tmp_path: Path) -> None:
    rows = [{"sentence1": p.left, "sentence2": p.right, "score": p.gold} for p in sts17]
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "test.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    (task,) = from_mteb(on_disk(str(tmp_path / "pairs")))
    store = DataStore(tmp_path / "data", offline=True)
    task.fetch(store)
    pairs = task.load(store)
    assert [(p.left, p.right, p.gold) for p in pairs] == [(p.left, p.right, p.gold) for p in sts17]
    assert [p.id for p in pairs[:2]] == ["test/0", "test/1"]
    assert list(task.identity(store).values()) == ["1" * 40]


def test_unsupported_task_types_are_rejected() -> None:
    with pytest.raises(UsageError, match="type Classification") as caught:
        from_mteb(mteb.get_task("Banking77Classification"))
    assert "mirrorbench mteb run" in caught.value.hint


def test_pairs_in_one_row_equal_separate_rows(sts17: list[Pair], tmp_path: Path) -> None:
    (in_one,), (in_many,) = (
        from_mteb(classification_task(sts17, in_one_row)) for in_one_row in (True, False)
    )
    pairs = in_one.load(DataStore(tmp_path / "data", offline=True))
    assert [(p.left, p.right, p.gold) for p in pairs] == [
        (p.left, p.right, p.gold >= 3) for p in sts17
    ]
    assert in_many.load(DataStore(tmp_path / "data", offline=True)) == pairs


@pytest.mark.slow
def test_pair_classification_average_precision_equals_mteb(
    plugins: Plugins, sts17: list[Pair], tmp_path: Path
) -> None:
    mtebs, spec = classification_task(sts17[:60], in_one_row=False), "tiny+base:pooling=mean"
    (task,) = from_mteb(mtebs)
    plugins.tasks.add(task.name, task, "test")
    board = mirrorbench.evaluate(spec, task.name, output=tmp_path / "results", offline=True)
    mine = board.results[0].metrics
    model: Any = MirrorbenchModel(spec, offline=True)
    theirs = (
        mteb.evaluate(model, mtebs, cache=None, co2_tracker=False).task_results[0].scores["test"][0]
    )
    assert mine["ap"] == board[task.name] == pytest.approx(theirs["cosine_ap"], abs=1e-6)
    assert mine["auc"] is not None
