"""Every parser on hostile bytes: an error of ours, or as many rows as the files have. Never anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parsing import on_disk
from samples import SAMPLES, Sample

from mirrorbench.core.errors import DataFormatError, MirrorbenchError
from mirrorbench.data.cards import ResolvedData
from mirrorbench.data.formats import PARSERS, parse

HOSTILE = [
    b"\0", b"\r", b"\n", b"\r\n", b"\t", b"\xef\xbb\xbf", b"\xff", b"\xed\xa0\x80", b"\xff\xfe", b"\xc2\x85",
    b"\xe2\x80\xa8", b"null", b"NA", b"nan", b"NaN", b"-1", b"1e999", b"6", b"9" * 5000, b"0x1", "٣".encode(), b'"',
    b"'", b"||", b"|", b"+", b",", b" ", b"{", b"[", b"}", b"<word>", b"</strong>", b"&x;", b"<!--", b"\\ud800",
    b"cui-less", b"a" * 200_000, b"[" * 5000,
]  # fmt: skip
NOISE = st.binary(max_size=200) | st.text("\t\n\r ,|0123\"'{}[]:<>é\u2028", max_size=60).map(str.encode)
FAST = settings(
    max_examples=settings().max_examples * 18 // 100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def read(sample: Sample, files: Mapping[str, bytes], folder: Path) -> list[Any]:
    return parse(ResolvedData(on_disk(folder, files), sample.parser, dict(sample.options), {}, True))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """A few changes of the kind that happen to files, or that somebody makes on purpose."""
    for _ in range(draw(st.integers(1, 3))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        kind = draw(st.sampled_from(["insert", "replace", "cut", "repeat", "swap"]))
        piece = draw(st.sampled_from(HOSTILE) | st.binary(max_size=4))
        if kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "replace":
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == "cut":
            data = data[:at] + data[end:]
        elif kind == "repeat":
            data = data[:end] + data[at:]
        else:
            rows = data.split(b"\n")
            draw(st.randoms(use_true_random=False)).shuffle(rows)
            data = b"\n".join(rows)
    return data


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_read_whole(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    items = read(sample, sample.written(sample.files), tmp_path)
    assert sample.read(items) == sample.rows(sample.files) > 0
    assert {sample.parser for sample in SAMPLES.values()} == set(PARSERS)


@pytest.mark.parametrize("name", SAMPLES)
@FAST
@given(data=st.data())
def test_damage_is_an_error_or_every_row_is_read(name: str, tmp_path: Path, data: st.DataObject) -> None:
    sample = SAMPLES[name]
    victim = data.draw(st.sampled_from(sorted(sample.files)))
    files = {**sample.files, victim: data.draw(damaged(sample.files[victim]) | NOISE)}
    try:
        items = read(sample, sample.written(files), tmp_path)
    except MirrorbenchError as caught:
        length = len(caught.message)
    else:
        assert sample.read(items) == sample.rows(files)
        return
    assert length < 2000  # a line of a million characters does not fill the screen


FOREIGN = {
    b"": "is empty",
    b"\xef\xbb\xbf": "is empty",
    b"\0" * 10: "NUL|not well-formed|damaged",
    b"a\rb\rc\r": "carriage return|not well-formed|damaged",
    "a\tb\n".encode("utf-16"): "UTF-16|not well-formed|damaged",
    b"\xff\xff\n": "not valid|not well-formed|damaged|columns",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_no_format_allows(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    files = sample.written(sample.files)
    victim = next(iter(files))
    for content, message in FOREIGN.items():
        with pytest.raises(DataFormatError, match=message) as caught:
            read(sample, {**files, victim: content}, tmp_path)
        assert victim in caught.value.message


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_that_is_a_folder(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    paths = {}
    for number, file in enumerate(sample.written(sample.files)):
        paths[file] = tmp_path / str(number)
        paths[file].mkdir()
    with pytest.raises(MirrorbenchError):
        parse(ResolvedData(paths, sample.parser, dict(sample.options), {}, True))


VALUES = [None, -1, 10**30, "x", ["x"], {"x": 1}, 1.5, float("nan"), True]


@pytest.mark.parametrize("name", [name for name, sample in SAMPLES.items() if sample.options])
def test_options_of_another_type_are_an_error_or_change_nothing(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    for key, value in product(sample.options, VALUES):
        changed = {**sample.options, key: value}
        try:
            items = read(replace(sample, options=changed), sample.written(sample.files), tmp_path)
        except MirrorbenchError:
            continue
        assert sample.read(items) in (sample.rows(sample.files), sample.rows(sample.files) + 1)  # a header more
