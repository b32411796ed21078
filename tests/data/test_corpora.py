from __future__ import annotations

import gzip
import hashlib
import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import archive
from suites import few
from toy_cards import make_card, make_file

from mirrorbench import hookimpl
from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UnknownNameError, UsageError
from mirrorbench.core.hooks import Register
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.corpora import (
    ALL,
    DEFAULT_CORPORA,
    NONE,
    SOME,
    GeneratedCorpus,
    card_texts,
    find_contamination,
    normalised,
    read_corpus,
    shared_codes,
)
from mirrorbench.data.importing import import_folder
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.plan import Planner, Request
from mirrorbench.runs.workspace import Workspace
from mirrorbench.texts.reading import read_tuning_texts

CONTENT = b" b \n\na\nb\n\ta\t\nc\x12\n"


@pytest.fixture
def store(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path / "store", offline=True)


def text_file(tmp_path: Path, content: bytes, name: str = "my.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_a_file_by_path(tmp_path: Path, store: DataStore) -> None:
    path = text_file(tmp_path, CONTENT)
    for asked in (path, str(path)):
        corpus = read_corpus(asked, store, {})
        assert corpus.texts == ("b", "a", "c\x12")
        assert (corpus.n_lines, corpus.n_duplicates) == (5, 2)
        assert corpus.name == corpus.source == str(path)
        assert corpus.sha256 == hashlib.sha256(b"b\na\nc\x12").hexdigest()
    repeated = read_corpus(path, store, {}, deduplicate=False)
    assert (repeated.texts, repeated.n_duplicates) == (("b", "a", "b", "a", "c\x12"), 2)
    spaced = read_corpus(path, store, {}, strip=False)
    assert (spaced.texts, spaced.n_duplicates) == ((" b ", "a", "b", "\ta\t", "c\x12"), 0)
    assert read_corpus(path, store, {}, size=2).texts == ("b", "a")
    with pytest.raises(UsageError, match="has 3 distinct strings, fewer than the 4"):
        read_corpus(path, store, {}, size=4)
    packed = text_file(tmp_path, gzip.compress(b"\xef\xbb\xbfb\r\n\r\na\r\nc\x12"), "c++.txt.gz")
    assert read_corpus(packed, store, {}).sha256 == corpus.sha256  # that of the texts, not of the file


ROWS = [("1", "a cat", "un chat"), ("2", "a\tdog", "un chien"), ("3", " ", "rien"), ("4", "a cat", "un chat"),
        ("5", "a bird ", "un oiseau")]  # fmt: skip


@pytest.mark.parametrize("columns", [("text",), ("text", "other")], ids=len)
@pytest.mark.parametrize("suffix", ["csv", "jsonl.gz"])
def test_tables_are_read_as_for_tune(tmp_path: Path, store: DataStore, suffix: str, columns: tuple[str, ...]) -> None:
    head, path = ("n", "text", "other"), tmp_path / f"a.{suffix}"
    if suffix == "csv":
        path.write_text("".join(",".join(row) + "\n" for row in (head, *ROWS)))
    else:
        lines = "".join(json.dumps(dict(zip(head, row, strict=True))) + "\n" for row in ROWS)
        path.write_bytes(gzip.compress(lines.encode()))
    read = read_tuning_texts(path, columns, held_out=0)
    found = read_corpus(f"{path}#{','.join(columns)}", store, {})
    assert list(found.texts) == read.corpus() == list(dict.fromkeys(found.texts))
    assert (found.n_lines, found.n_duplicates) == (read.n_read, read.n_duplicates)
    assert found.source == str(path)
    assert not any(text.startswith(("1", "n", "{")) for text in found.texts)


def test_what_tune_asks_for_a_run_asks_for_too(tmp_path: Path, store: DataStore) -> None:
    (tmp_path / "a.csv").write_text("id,title,body\n1,a,b\n2,c,d\n")
    (tmp_path / "b.txt").write_text("one\ntwo\n")
    for asked, told in (
        ("a.csv", "several columns"),
        ("b.txt#text", "no columns"),
        ("a.csv#id,title,body", "pairs in"),
    ):
        with pytest.raises(UsageError, match=told):
            read_corpus(f"{tmp_path}/{asked}", store, {})
    with pytest.raises(DataFormatError, match="no column 'nothing'"):
        read_corpus(f"{tmp_path}/a.csv#nothing", store, {})
    both = read_corpus(f"{tmp_path}/a.csv#body+{tmp_path}/b.txt", store, {})
    assert both.texts == ("b", "d", "one", "two")
    (tmp_path / "x+y.csv").write_text("text\nthree\nfour\n")
    assert read_corpus(f"{tmp_path}/x+y.csv#text", store, {}).texts == ("three", "four")


def test_a_sample_is_drawn_at_random_and_repeats(tmp_path: Path, store: DataStore) -> None:
    """MirrorWiC, appendix A.4: "we individually sampled five sets of 10k raw sentences"."""
    path = text_file(tmp_path, "".join(f"{n}\n" for n in range(50)).encode())
    samples = [read_corpus(path, store, {}, size=20, sample=n).texts for n in range(1, 6)]
    assert [len(set(texts)) for texts in samples] == [20] * 5
    assert len(set(samples)) == 5
    assert samples[2] == read_corpus(path, store, {}, size=20, sample=3).texts
    draws = [random.Random(3).random]
    numbers = [draws[0]() for _ in range(50)]
    assert samples[2] == tuple(str(n) for n in range(50) if sum(other < numbers[n] for other in numbers) < 20)
    with pytest.raises(UsageError, match="sample of 50 strings cannot be drawn from the 50"):
        read_corpus(path, store, {}, size=50, sample=1)
    with pytest.raises(UsageError, match="sample of 10000 strings cannot be drawn from the 50"):
        read_corpus(path, store, {}, sample=1)


def test_an_unknown_name_a_task_and_a_folder_are_no_corpora(tmp_path: Path, store: DataStore) -> None:
    with pytest.raises(UnknownNameError, match="sts-sentences") as caught:
        read_corpus("sts-sentence", store, builtin_cards())
    assert "no file" in str(caught.value)
    with pytest.raises(UnknownNameError):
        read_corpus("stsb", store, builtin_cards())
    with pytest.raises(UsageError, match="is a folder"):
        read_corpus(tmp_path, store, {})


def test_a_card_cuts_columns_and_takes_the_first(
    store: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"the 9\nof 8\nand 7\n"
    options = {"separator": " ", "column": 0, "take": 2}
    card = make_card(make_file(content), kind="corpus", metric="", parser="lines", options=options)
    (store.root / "toy").mkdir(parents=True)
    (store.root / "toy" / "a.txt").write_bytes(content)
    corpus = read_corpus("toy", store, {"toy": card})
    assert corpus.texts == ("the", "of")
    assert corpus.source == "toy/a.txt"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy").write_text("mine")
    assert read_corpus("toy", store, {"toy": card}).texts == ("the", "of")
    assert read_corpus("./toy", store, {"toy": card}).texts == ("mine",)
    for wrong, message in (
        ({"column": 3, "separator": " "}, "line 1: there is no column 3"),
        ({"colum": 1}, "colum"),
        ({"column": [0, 3], "separator": " "}, "line 1: there is no column 3"),
        ({"column": []}, "'column' must be"),
        ({"column": [0, -1]}, "'column' must be"),
        ({"column": 0, "separator": ""}, "'separator' must be"),
    ):
        other = make_card(make_file(content), kind="corpus", metric="", options=wrong)
        with pytest.raises(DataFormatError, match=message):
            read_corpus("toy", store, {"toy": other})


def test_corpora_are_joined_in_equal_shares(tmp_path: Path, store: DataStore) -> None:
    """MirrorWiC's pairs of languages: 5k sentences of either."""
    letters = text_file(tmp_path, b"a\nb\nb\nc\nd\n", "letters.txt")
    digits = text_file(tmp_path, b"1\n2\n3\na\n", "digits.txt")
    name = f"{letters}+{digits}"
    joint = read_corpus(name, store, {})
    assert joint.texts == ("a", "b", "c", "d", "1", "2", "3")
    assert (joint.name, joint.n_lines, joint.n_duplicates) == (name, 9, 2)
    assert joint.sha256 == hashlib.sha256(b"a\nb\nc\nd\n1\n2\n3").hexdigest()
    assert read_corpus(name, store, {}, size=4).texts == ("a", "b", "1", "2")
    assert read_corpus(name, store, {}, size=5).texts == ("a", "b", "1", "2", "3")
    assert read_corpus(name, store, {}, deduplicate=False, size=6).texts == ("a", "b", "b", "1", "2", "3")
    joint = read_corpus(name, store, {}, size=4, sample=2)
    parts = [read_corpus(file, store, {}, size=2, sample=2).texts for file in (letters, digits)]
    assert joint.texts == parts[0] + parts[1]  # drawn from each
    for size, message in ((1, "joins 2 corpora; 1 strings"), (10, "letters.txt has 4 distinct strings")):
        with pytest.raises(UsageError, match=message):
            read_corpus(name, store, {}, size=size)
    with pytest.raises(UnknownNameError, match="nowhere"):
        read_corpus(f"{letters}+nowhere.txt", store, {})


def test_sentences_of_wikipedia_in_other_languages(tmp_path: Path, store: DataStore) -> None:
    """The format of the Leipzig Corpora Collection, in an archive as it is downloaded."""
    sentences = [f'{row} ესპერანტოს "კერძი".' for row in range(10_000)]
    text = "".join(f"{row}\t{sentence}\n" for row, sentence in enumerate(sentences, start=1)).encode()
    folder = tmp_path / "downloads"
    folder.mkdir()
    packed = archive({"kat_wikipedia_2021_10K/kat_wikipedia_2021_10K-sentences.txt": text})
    (folder / "kat_wikipedia_2021_10K.tar.gz").write_bytes(packed)
    import_folder(folder, store, builtin_cards())
    for name, size in (("wiki-sentences-ka", 10_000), ("wiki-sentences-ka-5k", 5_000)):
        assert read_corpus(name, store, builtin_cards()).texts == tuple(sentences[:size])
    with pytest.raises(DataUnavailableError, match="data fetch wiki-sentences-ja"):
        read_corpus("wiki-sentences-ja", store, builtin_cards())


def test_every_language_of_the_wic_family_has_sentences() -> None:
    cards = builtin_cards()
    tasks = [card for name, card in cards.items() if name.startswith(("xlwic-", "am2ico-"))]
    assert len(tasks) == 12 + 14
    for card in tasks:
        language = card.languages[-1]
        assert cards[f"wiki-sentences-{language}"].languages == (language,)
        if card.name.startswith("am2ico"):
            assert card.options["corpus"] == f"wic-sentences-5k+wiki-sentences-{language}-5k"
        else:
            assert DEFAULT_CORPORA["wic", language] == f"wiki-sentences-{language}"


DISTINCT = {
    "sts-sentences": 9_255, "wikimatrix-ar": 9_503, "wikimatrix-ru": 9_520, "words-en": 10_000, "words-et": 10_000,
    "words-es": 10_000,
}  # fmt: skip


@pytest.mark.parametrize("name", few(DISTINCT))
def test_the_original_corpora(originals: Callable[..., DataStore], name: str) -> None:
    store = originals("train")
    corpus = read_corpus(name, store, builtin_cards())
    assert (corpus.n_lines, len(corpus.texts)) == (10_000, DISTINCT[name])
    assert len(read_corpus(name, store, builtin_cards(), deduplicate=False).texts) == 10_000
    if name == "sts-sentences":
        assert len(read_corpus(name, store, builtin_cards(), strip=False).texts) == 9_281  # as they stand


def test_the_contexts_of_wic_are_both_sentences_of_its_training_pairs(originals: Callable[..., DataStore]) -> None:
    """MirrorWiC, appendix A.4: "raw sentences (w/o labels) sampled from the training sets of WiC tasks"."""
    store = originals("wic")
    corpus = read_corpus("wic-contexts", store, builtin_cards())
    lines = (store.root / "wic" / "train.data.txt").read_text().splitlines()
    sentences = [text.strip() for line in lines for text in line.split("\t")[3:]]
    assert (corpus.n_lines, len(sentences)) == (10_856, 10_856)
    assert corpus.texts == tuple(dict.fromkeys(sentences))


def test_the_sentences_of_snli_and_multinli(tmp_path: Path, store: DataStore) -> None:
    """The format of SBERT's edition: both sentences of each pair, quotes are text."""
    head = "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"
    rows = 'train\tMNLI\tf\t"A man.\tA "cat".\tneutral\ndev\tSNLI\tg\t"A man.\tNobody.\tcontradiction\n'
    path = store.root / "nli-sentences" / "AllNLI.tsv.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress((head + rows).encode()))
    assert read_corpus("nli-sentences", store, builtin_cards()).texts == ('"A man.', 'A "cat".', "Nobody.")
    path.write_bytes(gzip.compress((head.replace("sentence1", "premise") + rows).encode()))
    with pytest.raises(DataFormatError, match="line 1: there is no column 'sentence1' in 'split"):
        card_texts(path, builtin_cards()["nli-sentences"].options)


def test_names_of_the_umls_are_ten_or_a_hundred_thousand(store: DataStore) -> None:
    path = store.root / "umls-names" / "umls" / "umls-names.txt"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"name {n}\n" for n in range(120_000)))
    for name, n in (("umls-names", 10_000), ("umls-names-100k", 100_000)):
        texts = read_corpus(name, store, builtin_cards()).texts
        assert (len(texts), texts[0], texts[-1]) == (n, "name 0", f"name {n - 1}")


