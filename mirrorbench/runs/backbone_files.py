"""Files of backbones, each located, read and tried once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.models import backbones, families, sentence_transformer_files
from mirrorbench.models.traits import ModelTraits

_T = TypeVar("_T")


class Lookups:
    """Outcomes of lookups by key, errors included: each lookup is made once."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[Any, ...], Any] = {}

    def once(self, key: tuple[Any, ...], look_up: Callable[[], _T]) -> _T:
        """Call ``look_up`` at the first use of ``key``; later return its value, or raise its error, again."""
        if key not in self._outcomes:
            try:
                self._outcomes[key] = look_up()
            except (Exception, SystemExit) as error:  # plugins may raise anything
                self._outcomes[key] = error
        outcome = self._outcomes[key]
        if isinstance(outcome, BaseException):
            raise outcome
        return cast("_T", outcome)


class BackboneFiles(Lookups):
    """Files of backbones, each located and read once.

    Args:
        offline: fetch nothing.
        measure_traits: measures the traits of the model in a directory; called for types that are not known to read as
            BERT does.
    """

    def __init__(self, offline: bool, measure_traits: Callable[[Path], ModelTraits]) -> None:
        super().__init__()
        self.offline = offline
        self.measure_traits = measure_traits

    def locate(self, spec: EncoderSpec, language: str = "en") -> Path:
        """Return the directory of a backbone's files; fetch them if they are missing."""
        key = ("directory", spec.backbone, spec.revision, language)
        return self.once(key, lambda: backbones.locate(spec, language, self.offline))

    def family(self, path: Path) -> families.Family:
        """Return the family of the backbone in a directory."""
        return self.once(("family", path), lambda: families.family(path, self.measure_traits))

    def stated_keys(self, spec: EncoderSpec, include_short_names: bool = False) -> dict[str, Value]:
        """Return the spec keys of the readout that a backbone's files state; empty if they state none.

        The files are those of ``mirrorbench tune`` or of sentence-transformers. They are fetched if they are missing. A
        transformation (``post``) is left out, since it was fitted on the vectors of exactly these weights. Tasks read
        short names as ``backbones.tsv`` says, so these have no keys unless ``include_short_names``.

        Raises:
            NoPoolingError: the files state a readout that no keys can describe, and neither the spec nor a short name
                gives a pooling.
        """
        is_short_name = spec.backbone in backbones.BACKBONES
        if is_short_name and not include_short_names:
            return {}
        # Files of ``mirrorbench tune``.
        readout = sentence_transformer_files.stored_readout(spec)
        if readout:
            return {key: value for key, value in readout.items() if key != "post"}
        # Files of sentence-transformers.
        local = Path(spec.backbone).expanduser()
        if spec.is_path or (local.is_dir() and not is_short_name):
            folder = local
        else:
            folder = self.locate(spec)
        try:
            return sentence_transformer_files.keys_of_files(spec, folder)
        except sentence_transformer_files.NoPoolingError:
            if spec.get("pooling") is None and not is_short_name:
                raise
            # With the pooling of the spec or of ``backbones.tsv``, the backbone is read as a plain transformer.
            return {}

    def dimensions(self, spec: EncoderSpec) -> int:
        """Return the dimensions of a backbone's vectors; 0 if unknown, or if some languages have their own models."""
        if has_models_by_language(spec):
            return 0
        try:
            size = backbones.configuration(self.locate(spec))["hidden_size"]
        except (MirrorbenchError, KeyError):
            return 0
        return size if isinstance(size, int) else 0


def has_models_by_language(spec: EncoderSpec) -> bool:
    """Return whether the backbone's name stands for several models, one for each of some languages."""
    backbone = backbones.BACKBONES.get(spec.backbone)
    return backbone is not None and bool(backbone.by_language)
