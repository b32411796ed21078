"""Files of word vectors, and texts as means of their words."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.damaged_files import flip

from mirrorbench.core.encoder_protocol import TextInput, VocabularyEncoder
from mirrorbench.core.errors import (
    DataFormatError,
    ModelUnavailableError,
    UsageError,
)
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import word_vectors as wordvectors
from mirrorbench.models.backbones import embedded_directory
from mirrorbench.models.encoder_systems import EncoderContext, create_encoder
from mirrorbench.models.word_vectors import (
    StaticEncoder,
    create_static,
    file_checksum,
    load_vectors,
    read_text,
)
from mirrorbench.storage import checksums
from mirrorbench.storage.files import cache_root
from mirrorbench.training.static_distillation import create_distilled

VECTORS = {
    "ice": (1, 0, 0),
    "cream": (0, 1, 0),
    "hot": (0, 0, 1),
    "dog": (0, 0, 3),
    "New York": (5, 5, 5),
    "don't": (7, 0, 0),
    "well-known": (0, 8, 0),
    "!": (9, 9, 9),
}
SMALL = b"3 2\nthe 1 2\nNew York 0.5 -1e-3\ncaf\xc3\xa9 3 4 \n"


def written(tmp_path: Path, content: bytes, name: str = "a.vec") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def vec_file(path: Path, vectors: dict[str, tuple[float, ...]] = VECTORS) -> Path:
    path.write_text(
        "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items()), "utf-8"
    )
    return path


def opened(path: Path, **params: object) -> StaticEncoder:
    return create_static(
        EncoderSpec("static", params=(("path", str(path)), *params.items())), EncoderContext()
    )  # type: ignore[arg-type]


def loaded(path: Path, limit: int) -> wordvectors.WordVectors:
    return load_vectors(path, limit, file_checksum(path))


@pytest.mark.parametrize(
    "content",
    [
        SMALL,
        SMALL[4:],
        SMALL.replace(b"\n", b"\r\n"),
        SMALL.replace(b"the 1 2", b"the\t1\t2"),
        SMALL + b"\n",
    ],
)
def test_text_format_variants_give_the_same_vectors(tmp_path: Path, content: bytes) -> None:
    vectors = read_text(written(tmp_path, content))
    assert vectors.words == ("the", "New York", "café")
    np.testing.assert_array_equal(
        vectors.vectors, np.array([[1, 2], [0.5, -1e-3], [3, 4]], dtype=np.float32)
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no word vectors"),
        (
            b"the 1 2\nof 1\n",
            r"line 2: expected a word and 2 finite numbers, found 'of 1' \(2 columns\)",
        ),
        (b"the 1 2\n\nof 1 nan\n", "line 3: expected a word and 2 finite numbers"),
        (b"2 2\nthe 1 inf\nof 1 2\n", "line 2: expected a word"),
        (b"<html>\n<body>\n", "line 1: expected a word and some finite numbers"),
        (b"3 2\nthe 1 2\nof 1 2\n", "ends after 2 words, but its header announces 3"),
    ],
)
def test_broken_vector_files_are_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataFormatError, match=message) as caught:
        read_text(written(tmp_path, content))
    assert "a.vec" in caught.value.message


def test_limited_compressed_and_damaged_files_are_handled(tmp_path: Path) -> None:
    vectors = read_text(written(tmp_path, b"9 2\nthe 1 2\nthe 7 7\nof 3 4\nbroken\n"), limit=2)
    assert vectors.words == ("the", "of")
    np.testing.assert_array_equal(
        vectors.vector("the"), [1, 2]
    )  # of a repeated word the first vector counts
    assert read_text(written(tmp_path, gzip.compress(SMALL), "a.vec.gz")).words[0] == "the"
    with pytest.raises(DataFormatError, match="cannot be read"):
        read_text(written(tmp_path, gzip.compress(SMALL[4:] * 100)[:-20], "b.vec.gz"))
    assert read_text(written(tmp_path, b"the 1 2\na\xff 1 2\n")).words == ("the", "a\ufffd")
    pytest.importorskip("gensim")
    with pytest.raises(DataFormatError, match=r"a\.bin is not a fastText binary"):
        loaded(written(tmp_path, SMALL * 100, "a.bin"), 0)


def test_changed_file_with_same_mtime_is_reread(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL)
    before = opened(path)
    times = path.stat()
    np.testing.assert_array_equal(before.encode(["the"]), [[1, 2]])
    path.write_bytes(SMALL.replace(b"the 1 2", b"the 8 9"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = opened(path)
    assert after.fingerprint != before.fingerprint
    np.testing.assert_array_equal(after.encode(["the"]), [[8, 9]])
    assert not (cache_root() / "checksums").exists()  # of a file that may still be changing
    path.write_bytes(SMALL.replace(b"the 1 2", b"the 4 4"))
    changed = opened(path)
    path.write_bytes(SMALL)
    with pytest.raises(ModelUnavailableError, match=r"a\.vec changed while it was read"):
        changed.encode(["the"])


def test_parsed_vectors_are_cached_and_damage_repaired(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, SMALL)
    expected = opened(path).encode(["the New York"])
    with monkeypatch.context() as patch:
        patch.setattr(wordvectors, "read_text", None)
        again = loaded(path, wordvectors.DEFAULT_WORDS)
    assert again.words == ("the", "New York", "café")
    assert isinstance(again.vectors, np.memmap)
    (entry,) = (cache_root() / "vectors").iterdir()
    flip(entry / "vectors.npy")
    np.testing.assert_array_equal(opened(path).encode(["the New York"]), expected)
    assert (
        f"the first 200,000 words of a.vec is damaged ({entry}: vectors.npy); it is made again"
        in caplog.text
    )


def test_file_checksum_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged checksum is computed again."""
    monkeypatch.setattr(checksums, "SETTLED", 0)
    path = written(tmp_path, SMALL)
    expected = hashlib.sha256(SMALL).hexdigest()
    assert file_checksum(path) == expected
    (note,) = (cache_root() / "checksums").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(checksums, "_sha256", None)
        assert file_checksum(path) == expected
    note.write_text(note.read_text().replace(expected, "0" * 64))
    assert file_checksum(path) == file_checksum(path) == expected
    assert caplog.text.count("The checksum of") == 1  # damaged


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("gensim/EN.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt", True),
        ("retrofitting/sample_vec.txt", False),
    ],
)
def test_real_vector_files_equal_gensim(shared_data: Path, name: str, header: bool) -> None:
    models = pytest.importorskip("gensim.models")
    path = shared_data / "vectors" / name
    expected = models.KeyedVectors.load_word2vec_format(path, no_header=not header)
    vectors = loaded(path, 0)
    assert vectors.words == tuple(expected.index_to_key)
    np.testing.assert_array_equal(vectors.vectors, expected.vectors)


