"""Names of own data, and rows of encoders."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import UsageError
from mirrorbench.own_data.planning import data_name, encoder_rows, without_repeats
from mirrorbench.runs.workspace import Settings, Workspace


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
    with pytest.raises(UsageError, match="--columns label is not COLUMN=NAME"):
        data_name("a", "", ["label"])
    workspace = Workspace(Settings(tmp_path, offline=True))
    rows = ["tiny", "tiny+base:pooling=cls"]
    (tmp_path / "asks").mkdir()
    (tmp_path / "asks" / "config.json").write_text("{}")
    (tmp_path / "asks" / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "q: "}}'
    )
    specs = encoder_rows([*rows, f"{tmp_path}/asks", "minilm"], workspace)
    assert list(map(str, specs.values())) == [
        "tiny+base",
        rows[1],
        f"sbert:path={tmp_path}/asks",
        "minilm+base:max_length=256,normalize=true,pooling=mean",
    ]
    with pytest.raises(
        UsageError, match="-e tiny and -e tiny\\+base are the same encoder, tiny\\+base"
    ):
        encoder_rows(["tiny", "tiny+base"], workspace)
