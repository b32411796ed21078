"""Tasks of cards."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.small_data_sets import as_here, make, write

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins
from mirrorbench.tasks.kinds import as_task

PLUGINS = load_plugins(discover=False)
KINDS = PLUGINS.task_kinds


LEXICAL = ("ncbi-disease", "askapatient", "cometa-sg", "wsd")


@pytest.mark.parametrize(
    "name",
    [
        "sts12",
        "stsb",
        "sickr",
        "simlex999",
        "multisimlex-en",
        "qnli",
        "wic",
        "wic-tsv-1",
        "usim",
        *LEXICAL,
    ],
)
def test_released_protocol_reads_every_task_format(name: str, tmp_path: Path) -> None:
    made = make([name])
    write(made, tmp_path)
    task = KINDS[builtin_cards()[name].kind].from_card(as_here(builtin_cards()[name], made))
    for of_target in (True, False):
        assert task.reading("released", of_target).load(DataStore(tmp_path, True, PLUGINS.parsers))


@pytest.mark.parametrize("kind", KINDS.names())
def test_mismatched_parser_and_kind_are_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "pets.tsv").write_text("a cat\ta dog\t1\na cat\ta bus\t0\n", encoding="utf-8")
    options = "{format: tsv, columns: {left: 0, right: 1, gold: 2}, scale: [0, 5]}"
    (tmp_path / "pets.yaml").write_text(
        f"name: pets\nkind: {kind}\nlevel: wic\nlanguages: [en, fr]\nmetric: m\nparser: table\noptions: {options}\n"
        "files: [pets.tsv]\n"
    )
    task, store = as_task(tmp_path / "pets.yaml", KINDS), DataStore(tmp_path / "store")
    if kind in ("pair-similarity", "pair-classification"):
        assert len(task.load(store)) == 2
        return
    told = rf"'{kind}' works on \w+, and the parser 'table' .* returns Pair"
    with pytest.raises(DataFormatError, match=told) as caught:
        task.load(store)
    assert "'marks'" in caught.value.hint
