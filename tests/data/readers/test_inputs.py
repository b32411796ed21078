"""Inputs of encoders from a user's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.data.readers.inputs import read_inputs


def test_span_columns_are_read_and_validated(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    good = {"s": "the bank", "from": 4, "to": "8"}
    file.write_text(json.dumps(good) + "\n")
    assert list(read_inputs(str(file), "s", spans=("from", "to"))) == [
        (1, TextInput("the bank", ((4, 8),)), ())
    ]
    with pytest.raises(UsageError, match="column=NAME"):
        list(read_inputs(str(file), "", spans=("from", "to")))
    wrongs = (
        {"to": 9},
        {"from": 8},
        {"from": -1},
        {"from": 1.5},
        {"from": True},
        {"to": None},
        {"to": "9" * 5000},
    )
    for wrong in wrongs:
        file.write_text(json.dumps({**good, **wrong}) + "\n")
        with pytest.raises(DataFormatError, match="line 1"):
            list(read_inputs(str(file), "s", spans=("from", "to")))
