from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.readers.text import read_lines
from mirrorbench.data.store import DataStore

LINE = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(LINE, min_size=1), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_written_lines_are_read_back_unchanged(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, bom: bool, closed: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    body = end.join(lines) + (end if closed or lines[-1] == "" else "")
    if body.startswith("\ufeff"):
        bom = True  # indistinguishable from a mark, so have one in front of it
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + body.encode())
    assert read_lines(path) == lines


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\u2028still one\x0c\x85\rtoo\ntwo\r\n".encode())
    assert read_lines(path) == ["one\u2028still one\x0c\x85\rtoo", "two"]


def test_reading_a_folder_as_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match=f"Cannot read {tmp_path}"):
        read_lines(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "holds no text"),
        ("a.txt", b"good\nba\0d\n", "line 2: a NUL byte"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0", "NUL|not valid"),
        ("a.txt", b"good\n\xff\n", "line 2: byte 0xff is not valid UTF-8"),
        ("a.txt", "a\nb\n".encode("utf-16")[:-1], "not valid UTF-16"),
        ("a.txt", b"one\rtwo\rthree\r", "carriage return alone"),
        ("a.txt.gz", b"not gzip\n", "gzip stream is damaged"),
        ("a.txt.gz", gzip.compress(b"one\n" * 1000, mtime=0)[:-9], "gzip stream is damaged"),
    ],
)
def test_corpus_file_without_valid_text_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFormatError, match=message) as caught:
        read_corpus(tmp_path / name, DataStore(tmp_path / "data"), {})
    assert str(tmp_path / name) in caught.value.message


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_utf_16_with_its_mark_is_read(tmp_path: Path, name: str) -> None:
    """As Excel writes Unicode text; the same bytes without the mark are refused."""
    lines = ["Grüße", "a\u2028b\rc", "", "日本"]
    for encoding in ("utf-16", "utf-16-be"):
        raw = "\r\n".join(lines).encode(encoding)
        marked = raw if encoding == "utf-16" else b"\xfe\xff" + raw
        (tmp_path / name).write_bytes(gzip.compress(marked) if name.endswith("gz") else marked)
        assert read_lines(tmp_path / name) == lines
        (tmp_path / "b.txt").write_bytes(raw[2:] if encoding == "utf-16" else raw)
        with pytest.raises(DataFormatError) as caught:
            read_lines(tmp_path / "b.txt")
        form = "utf-16le" if encoding == "utf-16" else "utf-16be"
        assert caught.value.hint == f"If it is UTF-16: iconv -f {form} -t utf-8 FILE > NEWFILE"


@pytest.mark.parametrize(
    ("byte", "encoding"),
    [(b"\xe9", "latin1"), (b"\x80", "windows-1252"), (b"\x92", "windows-1252")],
)
def test_encoding_is_proposed_by_the_bytes(tmp_path: Path, byte: bytes, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf" + byte + b"\n")
    with pytest.raises(DataFormatError) as caught:
        read_lines(tmp_path / "a.txt")
    assert f"iconv -f {encoding} " in caught.value.hint
