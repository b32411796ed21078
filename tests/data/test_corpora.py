from __future__ import annotations

import gzip
import hashlib
import json
import random
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from helpers.format_samples import archive
from helpers.workspace_parts import parts
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorbench.core.errors import (
    DataFormatError,
    DataUnavailableError,
    UnknownNameError,
    UsageError,
)
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.card_files import builtin_cards, builtin_suites
from mirrorbench.data.corpora import (
    ALL,
    DEFAULT_CORPORA,
    NONE,
    SOME,
    Corpus,
    GeneratedCorpus,
    content_digests,
    find_contamination,
    normalised,
    read_corpus,
    shared_codes,
)
from mirrorbench.data.importing import import_folder
from mirrorbench.data.store import DataStore
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.registry import load_plugins
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.texts.tuning_texts import read_tuning_texts

CONTENT = b" b \n\na\nb\n\ta\t\nc\x12\n"


@pytest.fixture
def store(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path / "store", offline=True)


def text_file(tmp_path: Path, content: bytes, name: str = "my.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_text_file_is_read_as_distinct_strings(tmp_path: Path, store: DataStore) -> None:
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
    assert (
        read_corpus(packed, store, {}).sha256 == corpus.sha256
    )  # that of the texts, not of the file


ROWS = [
    ("1", "a cat", "un chat"),
    ("2", "a\tdog", "un chien"),
    ("3", " ", "rien"),
    ("4", "a cat", "un chat"),
    ("5", "a bird ", "un oiseau"),
]


@pytest.mark.parametrize("columns", [("text",), ("text", "other")], ids=len)
def test_run_and_tune_read_equal_texts_from_tables(
    tmp_path: Path, store: DataStore, columns: tuple[str, ...]
) -> None:
    head = ("n", "text", "other")
    path = text_file(
        tmp_path, "".join(",".join(row) + "\n" for row in (head, *ROWS)).encode(), "a.csv"
    )
    rows = [json.dumps(dict(zip(head, row, strict=True))) + "\n" for row in ROWS]
    packed = text_file(tmp_path, gzip.compress("".join(rows).encode()), "a.jsonl.gz")
    for table in (path, packed):
        read = read_tuning_texts(table, columns, held_out=0)
        found = read_corpus(f"{table}#{','.join(columns)}", store, {})
        assert list(found.texts) == read.corpus() == list(dict.fromkeys(found.texts))
        assert (found.n_lines, found.n_duplicates) == (read.n_read, read.n_duplicates)
        assert found.source == str(table)
        assert not any(text.startswith(("1", "n", "{")) for text in found.texts)


def test_wrong_columns_of_a_corpus_file_are_rejected(tmp_path: Path, store: DataStore) -> None:
    table = text_file(tmp_path, b"id,title,body\n1,a,b\n2,c,d\n", "a.csv")
    lines = text_file(tmp_path, b"one\ntwo\n")
    for asked, error, told in (
        (f"{table}", UsageError, "several columns"),
        (f"{lines}#text", UsageError, "no columns"),
        (f"{table}#id,title,body", UsageError, "pairs in"),
        (f"{table}#nothing", DataFormatError, "no column 'nothing'"),
    ):
        with pytest.raises(error, match=told):
            read_corpus(asked, store, {})
    assert read_corpus(f"{table}#body+{lines}", store, {}).texts == ("b", "d", "one", "two")
    plus = text_file(tmp_path, b"text\nthree\nfour\n", "x+y.csv")
    assert read_corpus(f"{plus}#text", store, {}).texts == ("three", "four")


def test_corpus_samples_are_random_and_reproducible(tmp_path: Path, store: DataStore) -> None:
    """MirrorWiC, appendix A.4: "we individually sampled five sets of 10k raw sentences"."""
    path = text_file(tmp_path, "".join(f"{n}\n" for n in range(50)).encode())
    samples = [read_corpus(path, store, {}, size=20, sample=n).texts for n in range(1, 6)]
    assert len(set(samples)) == 5
    draw = random.Random(3)
    numbers = {str(n): draw.random() for n in range(50)}
    lowest = sorted(numbers, key=numbers.__getitem__)[:20]
    assert samples[2] == tuple(text for text in numbers if text in lowest)
    with pytest.raises(UsageError, match="sample of 50 strings cannot be drawn from the 50"):
        read_corpus(path, store, {}, size=50, sample=1)
    with pytest.raises(UsageError, match="sample of 10000 strings cannot be drawn from the 50"):
        read_corpus(path, store, {}, sample=1)


def test_tasks_folders_and_unknown_names_are_not_corpora(tmp_path: Path, store: DataStore) -> None:
    with pytest.raises(UnknownNameError, match="sts-sentences") as caught:
        read_corpus("sts-sentence", store, builtin_cards())
    assert "or file" in str(caught.value)
    with pytest.raises(UnknownNameError):
        read_corpus("stsb", store, builtin_cards())
    with pytest.raises(UsageError, match="is a folder"):
        read_corpus(tmp_path, store, {})


def test_corpora_are_joined_in_equal_shares(tmp_path: Path, store: DataStore) -> None:
    """MirrorWiC's pairs of languages: 5k sentences of either."""
    letters = text_file(tmp_path, b"a\nb\nb\nc\nd\n", "letters.txt")
    digits = text_file(tmp_path, b"1\n2\n3\na\n", "digits.txt")
    name = f"{letters}+{digits}"
    joint = read_corpus(name, store, {})
    assert joint.texts == ("a", "b", "c", "d", "1", "2", "3")
    assert (joint.name, joint.n_lines, joint.n_duplicates) == (name, 9, 2)
    assert joint.sha256 == hashlib.sha256(b"a\nb\nc\nd\n1\n2\n3").hexdigest()
    assert read_corpus(name, store, {}, deduplicate=False).n_duplicates == 2
    assert read_corpus(name, store, {}, size=4).texts == ("a", "b", "1", "2")
    assert read_corpus(name, store, {}, size=5).texts == ("a", "b", "1", "2", "3")
    assert read_corpus(name, store, {}, deduplicate=False, size=6).texts == (
        "a",
        "b",
        "b",
        "1",
        "2",
        "3",
    )
    joint = read_corpus(name, store, {}, size=4, sample=2)
    parts = [read_corpus(file, store, {}, size=2, sample=2).texts for file in (letters, digits)]
    assert joint.texts == parts[0] + parts[1]  # drawn from each
    for size, message in (
        (1, "joins 2 corpora; 1 strings"),
        (10, "letters.txt has 4 distinct strings"),
    ):
        with pytest.raises(UsageError, match=message):
            read_corpus(name, store, {}, size=size)
    with pytest.raises(UnknownNameError, match="nowhere"):
        read_corpus(f"{letters}+nowhere.txt", store, {})


def test_leipzig_archives_become_wikipedia_corpora(tmp_path: Path, store: DataStore) -> None:
    """The format of the Leipzig Corpora Collection, in an archive as it is downloaded."""
    sentences = [f'{row} ესპერანტოს "კერძი".' for row in range(10_000)]
    text = "".join(
        f"{row}\t{sentence}\n" for row, sentence in enumerate(sentences, start=1)
    ).encode()
    packed = archive({"kat_wikipedia_2021_10K/kat_wikipedia_2021_10K-sentences.txt": text})
    (tmp_path / "downloads").mkdir()
    text_file(tmp_path / "downloads", packed, "kat_wikipedia_2021_10K.tar.gz")
    import_folder(tmp_path / "downloads", store, builtin_cards())
    for name, size in (("wiki-sentences-ka", 10_000), ("wiki-sentences-ka-5k", 5_000)):
        assert read_corpus(name, store, builtin_cards()).texts == tuple(sentences[:size])
    with pytest.raises(DataUnavailableError, match="data fetch wiki-sentences-ja"):
        read_corpus("wiki-sentences-ja", store, builtin_cards())


def test_every_wic_language_has_a_sentence_corpus() -> None:
    cards = builtin_cards()
    for name in ("xlwic", "am2ico"):
        for card in (cards[task] for task in builtin_suites()[name]):
            language = card.languages[-1]
            assert cards[f"wiki-sentences-{language}"].languages == (language,)
            if name == "am2ico":
                assert card.options["corpus"] == f"wic-sentences-5k+wiki-sentences-{language}-5k"
            else:
                assert DEFAULT_CORPORA["wic", language] == f"wiki-sentences-{language}"


def test_sts_sentences_corpus_has_expected_counts(originals: Callable[..., DataStore]) -> None:
    store, cards = originals("train"), builtin_cards()
    corpus = read_corpus("sts-sentences", store, cards)
    assert (corpus.n_lines, len(corpus.texts)) == (10_000, 9_255)
    assert (
        len(read_corpus("sts-sentences", store, cards, strip=False).texts) == 9_281
    )  # as they stand


def test_wic_contexts_corpus_holds_both_training_sentences(
    originals: Callable[..., DataStore],
) -> None:
    """MirrorWiC, appendix A.4: "raw sentences (w/o labels) sampled from the training sets of WiC tasks"."""
    store = originals("wic")
    corpus = read_corpus("wic-contexts", store, builtin_cards())
    lines = (store.root / "wic" / "train.data.txt").read_text().splitlines()
    sentences = [text.strip() for line in lines for text in line.split("\t")[3:]]
    assert (corpus.n_lines, corpus.texts) == (10_856, tuple(dict.fromkeys(sentences)))


def test_generated_corpus_is_identified_by_its_content(tmp_path: Path, plugins: Plugins) -> None:
    made = GeneratedCorpus("made", "a toy", lambda: [" b", "a", "", "b"])
    corpus = read_corpus("made", DataStore(tmp_path, offline=True), {"made": made})
    assert (corpus.texts, corpus.n_duplicates, corpus.source) == (("b", "a"), 1, "generated")
    assert corpus.sha256 == hashlib.sha256(b"b\na").hexdigest()
    keys = set()
    for texts in (["a", "b"], ["a", "c"]):
        registered = load_plugins(discover=False)
        registered.corpora.add(
            "made", GeneratedCorpus("made", "a toy", partial(list, texts)), "made"
        )
        request = Request((parse_spec("tiny+mirror:corpus=made"),), ())
        settings = Settings(data_dir=tmp_path, device="cpu", offline=True)
        maker = PlanMaker(*parts(Workspace(settings, registered)))
        ((model, _),) = maker.models(request, request.encoders[0], Purpose("sentence"))
        keys.add(model.key)
    assert len(keys) == 2


def test_contaminated_items_are_counted_and_flagged() -> None:
    items = {
        "both": ("a CAT sits. ", "fine weather"),
        "left": ("a\tcat\nsits.", "a cat sits"),  # punctuation counts
        "right": ("no", "straße"),
        "none": ("cat", "a dog is here"),
        "one text": ("a dog",),
    }
    found = find_contamination(items, ["A cat  sits.", "ﬁne weather", "STRASSE", "a dog"])
    assert found is not None
    assert found.overlaps == {
        "both": ALL,
        "left": SOME,
        "right": SOME,
        "none": NONE,
        "one text": ALL,
    }
    assert (found.share(SOME), found.share(ALL)) == (4 / 5, 2 / 5)
    assert found.flags(["none", "both", "left"]).tolist() == [0, 2, 1]
    assert found.to_json() == {
        "n_items": 5,
        "any_text": 0.8,
        "all_texts": 0.4,
        "normalisation": "NFKC, case folded, white space collapsed",
    }
    assert find_contamination({}, ["a dog"]) is None
    of_no_text = find_contamination({"1": ()}, ["a dog"])
    assert of_no_text is not None
    assert of_no_text.share(ALL) == 0


@settings(max_examples=settings().max_examples // 4)
@given(st.text(max_size=30))
def test_text_normalisation_is_idempotent(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert normalised(f"  {text}\n") == once
    assert normalised(unicodedata.normalize("NFD", text)) == once


def test_items_with_shared_texts_share_codes() -> None:
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
    for first, second in combinations(range(len(ids)), 2):
        shared_numbers = {*codes[first]} & {*codes[second]} - {-1}
        first_texts = set(map(normalised, texts.get(ids[first], ())))
        second_texts = set(map(normalised, texts.get(ids[second], ())))
        assert bool(shared_numbers) == bool(first_texts & second_texts)
    assert codes[1].tolist() == codes[5].tolist() == [-1, -1]


def test_texts_of_all_items_have_no_code() -> None:
    assert shared_codes({"a": ("x",), "b": ("x", "y")}, ["a", "b"]).shape == (2, 0)
    assert shared_codes({}, ["a"]).shape == (1, 0)


def test_shared_codes_follow_the_order_of_items() -> None:
    """Codes count texts as they occur, not as a process hashes them."""
    words = [f"word {number}" for number in range(20)]
    pairs = {word: (word, next_word) for word, next_word in pairwise(words)}
    codes = [[0, -1], *([number, number + 1] for number in range(17)), [17, -1]]
    assert shared_codes(pairs, words[:-1]).tolist() == codes


def test_delimited_lines_split_into_distinct_texts() -> None:
    def alone(*lines: str) -> tuple[str, ...]:
        return Corpus("names", lines, "", "", len(lines), 0).alone().texts

    assert alone("1||heart attack||infarction", "2||pain||heart attack") == (
        "heart attack",
        "infarction",
        "pain",
    )
    assert alone("1||pain", "no part") == ("1||pain", "no part")


def test_equal_contents_have_equal_numbers() -> None:
    """In any order of the texts; under another salt, and for other contents, the numbers are others."""
    contents = {"a": ("A cat", "a dog"), "b": ("a dog", "a cat"), "c": ("a cat", "a dog", "cat")}
    first, second, third = content_digests(contents, ["a", "b", "c"]).tolist()
    assert first == second != third
    assert content_digests(contents, ["b"]).tolist() == [first]
    assert content_digests(contents, ["a"], salt="x").tolist() != [first]
