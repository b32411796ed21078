from __future__ import annotations

import hashlib
import string
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from mirrorbench import hookimpl
from mirrorbench.core.errors import DataUnavailableError, UnknownNameError
from mirrorbench.core.hooks import Register
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import LONGEST, SHORTEST, GeneratedCorpus, frequent_words, random_strings, read_corpus
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.plan import Planner, Request
from mirrorbench.runs.workspace import Workspace


def test_random_strings_have_no_meaning_and_never_change() -> None:
    strings = random_strings()
    assert len(strings) == len(set(strings)) == 10_000
    assert set("".join(strings)) == set(string.ascii_letters + string.digits)
    lengths = [len(text) for text in strings]
    assert (min(lengths), max(lengths)) == (SHORTEST, LONGEST)
    share = "".join(strings).count("e") / sum(lengths)
    assert share == pytest.approx(1 / 62, rel=0.1)
    checksum = hashlib.sha256("\n".join(strings).encode()).hexdigest()
    assert checksum == "e06ca84b4f8f36a6b7015be28ebf04dd001b2c32a5ebd2e687f4ae4522b17bf2"


def test_buckets_hold_different_words_of_falling_frequency() -> None:
    wordfreq = pytest.importorskip("wordfreq")
    buckets = [frequent_words(bucket) for bucket in (0, 1, 9)]
    assert [len(words) for words in buckets] == [10_000] * 3
    assert len({word for words in buckets for word in words}) == 30_000
    for higher, lower in pairwise(buckets):
        assert wordfreq.zipf_frequency(higher[-1], "en", "large") >= wordfreq.zipf_frequency(lower[0], "en", "large")


def test_without_wordfreq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(DataUnavailableError, match="wordfreq") as caught:
        frequent_words(0)
    assert "mirrorbench[words]" in caught.value.hint


def test_a_generated_corpus_is_read_like_any_other(tmp_path: Path) -> None:
    made = GeneratedCorpus("made", "a toy", lambda: [" b", "a", "", "b"])
    corpus = read_corpus("made", DataStore(tmp_path, offline=True), {"made": made})
    assert (corpus.texts, corpus.n_duplicates, corpus.source) == (("b", "a"), 1, "generated")
    assert corpus.sha256 == hashlib.sha256(b"b\na").hexdigest()
    with pytest.raises(UnknownNameError) as caught:
        read_corpus("mad", DataStore(tmp_path, offline=True), {"made": made})
    assert "made" in caught.value.hint


def test_a_plugin_registers_one_and_its_content_is_its_identity(tmp_path: Path, plugins: Plugins) -> None:
    class Made:
        def __init__(self, texts: list[str]) -> None:
            self.texts = texts

        @hookimpl
        def register_corpora(self, register: Register) -> None:
            register(GeneratedCorpus("made", "a toy", lambda: self.texts))

    keys = set()
    for texts in (["a", "b"], ["a", "c"]):
        registered = load_plugins(discover=False)
        registered.add(Made(texts), "made")
        request = Request((parse_spec("tiny+mirror:corpus=made"),), ())
        planner = Planner(Workspace.create(tmp_path, device="cpu", offline=True, plugins=registered))
        ((model, _),) = planner.models(request, request.encoders[0], "sentence")
        keys.add(model.key)
    assert len(keys) == 2
    assert "random-strings" in plugins.corpora
    assert [name for name in plugins.corpora.names() if name.startswith("words-en-")][::9] == [
        "words-en-0-10k", "words-en-90-100k",
    ]  # fmt: skip
