"""Fingerprints of backbones: the identity of a model directory's vectors."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from mirrorbench.models.backbones import files_checksum, files_of, fingerprint_with_file_tokenizer
from mirrorbench.models.opening import reads_tokenizer_file
from mirrorbench.storage import checksums


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a model directory's configuration, tokenizer and weights.

    A tokenizer that is read from its file instead of by transformers' class (``opening.reads_tokenizer_file``) changes
    the fingerprint, since the same files had other vectors when the class read them.
    """
    checksum = files_checksum(path)
    if reads_tokenizer_file(path):
        return fingerprint_with_file_tokenizer(checksum)
    return checksum


def unchanged_backbone(path: Path, expected: str) -> AbstractContextManager[None]:
    """Return a context that raises a ``ModelUnavailableError`` unless a directory keeps its ``expected`` fingerprint.

    The error is raised at the end of the ``with`` block.
    """
    if fingerprint(path) == expected:
        expected_checksum = files_checksum(path)
    else:
        # No checksum of files equals a fingerprint of others, so `unchanged` raises its error.
        expected_checksum = expected
    return checksums.unchanged(lambda: files_of(path), expected_checksum, str(path))
