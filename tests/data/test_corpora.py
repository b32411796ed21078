from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from samples import archive
from toy_cards import make_card, make_file

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UnknownNameError, UsageError
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.corpora import DEFAULT_CORPORA, read_corpus
from mirrorbench.data.importing import import_folder
from mirrorbench.data.store import DataStore

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


def test_duplicates_can_be_kept(tmp_path: Path, store: DataStore) -> None:
    corpus = read_corpus(text_file(tmp_path, CONTENT), store, {}, deduplicate=False)
    assert corpus.texts == ("b", "a", "b", "a", "c\x12")
    assert corpus.n_duplicates == 2


def test_spaces_can_be_kept(tmp_path: Path, store: DataStore) -> None:
    corpus = read_corpus(text_file(tmp_path, CONTENT), store, {}, strip=False)
    assert corpus.texts == (" b ", "a", "b", "\ta\t", "c\x12")
    assert corpus.n_duplicates == 0


def test_the_hash_is_that_of_the_texts_not_of_the_file(tmp_path: Path, store: DataStore) -> None:
    plain = read_corpus(text_file(tmp_path, b"a\nb"), store, {})
    packed = read_corpus(text_file(tmp_path, gzip.compress(b"\xef\xbb\xbfa\r\n\r\nb\r\n"), "my.txt.gz"), store, {})
    assert plain.texts == packed.texts
    assert plain.sha256 == packed.sha256


def test_a_size_takes_the_first_strings(tmp_path: Path, store: DataStore) -> None:
    path = text_file(tmp_path, CONTENT)
    assert read_corpus(path, store, {}, size=2).texts == ("b", "a")
    with pytest.raises(UsageError, match="has 3 distinct strings, fewer than the 4"):
        read_corpus(path, store, {}, size=4)


def test_an_unknown_name_suggests_the_nearest(store: DataStore) -> None:
    with pytest.raises(UnknownNameError, match="sts-sentences") as caught:
        read_corpus("sts-sentence", store, builtin_cards())
    assert "no file" in str(caught.value)


def test_a_task_is_no_corpus_and_a_folder_neither(tmp_path: Path, store: DataStore) -> None:
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


@pytest.mark.parametrize(
    ("options", "message"), [({"column": 2, "separator": " "}, "line 1: there is no column 2"), ({"colum": 1}, "colum")]
)
def test_wrong_options_of_a_card(store: DataStore, options: dict[str, object], message: str) -> None:
    card = make_card(make_file(b"a b\n"), kind="corpus", metric="", options=options)
    (store.root / "toy").mkdir(parents=True)
    (store.root / "toy" / "a.txt").write_bytes(b"a b\n")
    with pytest.raises(DataFormatError, match=message):
        read_corpus("toy", store, {"toy": card})


def test_the_spanish_sentences_are_a_clear_error(store: DataStore) -> None:
    with pytest.raises(DataUnavailableError) as caught:
        read_corpus("wikimatrix-es", store, builtin_cards())
    assert "did not release" in str(caught.value)
    assert "WikiMatrix.en-es.tsv.gz" in str(caught.value)


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
    for size, message in ((1, "joins 2 corpora; 1 strings"), (10, "letters.txt has 4 distinct strings")):
        with pytest.raises(UsageError, match=message):
            read_corpus(name, store, {}, size=size)
    with pytest.raises(UnknownNameError, match="nowhere"):
        read_corpus(f"{letters}+nowhere.txt", store, {})


def test_a_plus_in_the_name_of_a_file(tmp_path: Path, store: DataStore) -> None:
    assert read_corpus(str(text_file(tmp_path, b"a\n", "c++.txt")), store, {}).texts == ("a",)


def test_sentences_of_wikipedia_in_other_languages(tmp_path: Path, store: DataStore) -> None:
    """The format of the Leipzig Corpora Collection, in an archive as it is downloaded."""
    text = '1\tესპერანტოს კერძი.\n2\tმეორე "წინადადება".\n'.encode()
    folder = tmp_path / "downloads"
    folder.mkdir()
    packed = archive({"kat_wikipedia_2021_10K/kat_wikipedia_2021_10K-sentences.txt": text})
    (folder / "kat_wikipedia_2021_10K.tar.gz").write_bytes(packed)
    import_folder(folder, store, builtin_cards())
    for name in ("wiki-sentences-ka", "wiki-sentences-ka-5k"):
        assert read_corpus(name, store, builtin_cards()).texts == ("ესპერანტოს კერძი.", 'მეორე "წინადადება".')
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


@pytest.mark.parametrize(
    ("name", "lines", "distinct"),
    [
        ("sts-sentences", 10_000, 9_255),
        ("wikimatrix-ar", 10_000, 9_503),
        ("wikimatrix-ru", 10_000, 9_520),
        ("words-en", 10_000, 10_000),
        ("words-et", 10_000, 10_000),
        ("words-es", 10_000, 10_000),
    ],
)
def test_the_original_corpora(real_store: DataStore, name: str, lines: int, distinct: int) -> None:
    corpus = read_corpus(name, real_store, builtin_cards())
    assert (corpus.n_lines, len(corpus.texts)) == (lines, distinct)
    assert len(read_corpus(name, real_store, builtin_cards(), deduplicate=False).texts) == lines


def test_the_released_sentences_as_they_stand(real_store: DataStore) -> None:
    assert len(read_corpus("sts-sentences", real_store, builtin_cards(), strip=False).texts) == 9_281