def test_text_vector_averages_known_words(tmp_path: Path) -> None:
    encoder = opened(vec_file(tmp_path / "a.vec"))
    texts = {
        "ice": ["ice"],
        "ice cream": ["ice", "cream"],
        "  ice  cream\n": ["ice", "cream"],
        "New York": ["New York"],
        "(ice), cream.": ["ice", "cream"],
        "«don't!»": ["don't"],
        "well-known dog": ["well-known", "dog"],
        "hot-dog": ["hot", "dog"],
        "!": ["!"],
        "ice unknown": ["ice"],
        "ice ice dog": ["ice", "ice", "dog"],
        "Ice": ["nothing"],
        "unknown words": ["nothing"],
        "": ["nothing"],
        "...": ["nothing"],
        "don't": ["don't"],
    }
    encoded = encoder.encode(list(texts))
    assert encoded.dtype == np.float32
    vectors = VECTORS | {"nothing": (0, 0, 0)}
    expected = [np.mean([vectors[word] for word in words], axis=0) for words in texts.values()]
    np.testing.assert_allclose(encoded, expected, rtol=1e-6)
    in_context = [TextInput("a hot dog!", ((2, 5),)), TextInput("a hot dog!", ((2, 5), (6, 9)))]
    np.testing.assert_array_equal(encoder.encode(in_context), [[0, 0, 1], [0, 0, 2]])
    lower = vec_file(tmp_path / "lower.vec", {word.lower(): row for word, row in VECTORS.items()})
    assert opened(lower).encode(["Ice"])[0].tolist() == [
        1,
        0,
        0,
    ]  # texts are lower-cased if the vocabulary is
    assert opened(lower, lower=False).encode(["Ice"])[0].tolist() == [0, 0, 0]
    assert opened(tmp_path / "a.vec", lower=True).encode(["Ice"])[0].tolist() == [1, 0, 0]


def test_rare_words_weigh_more_under_sif(tmp_path: Path) -> None:
    """Arora et al. (2017): a / (a + p(w)); p by Zipf's law over the words that are read, most frequent first."""
    path = vec_file(tmp_path / "a.vec")
    for limit, words in ((0, list(VECTORS)), (2, ["ice", "cream"])):
        p = {word: 1 / (rank + 2) for rank, word in enumerate(words)}
        weight = {word: 0.01 / (0.01 + p[word] / sum(p.values())) for word in words}
        expected = np.mean(
            [weight[word] * np.array(VECTORS[word]) for word in ("ice", "cream")], axis=0
        )
        encoded = opened(path, limit=limit, sif=0.01).encode(["ice, unknown cream"])
        np.testing.assert_allclose(encoded, [expected], rtol=1e-5)
    np.testing.assert_array_equal(
        opened(path, sif=0).encode(["ice dog"]), opened(path).encode(["ice dog"])
    )
    assert (
        opened(path, sif=0).fingerprint
        == opened(path).fingerprint
        != opened(path, sif=1e-3).fingerprint
    )


