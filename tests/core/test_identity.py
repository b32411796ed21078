"""Checksums of settings and of texts."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import pytest

from mirrorbench.core.identity import checksum, digest

ROOT = Path(__file__).resolve().parents[2]


def test_digest_hashes_sorted_keys_without_spaces() -> None:
    """Every stored result is found by it: what it hashes must not change."""
    canonical = '{"a":[1,2.5,null],"b":{"ä":true,"é":""}}'
    expected = hashlib.sha256(canonical.encode()).hexdigest()
    for parts in (
        {"a": [1, 2.5, None], "b": {"ä": True, "é": ""}},
        {"b": {"é": "", "ä": True}, "a": [1, 2.5, None]},
    ):
        assert digest(parts) == expected
    assert digest({"a": 1}) != digest({"a": 1.0}) != digest({"a": "1.0"})


def test_nan_has_no_digest() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"lr": float("nan")})


def test_half_surrogate_pairs_have_a_checksum() -> None:
    assert checksum("ä") == hashlib.sha256(b"\xc3\xa4").hexdigest()
    assert checksum("\ud800") == hashlib.sha256(b"\xed\xa0\x80").hexdigest()


@pytest.mark.parametrize(
    "project", [ROOT, *sorted(ROOT.glob("plugins/*/"))], ids=lambda path: path.name
)
def test_version_of_every_package_is_read_from_one_place(project: Path) -> None:
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["dynamic"] == ["version"]
    source = (project / settings["tool"]["hatch"]["version"]["path"]).resolve()
    assert source == ROOT / "mirrorbench" / "core" / "identity.py"
