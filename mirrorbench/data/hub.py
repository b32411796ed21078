"""Hugging Face data sets ``hf:OWNER/NAME@COMMIT[/CONFIG]/SPLIT[#COLUMN]``, read with the library ``datasets``.

A split becomes a JSON-lines file in the store: fetched once, checksum recorded, readable offline. The id contains the
commit because branches move.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UsageError
from mirrorbench.data.cards import COMMIT, CORPUS_KIND, MAX_NAME, Card, DataFile, DatasetSource

PREFIX = "hf:"
FOLDER = "hub"
"""Store folder of all hub splits."""
HUB_GRAMMAR = "hf:OWNER/NAME@COMMIT[/CONFIG]/SPLIT, and #COLUMN for a corpus"

_ID = re.compile(
    r"hf:(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@(?P<revision>[\w.-]+)"
    r"(?:/(?P<config>[A-Za-z0-9_][\w.-]*))?/(?P<split>\w[\w.]*)(?:#(?P<column>.+))?",
    re.ASCII,
)


def is_hub_id(text: str) -> bool:
    """Whether a text is meant as a hub id, well-formed or not."""
    return text.startswith(PREFIX)


def parse_hub_id(text: str) -> tuple[DatasetSource, str]:
    """The split that an id names, and the column, empty if it names none.

    >>> source, column = parse_hub_id("hf:mteb/sts17@" + "0" * 40 + "/en-en/test#sentence1")
    >>> source.repo, source.config, source.split, column
    ('mteb/sts17', 'en-en', 'test', 'sentence1')
    """
    match = _ID.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} names no split of a data set of the hub", f"Write {HUB_GRAMMAR}.")
    parts = {name: value or "" for name, value in match.groupdict().items()}
    column = parts.pop("column")
    if not re.fullmatch(COMMIT, parts["revision"]):
        raise UsageError(
            f"{text!r} asks for {parts['revision']!r}, which is no commit of 40 hexadecimal digits; branches and tags "
            "move, and the numbers with them",
            f"The commits are at https://huggingface.co/datasets/{parts['repo']}/commits/main",
        )
    if any(len(part) > MAX_NAME for part in (*parts["repo"].split("/"), parts["config"], parts["split"])):
        raise UsageError(f"{text!r}: a name has more than {MAX_NAME} characters")
    return DatasetSource(**parts), column


def hub_file(source: DatasetSource) -> DataFile:
    """A split as a file of the store; its checksum is that of the first fetch."""
    folders = [source.repo, source.revision, *filter(None, [source.config])]
    path = "/".join([*folders, f"{source.split}.jsonl"])
    return DataFile(path, sha256="", size=None, sources=(source,), unverified=True)


def hub_card(text: str) -> Card:
    """A card for an id given as ``--corpus``; errors as in ``parse_hub_id``."""
    source, column = parse_hub_id(text)
    return Card(
        name=text, kind=CORPUS_KIND, title="from the Hugging Face hub", level="sentence", languages=(), metric="",
        parser="lines", files=(hub_file(source),), licence="as the data set's page says.", licence_url="",
        redistributable=False, citation="", homepage=source.place, version=1,
        options={"column": column} if column else {}, folder=FOLDER,
    )  # fmt: skip


def write_split(source: DatasetSource, write: Callable[[bytes], object]) -> None:
    """Write a split as JSON lines, with its columns of strings, numbers, booleans and class labels.

    The library ``datasets`` keeps its own copy below ``HF_HOME``.
    """
    try:
        import datasets
    except ImportError as error:
        message = "the package datasets is not installed; install it: pip install 'mirrorbench[hub]'"
        raise DataUnavailableError(message) from error
    if os.path.isdir(source.repo):
        # The library would read that folder and ignore the revision.
        raise DataUnavailableError(f"a folder {source.repo} lies here, which the library would read instead")
    noisy = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    config = source.config or None
    try:
        rows: Any = datasets.load_dataset(source.repo, config, split=source.split, revision=source.revision)
    except Exception as error:  # the library and the hub's client raise many types
        reason = " ".join(str(error).split())[:300]
        raise DataUnavailableError(f"the library datasets says: {type(error).__name__}: {reason}") from error
    finally:
        if noisy:
            datasets.enable_progress_bars()
    kinds = ("string", "large_string", "bool", "int", "uint", "float")  # types that JSON can hold
    kept = [
        name
        for name, feature in rows.features.items()
        if isinstance(feature, datasets.ClassLabel)
        or (isinstance(feature, datasets.Value) and str(feature.dtype).startswith(kinds))
    ]
    if not kept:
        raise DataFormatError(f"no column of texts or numbers, but {', '.join(rows.features)}")
    for row in rows.select_columns(kept):
        write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
