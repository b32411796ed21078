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
        look: tries the model in a directory whose type is not known to read as BERT does.
    """

    def __init__(self, offline: bool, look: Callable[[Path], ModelTraits]) -> None:
        super().__init__()
        self.offline, self.look = offline, look

    def locate(self, spec: EncoderSpec, language: str = "en") -> Path:
        """Return the directory of a backbone's files, fetched if need be."""
        key = ("directory", spec.backbone, spec.revision, language)
        return self.once(key, lambda: backbones.locate(spec, language, self.offline))

    def family(self, path: Path) -> families.Family:
        """Return the family of the backbone in a directory."""
        return self.once(("family", path), lambda: families.family(path, self.look))

    def stated_keys(self, spec: EncoderSpec, of_short_names: bool = False) -> dict[str, Value]:
        """Return the keys of the readout that the backbone's files state, of ``tune`` or of sentence-transformers.

        A transformation is none of them: it is of the vectors of just these weights. Tasks read short names as
        ``backbones.tsv`` says, so that theirs are left out unless ``of_short_names``.

        Raises:
            NoPoolingError: no keys say what they state, and the spec names no pooling.
        """
        known = spec.backbone in backbones.BACKBONES
        if known and not of_short_names:
            return {}
        if own := sentence_transformer_files.own_readout(spec):
            return {key: value for key, value in own.items() if key != "post"}
        local = Path(spec.backbone).expanduser()
        in_folder = spec.is_path or (local.is_dir() and not known)
        folder = local if in_folder else self.locate(spec)
        try:
            return sentence_transformer_files.keys_of_files(spec, folder)
        except sentence_transformer_files.NoPoolingError:
            if spec.get("pooling") is None and not known:  # else it is read as a plain transformer
                raise
            return {}

    def dimensions(self, spec: EncoderSpec) -> int:
        """Return the dimensions of a backbone's vectors; 0 if not known, or if languages have models of their own."""
        if has_models_by_language(spec):
            return 0
        try:
            size = backbones.configuration(self.locate(spec))["hidden_size"]
        except (MirrorbenchError, KeyError):
            return 0
        return size if isinstance(size, int) else 0


def has_models_by_language(spec: EncoderSpec) -> bool:
    """Return whether languages have backbones of their own under this name."""
    known = backbones.BACKBONES.get(spec.backbone)
    return known is not None and bool(known.by_language)
