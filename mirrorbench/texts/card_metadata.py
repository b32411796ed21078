"""The scores in the metadata of a model card; all other metadata and the text stay as they are, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mirrorbench.core.errors import DataFormatError, UsageError

# The metadata: YAML between two lines of dashes, at the beginning of the file.
_METADATA = re.compile(r"\A(\ufeff?---[ \t]*\n)(.*?\n|)(---[ \t]*(?:\n|\Z))", re.DOTALL)
# One key of the metadata with its value: up to the next line that begins with another key.
_MODEL_INDEX = re.compile(r"^model-index[ \t]*:.*?(?=^[^\s#-]|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class CardFile:
    """A model card, with the part of its metadata that holds scores.

    Attributes:
        path: the file.
        content: its text, with line feeds.
        newline: the line end in the file.
        model_index: the value of ``model-index``: models, each with a name and results.
    """

    path: Path
    content: str
    newline: str
    model_index: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path) -> CardFile:
        """Read a model card.

        Raises:
            UsageError: there is no such file.
            DataFormatError: it is not UTF-8, or its metadata cannot be read.
        """
        if not path.parent.is_dir():
            raise UsageError(
                f"there is no directory {path.parent}", "Name the directory of an encoder."
            )
        if not path.is_file():
            raise UsageError(
                f"{path.parent} has no model card",
                f"mirrorbench tune writes one; for another model, write {path} first.",
            )
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise DataFormatError(f"{path} is not UTF-8: {error}") from error
        newline = "\r\n" if "\r\n" in text else "\n"
        content = text.replace("\r\n", "\n")
        _check(path, content)
        metadata = _METADATA.match(content)
        block = _MODEL_INDEX.search(metadata[2]) if metadata else None
        model_index = yaml.safe_load(block[0])["model-index"] if block else []
        return cls(path, content, newline, model_index or [])

    @property
    def results(self) -> list[Mapping[str, Any]]:
        """The results of the first model, which is that of the card."""
        return list(self.model_index[0]["results"]) if self.model_index else []

    def with_results(self, results: Sequence[Mapping[str, Any]], model_name: str) -> str:
        """Return the text of the card with other results of the first model.

        Args:
            results: entries of ``results`` in ``model-index``.
            model_name: name of the model, if the card has none.

        Raises:
            DataFormatError: the card would not be readable.
        """
        first = {"name": model_name}
        if self.model_index:
            first = dict(self.model_index[0])
        model_index = [{**first, "results": list(results)}, *self.model_index[1:]]
        block = yaml.safe_dump({"model-index": model_index}, sort_keys=False, allow_unicode=True)
        metadata = _METADATA.match(self.content)
        if metadata is None:
            content = f"---\n{block}---\n\n{self.content}"
        else:
            start, keys, end = metadata.groups()
            if _MODEL_INDEX.search(keys):
                keys = _MODEL_INDEX.sub(lambda _: block, keys, count=1)
            else:
                keys += block
            content = f"{start}{keys}{end}{self.content[metadata.end() :]}"
        _check(self.path, content)
        return content.replace("\n", self.newline)


def _check(path: Path, content: str) -> None:
    """Check that the library of the hub reads a card; raise ``DataFormatError`` if it does not."""
    from huggingface_hub import ModelCard
    from huggingface_hub.utils import logging

    # A card without metadata is no reason for a warning.
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        ModelCard(content.removeprefix("\ufeff"))
    except (ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise DataFormatError(f"{path}: the metadata cannot be read: {problem}") from error
    finally:
        logging.set_verbosity(verbosity)
