"""Names of own data, and rows of encoders."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.recording_reporter import Log
from helpers.workspace_parts import parts

from mirrorbench.core.errors import UsageError
from mirrorbench.own_data.planning import (
    Data,
    data_name,
    evaluation_plan,
    specs_by_name,
    without_repeats,
)
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace


def test_data_names_and_encoder_rows_are_normalised(tmp_path: Path) -> None:
    assert data_name("a.csv", "pairs", ["label=l"]) == "./a.csv:kind=pairs,label=l"
    assert data_name("../a", "", ()) == "../a"
    assert data_name("./a:metric=auc", "", ["label=l"]) == "./a:metric=auc,label=l"
    (tmp_path / "link").symlink_to(tmp_path)
    assert without_repeats([f"{tmp_path}", f"{tmp_path}/link", f"{tmp_path}:kind=pairs"]) == [
        f"{tmp_path}",
        f"{tmp_path}:kind=pairs",
    ]
    assert data_name("./b", "", ["_id=i", "corpus-id=d"]) == "./b:id=i,corpus=d"
    with pytest.raises(UsageError, match="columns label is not COLUMN=NAME"):
        data_name("a", "", ["label"])
    plugins, folders, _, _ = parts(Workspace(Settings(tmp_path, offline=True)))
    rows = ["tiny", "tiny+base:pooling=cls"]
    (tmp_path / "asks").mkdir()
    (tmp_path / "asks" / "config.json").write_text("{}")
    (tmp_path / "asks" / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "q: "}}'
    )
    specs = specs_by_name([*rows, f"{tmp_path}/asks", "minilm"], plugins, folders)
    assert list(map(str, specs.values())) == [
        "tiny+base",
        rows[1],
        f"sbert:path={tmp_path}/asks",
        "minilm+base:max_length=256,normalize=true,pooling=mean",
    ]
    with pytest.raises(UsageError, match="tiny and tiny\\+base are the same encoder, tiny\\+base"):
        specs_by_name(["tiny", "tiny+base"], plugins, folders)


def test_links_that_lead_nowhere_are_names(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    name = f"{tmp_path}/loop"
    assert without_repeats([name, name]) == [name]


def test_transformations_that_cannot_be_fitted_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("sentence1,sentence2,score\na cat,a dog,1\na cat,the cat,2\na dog,a cat,3\n")
    log = Log()
    workspace = Workspace(Settings(tmp_path, offline=True), reporter=log)
    plugins, folders, compute, reporter = parts(workspace)
    name = str(path)
    data = Data.read([name], plugins, folders.data)
    rows = specs_by_name(["tiny"], plugins, folders)
    plan = evaluation_plan(rows, data, plugins, folders, compute, reporter, baselines=True)
    assert not plan.failures
    assert [str(row.get("post")) for row in plan.rows] == ["None", "whiten", "zscore"]
    assert {cell.spec for cell in plan.cells} == set(plan.rows)
    assert log.lines[-1].startswith(
        "tiny+base:abtt=3,post=abtt is left out on few.csv: abtt=3 cannot be"
    )