def test_each_language_reads_a_separate_file(tmp_path: Path) -> None:
    vec_file(tmp_path / "cc.en.vec", {"gift": (1, 0)})
    vec_file(tmp_path / "cc.de.vec", {"gift": (0, 1), "der": (2, 2)})
    path = tmp_path / "cc.{lang}.vec"
    assert isinstance(opened(path), VocabularyEncoder)
    assert [list(opened(path).vocabulary(language)) for language in ("en", "de")] == [
        ["gift"],
        ["gift", "der"],
    ]
    assert list(opened(path, limit=1).vocabulary("de")) == ["gift"]
    settings = ({"limit": 2}, {"lower": True}, {"language": "de"}, {})
    assert len({opened(path, **params).fingerprint for params in settings}) == 4
    inputs = [TextInput("gift", language="de"), TextInput("gift", language="en")]
    np.testing.assert_array_equal(opened(path).encode(inputs), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(opened(path, language="de").encode([TextInput("gift")]), [[0, 1]])
    with pytest.raises(UsageError, match="the language for"):
        opened(path).encode([TextInput("gift")])
    with pytest.raises(ModelUnavailableError, match=r"cc\.fr\.vec"):
        opened(path).encode([TextInput("gift", language="fr")])
    with pytest.raises(ModelUnavailableError, match="whatever the language"):
        opened(tmp_path / "wiki.{lang}.vec")
    vec_file(tmp_path / "cc.fr.vec", {"gift": (0, 1, 2)})
    with pytest.raises(UsageError, match="different dimensions"):
        opened(path).encode([*inputs, TextInput("gift", language="fr")])


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("fasttext", UsageError, "names no file"),
        ("fasttext:path=x.vec,limit=-3", UsageError, "limit=-3"),
        ("fasttext:path=x.vec,sif=1.5", UsageError, "sif=1.5 is out of range"),
        ("fasttext:path=x.vec", ModelUnavailableError, "there is no file"),
    ],
)
def test_invalid_word_vector_specs_are_rejected(
    spec: str, error: type[Exception], message: str, plugins: Plugins
) -> None:
    with pytest.raises(error, match=message):
        create_encoder(parse_spec(spec), plugins, EncoderContext())


def test_fasttext_binary_encodes_out_of_vocabulary_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fasttext = pytest.importorskip("gensim.models.fasttext")
    sentences = [["ice", "cream", "and", "hot", "dogs"], ["dogs", "like", "ice"]] * 5
    model = fasttext.FastText(
        sentences, vector_size=8, min_count=1, bucket=200, min_n=2, max_n=4, epochs=1, workers=1
    )
    path = tmp_path / "a.bin"
    fasttext.save_facebook_model(model, str(path))
    expected = fasttext.load_facebook_vectors(str(path))
    texts = ["ice", "icecreams", "zzz", "hot icicle"]
    vectors = [*(expected[word] for word in texts[:3]), (expected["hot"] + expected["icicle"]) / 2]
    for encoder in (opened(path), opened(path)):  # read, then from the cache
        np.testing.assert_allclose(encoder.encode(texts), vectors, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(opened(path, limit=1).encode(["zzz"]), [expected["zzz"]], rtol=1e-5)
    monkeypatch.setitem(sys.modules, "gensim.models.fasttext", None)
    with pytest.raises(ModelUnavailableError, match="gensim") as caught:
        opened(written(tmp_path, b"x", "b.bin")).encode(["a"])
    assert "mirrorbench[static]" in caught.value.hint


def test_word_vector_cache_entries_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache lists word vectors, vectors of a model's tokens, and checksums of files."""
    monkeypatch.setattr(checksums, "SETTLED", 0)
    params = (("path", str(written(tmp_path, SMALL))),)
    context = EncoderContext()
    create_static(EncoderSpec("static", params=params), context).encode([TextInput("the")])
    tiny = EncoderSpec("tiny", method="static")
    create_distilled(tiny, embedded_directory(), context).encode([TextInput("ice")])
    # "traits" is there where this process had not compared the tokenizer of the model before.
    kinds = {path.name for path in cache_root().iterdir()} - {"leases", "traits"}
    assert kinds == {"checksums", "vectors"}
    assert {
        path.read_text(encoding="utf-8")
        for path in (cache_root() / "vectors").glob(f"*/{checksums.ABOUT}")
    } == {"the first 200,000 words of a.vec", "tokens of tiny+static"}
