"""Every parser on hostile bytes: an error of ours, or as many rows as the files have. Never anything else."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from helpers.format_samples import SAMPLES
from helpers.parsed_files import read_sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorbench.core.errors import MirrorbenchError

HOSTILE = [
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b"\t",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xff\xfe",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"null",
    b"NA",
    b"nan",
    b"NaN",
    b"-1",
    b"1e999",
    b"6",
    b"9" * 5000,
    b"0x1",
    "٣".encode(),
    b'"',
    b"'",
    b"||",
    b"|",
    b"+",
    b",",
    b" ",
    b"{",
    b"[",
    b"}",
    b"<word>",
    b"</strong>",
    b"&x;",
    b"<!--",
    b"\\ud800",
    b"cui-less",
    b"a" * 200_000,
    b"[" * 5000,
]
NOISE = st.binary(max_size=200) | st.text("\t\n\r ,|0123\"'{}[]:<>é\u2028", max_size=60).map(
    str.encode
)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Some pieces inserted or cut out, or others put in their place, as happens to files."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.just(0) | st.integers(0, len(data)))
        data = (
            data[:at] + draw(st.sampled_from([*HOSTILE, data]) | st.binary(max_size=4)) + data[end:]
        )
    return data


@pytest.mark.parametrize("name", [(name) for name in SAMPLES])
@settings(
    max_examples=settings().max_examples * 18 // 100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_damaged_file_is_refused_or_read_completely(
    name: str, tmp_path: Path, data: st.DataObject
) -> None:
    """Rows are counted where files are a user's own: those of most original data sets are held to their checksums."""
    sample = SAMPLES[name]
    victim = data.draw(st.sampled_from(sorted(sample.files)))
    content = data.draw(damaged(sample.files[victim]) | NOISE)
    try:
        items = read_sample(name, tmp_path, {victim: content})
    except MirrorbenchError as caught:
        length = len(caught.message)
    else:
        if sample.parser in ("table", "lines"):
            text = (gzip.decompress(content) if victim.endswith(".gz") else content).decode(
                "utf-8-sig"
            )
            assert len(items) == sum(bool(line.strip()) for line in text.split("\n")) - (
                "header" in sample.options
            )
        return
    assert length < 2000  # a line of a million characters does not fill the screen
