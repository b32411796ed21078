"""Fingerprints of backbones: the identity of a model directory's vectors."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from mirrorbench.models.backbones import files_checksum, files_of, with_tokenizer_of_file
from mirrorbench.models.opening import reads_file
from mirrorbench.storage import checksums


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a model directory's configuration, tokenizer and weights.

    Whether the tokenizer is read from its file in place of transformers' class (``opening.reads_file``) counts too,
    since the same files had other vectors before.
    """
    checksum = files_checksum(path)
    if reads_file(path):
        return with_tokenizer_of_file(checksum)
    return checksum


def unchanged_backbone(path: Path, expected: str) -> AbstractContextManager[None]:
    """Check that a directory's fingerprint is ``expected`` before and after the ``with`` block."""
    # `unchanged` compares checksums of files. A fingerprint that differs is passed on, so that it raises the error.
    expected_checksum = expected
    if fingerprint(path) == expected:
        expected_checksum = files_checksum(path)
    return checksums.unchanged(lambda: files_of(path), expected_checksum, str(path))
