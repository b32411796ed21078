"""Identities of cells and models: what changes them, and what does not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.damaged_files import flip
from helpers.small_plans import Make, bert, make

from mirrorbench.runs.cells import Cell

__all__ = ["bert", "make"]


@pytest.fixture
def mirror_cell(make: Make, bert: str) -> Cell:
    return make(f"{bert}+mirror").cells[0]


def test_every_setting_changes_the_cell_id(make: Make, bert: str, mirror_cell: Cell) -> None:
    found = [mirror_cell]
    for name, value in (
        ("seeds", (1,)),
        ("precision", "bf16"),
        ("precision", "fp16"),
        ("eval_precision", "bf16"),
        ("protocol", "released"),
        ("tasks", ("dogs",)),
    ):
        (other,) = make(f"{bert}+mirror", **{name: value}).cells
        assert (other.model.key != mirror_cell.model.key) == (
            name not in ("tasks", "eval_precision")
        )
        found += [
            other,
            replace(other, data=(("pairs", "0" * 64),)),
            replace(other, task_version=2),
        ]
    for key in (
        "temperature=0.5",
        "epochs=2",
        "train_max_length=9",
        "pooling=cls",
        "layers=-2:",
        "lr=0.1",
        "batch_size=7",
        "weight_decay=0",
        "loss=ntxent",
        "drop_last=true",
        "clean_corpus=false",
        "dropout=0.3",
        "span_mask=1",
        "max_length=10",
        "corpus_size=2",
        "corpus_size=2,corpus_sample=1",
    ):
        found += make(f"{bert}+mirror:{key}").cells
    assert len({cell.id for cell in found}) == len(found)


def test_cell_id_depends_on_content_not_paths(
    make: Make, bert: str, mirror_cell: Cell, tmp_path: Path
) -> None:
    elsewhere = shutil.copytree(bert, tmp_path / "elsewhere")
    other = tmp_path / "other.txt"
    other.write_text("one\n\n two\r\nthree\n")
    (same,) = make(f"{elsewhere}+mirror", corpus=str(other)).cells
    assert same.id == mirror_cell.id
    other.write_text("one\ntwo\nfour\n")
    assert make(f"{bert}+mirror", corpus=str(other)).cells[0].id != mirror_cell.id
    flip(elsewhere / "model.safetensors")
    assert make(f"{elsewhere}+mirror").cells[0].id != mirror_cell.id


def test_untuned_cells_ignore_seed_and_corpus(make: Make, bert: str, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("else\n")
    cells = make(f"{bert}+base", seeds=(0, 1, 2)).cells
    assert len(cells) == 1
    others = make(
        f"{bert}+base", f"{bert}+base:pooling=mean", seeds=(5,), corpus=str(tmp_path / "other.txt")
    ).cells
    assert {cell.id for cell in others} == {cells[0].id}  # also by another name of its pooling


def test_held_out_strings_change_identity_with_stop_auto(make: Make, bert: str) -> None:
    for stop, differs in (("end", False), ("auto", True)):
        model = make(f"{bert}+mirror:stop={stop}").cells[0].model
        assert model.corpus is not None
        other = replace(model, corpus=replace(model.corpus, held_out="x"))
        assert (other.key != model.key) == differs
