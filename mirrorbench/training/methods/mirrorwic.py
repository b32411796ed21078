"""``mirrorwic``: MirrorWiC (CoNLL 2021), contrastive tuning on words in identical, slightly corrupted contexts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.inputs import TextInput
from mirrorbench.training.methods import Method
from mirrorbench.training.pairs import PairMaker, Pairs
from mirrorbench.training.recipes import Recipe

Span = tuple[int, int]

# The released code (get_mirrorwic_traindata.py): lengths of the sentences that it keeps, number of words among which it
# draws the target, and the shortest context that it masks; lengths in characters.
RELEASED_LENGTHS = range(10, 149)
RELEASED_WORDS = 20
RELEASED_SHORTEST = 10

# Scripts that put no spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_PIECE = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")


_MIRRORWIC_RATES = {"roberta": (0, 0.3), "xlm-roberta": (0, 0.3), "deberta": (1, 0.3), "deberta-v2": (1, 0.3)}


def mirrorwic_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """MirrorWiC's recipe (paper 2, section 4, "Fine-Tuning Details", and Table 13), the same at every level.

    The span mask, K characters on each side of the target, and the dropout rate are those of BERT (K = 10, 0.4),
    RoBERTa (0, 0.3) and DeBERTa (1, 0.3); other architectures get BERT's. ``released``: the authors' script always
    trains for 2 epochs with a dropout of 0.4 (``mirror_wic.sh`` never reads its fourth argument), with the positive in
    the denominator of the loss.
    """
    span, dropout = _MIRRORWIC_RATES.get(architecture, (10, 0.4))
    released = protocol == "released"
    augment = (("dropout", 0.4 if released else dropout), ("span_mask", float(span)))
    recipe = Recipe(temperature=0.04, epochs=1, train_max_length=50, pooling="target", layers="-4:", augment=augment)
    return replace(recipe, epochs=2, loss="ntxent") if released else recipe


def word_spans(text: str) -> list[Span]:
    """The words of a text that hold a letter, without the punctuation around them.

    Words are separated by spaces. In scripts without spaces two neighbouring characters count as a word, the most
    frequent length in Chinese and Japanese. (The released code uses a segmenter for each language.)
    """
    spans = []
    for match in _PIECE.finditer(text):
        inside = [i for i in range(*match.span()) if text[i].isalnum() or unicodedata.category(text[i])[0] == "M"]
        if inside and any(text[i].isalpha() for i in inside):
            spans.append((inside[0], inside[-1] + 1))
    return spans


def words_in_context(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """A random word of each text, paired with itself; text augmentations change the context of one view (section 3.1).

    The text before the word and the text after it are augmented separately, so that the word stays intact. Texts
    without a word are left out.

    ``released``: texts of fewer than 10 or more than 148 characters are left out as well, the word is one of the first
    20, and a side of fewer than 10 characters stays as it is. (The released code draws among a tokenizer's tokens,
    punctuation included, and once for all epochs; here among words, anew in each.)
    """
    released = maker.protocol == "released"
    drawn = []
    for text in texts:
        if released and len(text) not in RELEASED_LENGTHS:
            continue
        if spans := word_spans(text)[: RELEASED_WORDS if released else None]:
            drawn.append((text, spans[int(maker.rng.integers(len(spans)))]))
    plain = [TextInput(text, (span,)) for text, span in drawn]
    left = _corrupted(drawn, maker) if maker.recipe.sides == 2 else plain
    return Pairs(left, _corrupted(drawn, maker))


def _corrupted(drawn: Sequence[tuple[str, Span]], maker: PairMaker) -> list[TextInput]:
    before = [text[:start] for text, (start, _) in drawn]
    after = [text[end:] for text, (_, end) in drawn]
    new_before, new_after = (maker.augment(side, shortest=RELEASED_SHORTEST) for side in (before, after))
    result = []
    for row, (text, (start, end)) in enumerate(drawn):
        head = _joined(before[row], new_before[row], -1)
        tail = _joined(after[row], new_after[row], 0)
        result.append(TextInput(head + text[start:end] + tail, ((len(head), len(head) + end - start),)))
    return result


def _joined(old: str, new: str, edge: int) -> str:
    """The changed context, with a space next to the word if there was one or the adjacent character has changed."""
    if new == old:
        return old
    new = new.strip()
    if old and new and not old[edge].isspace() and new[edge] == old[edge]:
        return new
    return f"{new} " if edge else f" {new}"


@hookimpl
def register_methods(register: Register) -> None:
    """MirrorWiC."""
    method = Method(
        "mirrorwic",
        mirrorwic_preset,
        label="{backbone} + MirrorWiC",
        pairs=words_in_context,
        # Tuned on the same texts whatever the level of the task.
        levels={"word": "wic", "phrase": "wic", "sentence": "wic"},
    )
    register("mirrorwic", method, "MirrorWiC: a word in its context against the same word in a corrupted one")