def test_a_plugin_registers_one_and_its_content_is_its_identity(tmp_path: Path, plugins: Plugins) -> None:
    class Made:
        def __init__(self, texts: list[str]) -> None:
            self.texts = texts

        @hookimpl
        def register_corpora(self, register: Register) -> None:
            register(GeneratedCorpus("made", "a toy", lambda: self.texts))

    made = GeneratedCorpus("made", "a toy", lambda: [" b", "a", "", "b"])
    corpus = read_corpus("made", DataStore(tmp_path, offline=True), {"made": made})
    assert (corpus.texts, corpus.n_duplicates, corpus.source) == (("b", "a"), 1, "generated")
    assert corpus.sha256 == hashlib.sha256(b"b\na").hexdigest()
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


KNOWN_TEXTS = ["A cat  sits.", "ﬁne weather", "STRASSE", "a dog"]


def test_shares_and_flags() -> None:
    items = {
        "both": ("a CAT sits. ", "fine weather"),
        "left": ("a\tcat\nsits.", "a cat sits"),  # punctuation counts
        "right": ("no", "straße"),
        "none": ("cat", "a dog is here"),
        "one text": ("a dog",),
    }
    found = find_contamination(items, KNOWN_TEXTS)
    assert found is not None
    assert found.found == {"both": ALL, "left": SOME, "right": SOME, "none": NONE, "one text": ALL}
    assert (found.share(SOME), found.share(ALL)) == (4 / 5, 2 / 5)
    flags = found.flags(["none", "both", "left"])
    assert flags.tolist() == [0, 2, 1]
    assert flags.dtype == np.int8
    assert find_contamination({}, KNOWN_TEXTS) is None
    of_no_text = find_contamination({"1": ()}, KNOWN_TEXTS)
    assert of_no_text is not None
    assert of_no_text.share(ALL) == 0
    assert found.to_json() == {
        "n_items": 5, "any_text": 0.8, "all_texts": 0.4, "normalisation": "NFKC, case folded, white space collapsed"
    }  # fmt: skip


