"""What is tuned on where neither the user nor the task says: paper 1, section 3, "Training Resources"."""

from __future__ import annotations

_WIC_LANGUAGES = ("bg", "da", "de", "et", "fa", "fr", "hr", "it", "ja", "ko", "nl", "zh")
_WORD_LANGUAGES = ("ar", "de", "en", "es", "et", "fi", "fr", "he", "hr", "it", "pl", "ru", "tr", "zh")
DEFAULT_CORPORA = {
    ("sentence", "en"): "sts-sentences",
    ("sentence", "es"): "wikimatrix-es",
    ("sentence", "ar"): "wikimatrix-ar",
    ("sentence", "ru"): "wikimatrix-ru",
    **{("word", language): f"words-{language}" for language in _WORD_LANGUAGES},
    # Paper 2, section 4: 10k sentences of each language's Wikipedia, for those of XL-WiC.
    ("wic", "en"): "wic-sentences",
    **{("wic", language): f"wiki-sentences-{language}" for language in _WIC_LANGUAGES},
}
"""By level and language (ISO code)."""

# MirrorWiC's code tunes on the whole of the file that came with it.
_RELEASED = {("wic", "en"): "wic-sentences-20k"}


def default_corpus(level: str, language: str, protocol: str) -> str:
    """The corpus of a level and a language; empty where there is none.

    Args:
        level: ``word``, ``phrase``, ``sentence`` or ``wic``.
        language: ISO code.
        protocol: ``paper`` or ``released``.
    """
    usual = DEFAULT_CORPORA.get((level, language), "")
    return _RELEASED.get((level, language), usual) if protocol == "released" else usual
