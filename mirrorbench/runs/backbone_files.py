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
    """Outcomes of lookups by key; an error is remembered and raised again."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[Any, ...], Any] = {}

    def once(self, key: tuple[Any, ...], look: Callable[[], _T]) -> _T:
        """Call ``look`` at the first use of ``key``; later return, or raise, the same."""
        if key not in self._outcomes:
            try:
                self._outcomes[key] = look()
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
        look: measures the traits of the model in a directory, if its type is not known to read as BERT does.
    """

    def __init__(self, offline: bool, look: Callable[[Path], ModelTraits]) -> None:
        super().__init__()
        self.offline = offline
        self.look = look

    def locate(self, spec: EncoderSpec, language: str = "en") -> Path:
        """Return the directory of a backbone's files; fetch them if they are missing."""
        key = ("directory", spec.backbone, spec.revision, language)
        return self.once(key, lambda: backbones.locate(spec, language, self.offline))

    def family(self, path: Path) -> families.Family:
        """Return the family of the backbone in a directory."""
        return self.once(("family", path), lambda: families.family(path, self.look))

    def stated_keys(self, spec: EncoderSpec, of_short_names: bool = False) -> dict[str, Value]:
        """Return the keys of the readout that the backbone's files state, of ``tune`` or of sentence-transformers.

        A transformation is left out, since it was fitted on the vectors of exactly these weights. Tasks read short names
        as ``backbones.tsv`` says: for these the keys are empty unless ``of_short_names``.

        Raises:
            NoPoolingError: no keys describe what the files state, and the spec names no pooling.
        """
        is_short_name = spec.backbone in backbones.BACKBONES
        if is_short_name and not of_short_names:
            return {}
        readout = sentence_transformer_files.own_readout(spec)
        if readout:
            return {key: value for key, value in readout.items() if key != "post"}
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
            return {}  # it is read as a plain transformer

    def dimensions(self, spec: EncoderSpec) -> int:
        """Return the dimensions of a backbone's vectors; 0 if not known, or if languages have their own models."""
        if has_models_by_language(spec):
            return 0
        try:
            size = backbones.configuration(self.locate(spec))["hidden_size"]
        except (MirrorbenchError, KeyError):
            return 0
        return size if isinstance(size, int) else 0


def has_models_by_language(spec: EncoderSpec) -> bool:
    """Return whether languages have their own backbones under this name."""
    backbone = backbones.BACKBONES.get(spec.backbone)
    return backbone is not None and bool(backbone.by_language)