@settings(max_examples=settings().max_examples // 4)
@given(st.text(max_size=30))
def test_normalised_texts_stay_as_they_are(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert normalised(f"  {text}\n") == once
    assert normalised(unicodedata.normalize("NFD", text)) == once


def test_against_a_naive_search() -> None:
    rng = random.Random(0)
    words = ["Cat", "cat", "dog ", "a  b", "A b", "ab"]
    corpus = rng.choices(words[:4], k=3)
    items = {str(i): tuple(rng.choices(words, k=2)) for i in range(50)}
    found = find_contamination(items, corpus)
    assert found is not None
    hits = {i: [any(t.lower().split() == c.lower().split() for c in corpus) for t in ts] for i, ts in items.items()}
    assert found.share(SOME) == sum(any(h) for h in hits.values()) / 50
    assert found.share(ALL) == sum(all(h) for h in hits.values()) / 50


@pytest.mark.full
def test_a_third_to_a_half_of_sts12_to_15_was_tuned_on(real_store: DataStore, plugins: Plugins) -> None:
    cards = {entry.name: entry.value for entry in plugins.corpora}
    corpus = read_corpus("sts-sentences", real_store, cards).texts
    known = {" ".join(text.casefold().split()) for text in corpus}  # plain English: no need for NFKC
    shares = {}
    for name in ("sts12", "sts13", "sts14", "sts15", "stsb", "sickr"):
        task = plugins.tasks[name]
        pairs = task.load(real_store)
        found = find_contamination(task.texts(pairs), corpus)
        assert found is not None
        naive = [{" ".join(t.casefold().split()) in known for t in (p.left, p.right)} for p in pairs]
        assert found.share(SOME) == pytest.approx(sum(True in hits for hits in naive) / len(pairs), abs=0.002)
        assert found.share(ALL) == pytest.approx(sum(hits == {True} for hits in naive) / len(pairs), abs=0.002)
        shares[name] = found.share(SOME)
    for name in ("sts12", "sts13", "sts14", "sts15"):
        assert 1 / 3 < shares[name] < 0.55
    assert shares["stsb"] < 0.2
    assert shares["sickr"] < 0.01


def test_codes_of_what_items_share() -> None:
    """Items have a code in common exactly where they have a text in common, as texts are compared."""
    texts = {
        "a": ("Cat", "dog"),
        "b": ("dog", "bird"),
        "c": ("ｃａｔ", "fish"),
        "d": ("ant",),
        "e": ("cat", "dog", "cat"),
    }
    ids = ["e", "d", "c", "b", "a", "of no text"]
    codes = shared_codes(texts, ids)
    assert codes.shape == (6, 2)
    assert codes.dtype == np.int32
    own = {item: {normalised(text) for text in texts.get(item, ())} for item in ids}
    for i, one in enumerate(ids):
        for j, other in enumerate(ids):
            if i != j:
                assert bool({*codes[i]} & {*codes[j]} - {-1}) == bool(own[one] & own[other])
    assert codes[1].tolist() == codes[5].tolist() == [-1, -1]
    assert shared_codes({"a": ("x",), "b": ("x", "y")}, ["a", "b"]).shape == (2, 0)  # all have it: it is given
    assert shared_codes({}, ["a"]).shape == (1, 0)
