"""The parser of xling-eval."""

from __future__ import annotations

from pathlib import Path

from helpers.parsed_files import read_sample

from mirrorbench.data.items import Lexicon


def test_lexicon_keeps_file_order_and_training_size(tmp_path: Path) -> None:
    small = {
        "yacle.train.freq.1k.it-fr.tsv": b"null\tNA\n",
        "yacle.test.freq.2k.it-fr.tsv": b"b\tx\na\ty\na\tx\n",
    }
    test = (("b", "x"), ("a", "y"), ("a", "x"))
    assert read_sample("xling-eval", tmp_path, small) == [
        Lexicon((("null", "NA"), ("nan", "nul")), test)
    ]
    assert read_sample("xling-eval", tmp_path, small, train="1k") == [
        Lexicon((("null", "NA"),), test)
    ]
