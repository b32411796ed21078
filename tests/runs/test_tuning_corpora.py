"""Corpora of a plan."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import GeneratedCorpus
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins
from mirrorbench.runs.tuning_corpora import TuningCorpora

LINES = ["a||b ", "c||d", "a||b "]


@pytest.fixture
def generate() -> Mock:
    return Mock(return_value=LINES)


@pytest.fixture
def corpora(generate: Mock, tmp_path: Path) -> TuningCorpora:
    plugins: Plugins = load_plugins(discover=False)
    plugins.corpora.add("made", GeneratedCorpus("made", "a toy", generate), "test")
    return TuningCorpora(plugins, DataStore(tmp_path, offline=True), print)


def test_a_corpus_is_read_once_for_each_reading(corpora: TuningCorpora, generate: Mock) -> None:
    for _ in range(2):
        for spec in ("tiny+mirror", "tiny+mirror:epochs=2"):
            clean = corpora.read(parse_spec(spec), "made")
    assert generate.call_count == 1
    assert corpora.by_ref[clean].texts == ("a||b", "c||d")
    assert clean.parts
    as_written = corpora.read(parse_spec("tiny+mirror"), "made", clean=False)
    assert corpora.by_ref[as_written].texts == tuple(LINES)
    fitted = corpora.read(parse_spec("tiny+base:post=center"), "made", for_fitting=True)
    assert corpora.by_ref[fitted].texts == ("a", "b", "c", "d")
    assert generate.call_count == 2


def test_sizes_of_a_spec_are_whole_numbers(corpora: TuningCorpora) -> None:
    part = corpora.read(parse_spec("tiny+mirror:corpus_size=1"), "made")
    assert (part.size, part.n) == (1, 1)
    for key, value in (("corpus_size", "-1"), ("corpus_sample", "0.5")):
        message = f"{key} must be a non-negative integer, not {value}"
        with pytest.raises(UsageError, match=message):
            corpora.read(parse_spec(f"tiny+mirror:{key}={value}"), "made")
