"""The scores in the metadata of a model card; other metadata and the text of the card stay byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mirrorbench.core.errors import DataFormatError, UsageError

_KEY = "model-index"
_BOM = "\ufeff"


@dataclass(frozen=True)
class CardFile:
    """A model card, with the part of its metadata that holds scores.

    Attributes:
        path: the file.
        content: its text.
        model_index: the value of ``model-index``: models, each with a name and results.
    """

    path: Path
    content: str
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
            content = path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise DataFormatError(f"{path} is not UTF-8: {error}") from error
        model_index = _checked_metadata(path, content).get(_KEY) or []
        return cls(path, content, model_index)

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
            DataFormatError: the metadata are written in a way in which the results cannot be replaced.
        """
        first: dict[str, Any] = {"name": model_name}
        if self.model_index:
            first = dict(self.model_index[0])
        model_index = [{**first, "results": list(results)}, *self.model_index[1:]]
        if len(model_index) == 1 and not results:
            model_index = []
        content = self._with_model_index(model_index)

        # Whatever YAML allows and is not understood here: nothing may be lost.
        other_keys_before = _checked_metadata(self.path, self.content)
        other_keys_before.pop(_KEY, None)
        other_keys = _checked_metadata(self.path, content)
        written = other_keys.pop(_KEY, [])
        if written != model_index or other_keys != other_keys_before:
            raise self._unreplaceable()
        return content

    def _with_model_index(self, model_index: Sequence[Mapping[str, Any]]) -> str:
        """Return the text of the card with another ``model-index``, or without it if that is empty."""
        newline = "\r\n" if "\r\n" in self.content else "\n"
        block = ""
        if model_index:
            block = yaml.safe_dump({_KEY: model_index}, sort_keys=False, allow_unicode=True)
            block = block.replace("\n", newline)
        place = _place_of_metadata(self.content)
        if place is None:
            bom = _BOM if self.content.startswith(_BOM) else ""
            text = self.content.removeprefix(_BOM)
            return f"{bom}---{newline}{block}---{newline}{newline}{text}"
        start, end = place
        keys = self.content[start:end] + newline
        lines = self._lines_of_model_index(keys)
        if lines is None:
            keys += block
        else:
            keys = keys[: lines[0]] + block + keys[lines[1] :]
        return self.content[:start] + keys.removesuffix(newline) + self.content[end:]

    def _lines_of_model_index(self, keys: str) -> tuple[int, int] | None:
        """Return begin and end of the lines of ``model-index`` in the metadata; ``None`` if there are none."""
        root = yaml.compose(keys, Loader=yaml.SafeLoader)
        if root is None:
            return None
        if not isinstance(root, yaml.MappingNode) or root.flow_style:
            raise self._unreplaceable()
        places = [(key, value) for key, value in root.value if key.value == _KEY]
        if not places:
            return None
        key, value = places[0]
        start = key.start_mark.index
        if len(places) > 1 or key.start_mark.column:
            raise self._unreplaceable()
        last = _last_leaf(value).end_mark.index
        # A text over several lines ends after its line feed.
        if last and keys[last - 1] == "\n":
            return start, last
        return start, keys.index("\n", last) + 1

    def _unreplaceable(self) -> DataFormatError:
        return DataFormatError(
            f"{self.path}: {_KEY} cannot be replaced in these metadata",
            f"Write one key in a line, {_KEY} once and without aliases (&, *).",
        )


def _last_leaf(node: yaml.Node) -> yaml.Node:
    """Return the last value inside a list or mapping in lines, whose own end is after the comments that follow."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    return node


def _place_of_metadata(content: str) -> tuple[int, int] | None:
    """Return where the metadata begin and end, as the library of the hub sees it; ``None`` if there are none."""
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    offset = len(_BOM) if content.startswith(_BOM) else 0
    match = REGEX_YAML_BLOCK.search(content[offset:])
    return None if match is None else (offset + match.start(2), offset + match.end(2))


def _checked_metadata(path: Path, content: str) -> dict[str, Any]:
    """Return the metadata of a card that the library of the hub reads; a ``DataFormatError`` if it does not."""
    from huggingface_hub import ModelCard
    from huggingface_hub.utils import logging

    # A card without metadata is no reason for a warning.
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        ModelCard(content.removeprefix(_BOM))
        place = _place_of_metadata(content)
        if place is None:
            return {}
        return yaml.safe_load(content[place[0] : place[1]]) or {}
    except (ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError) as error:
        problem = " ".join(str(error).split())
        raise DataFormatError(f"{path}: the metadata cannot be read: {problem}") from error
    finally:
        logging.set_verbosity(verbosity)


def one_metric_each(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an entry of ``results`` for each metric of one: the library of the hub joins those on the same data."""
    for metric in entry.get("metrics") or []:
        yield {**entry, "metrics": [metric]}
