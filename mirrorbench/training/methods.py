"""Methods, which make an encoder of a backbone: their recipes and their pairs of texts.

A method that tunes has a function ``(texts, maker) -> Pairs``, called at the start of each epoch. Mirror pairs every
string with itself; others pair two names of one concept, or a word in context with the same word in a masked context.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.line_parts import fields_of
from mirrorbench.training.augmentations import Augmentation, AugmentationContext, in_use
from mirrorbench.training.recipes import LOSS_PARAMETERS, MULTI_SIMILARITY, Recipe

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from mirrorbench.core.encoder_protocol import Encoder
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.models.encoder_systems import EncoderContext


@dataclass(frozen=True, slots=True)
class Pairs:
    """The positive pairs of one epoch."""

    left: Sequence[TextInput]
    """First views."""
    right: Sequence[TextInput]
    """Second views, in the same order."""
    groups: Sequence[Hashable] | None = None
    """Group of each pair; pairs of one group are no negatives of each other. ``None``: each pair is a group."""
    together: int = 1
    """Number of successive pairs in the same batch, in their order; a divisor of the number of pairs."""


@dataclass(frozen=True, slots=True)
class PairMaker:
    """Recipe, random numbers and augmentations for the pairs of a method."""

    recipe: Recipe
    rng: np.random.Generator
    """The tuning's generator, the only permitted source of randomness."""
    mask_token: str
    """The backbone's mask token as text."""
    protocol: str
    """``paper`` or ``released``."""
    augmentations: Mapping[str, Augmentation]
    """Registered augmentations by name."""
    can_read: Callable[[Sequence[str]], Sequence[bool]] = lambda texts: [True] * len(texts)
    """Returns for each text whether the backbone has embeddings of all its tokens."""

    def augment(self, texts: Sequence[str], shortest: int = 30) -> list[str]:
        """Apply the recipe's text augmentations in the order of their names.

        ``shortest``: characters; under ``released``, shorter strings are not changed. Nor are strings that the backbone
        could not read any more, since words beside each other are a token without an embedding.
        """
        result = list(texts)
        for function, rate in in_use(self.recipe.augment, self.augmentations, "text"):
            context = AugmentationContext(self.rng, rate, self.mask_token, self.protocol, shortest)
            result = [function(text, context) for text in result]
        readable = zip(result, texts, self.can_read(result), strict=True)
        return [changed if can_read else text for changed, text, can_read in readable]

    def pairs(
        self, left: Sequence[str], right: Sequence[str], groups: Sequence[Hashable] | None = None
    ) -> Pairs:
        """Make pairs of strings with augmented second views, and augmented first views under ``sides=2``."""
        if self.recipe.sides == 2:
            left = self.augment(left)
        right = self.augment(right)
        return Pairs(
            [TextInput(text) for text in left], [TextInput(text) for text in right], groups
        )


PairFunction = Callable[[Sequence[str], PairMaker], Pairs]


def identical_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair every string with itself (paper 1, section 2.1)."""
    return maker.pairs(texts, texts)


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method."""

    name: str
    """Name after ``+`` in a spec."""
    preset: Callable[[str, str, str], Recipe]
    """``(level, architecture, protocol) -> Recipe`` with the paper's values; ``architecture`` is the backbone's
    ``model_type``."""
    tunes: bool = True
    """Whether the weights change. A method that does not tune uses pooling and layers of its recipe alone."""
    label: str = "{backbone} + {method}"
    """Name of the row in tables, with ``{backbone}`` and ``{method}``."""
    pairs: PairFunction = identical_pairs
    """``(texts, maker) -> Pairs``, which makes an epoch's pairs of the corpus."""
    levels: Mapping[str, str] = field(default_factory=dict)
    """Levels of tasks with the recipe and corpus of another level: ``{"wic": "sentence"}`` for Mirror, which encodes
    the whole sentence for words in context."""
    create: Callable[[EncoderSpec, Path, EncoderContext], Encoder] | None = None
    """``(spec, path, context) -> Encoder`` of a method that tunes nothing and makes another encoder of the backbone's
    directory, as an encoder system; it checks the spec's keys, and has no recipe."""
    baseline: bool = False
    """Whether it is a row of ``mirrorbench run --baselines``; such a method needs no labels and no settings."""


def base_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return mean pooling over the last layer (paper 1, footnote 5: better than [CLS] for untuned models)."""
    pooling = "mean-padded" if protocol == "released" else "mean"
    return Recipe(temperature=1.0, epochs=1, train_max_length=64, pooling=pooling)


def mirror_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return Mirror-BERT's recipe (paper 1, section 3, "Training Setup and Details", and appendix B).

    Word-in-context tasks have the sentence recipe, since Mirror encodes the whole sentence there (paper 2, Table 3).
    """
    sentence = level in ("sentence", "wic")
    # Appendix B: sentence-level BERT is tuned and tested with mean pooling, all else with [CLS].
    pooling = "mean" if sentence and architecture == "bert" else "cls"
    span = {"word": 0, "phrase": 2}.get(level, 5)
    temperature, (epochs, length) = (
        0.2 if level == "word" else 0.04,
        (1, 50) if sentence else (2, 25),
    )
    augment = (("dropout", 0.1), ("span_mask", float(span)))
    recipe = Recipe(temperature, epochs, train_max_length=length, pooling=pooling, augment=augment)
    if protocol == "released":
        pooling = "mean-padded" if pooling == "mean" else pooling
        recipe = replace(recipe, loss="ntxent", drop_last=True, clean_corpus=False, pooling=pooling)
    return replace(recipe, **LOSS_PARAMETERS[protocol])


# mirrorwic: MirrorWiC (CoNLL 2021), contrastive tuning on words in identical, slightly corrupted contexts.

Span = tuple[int, int]

# Released code (get_mirrorwic_traindata.py): lengths of sentences, number of words among which the target is drawn, and
# length of the shortest masked context; lengths in characters.
RELEASED_LENGTHS = range(10, 149)
RELEASED_WORDS = 20
RELEASED_SHORTEST = 10

# Scripts that put no spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_PIECE = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")


_MIRRORWIC_RATES = {
    "roberta": (0, 0.3),
    "xlm-roberta": (0, 0.3),
    "deberta": (1, 0.3),
    "deberta-v2": (1, 0.3),
}


def mirrorwic_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return MirrorWiC's recipe (paper 2, section 4, "Fine-Tuning Details", and Table 13), the same at every level.

    The span mask, K characters on each side of the target, and the dropout rate are those of BERT (K = 10, 0.4),
    RoBERTa (0, 0.3) and DeBERTa (1, 0.3); other architectures have BERT's. ``released``: the authors' script always
    trains for 2 epochs with a dropout of 0.4 (``mirror_wic.sh`` never reads its fourth argument), with the positive in
    the denominator of the loss.
    """
    span, dropout = _MIRRORWIC_RATES.get(architecture, (10, 0.4))
    released = protocol == "released"
    augment = (("dropout", 0.4 if released else dropout), ("span_mask", float(span)))
    recipe = Recipe(
        temperature=0.04,
        epochs=1,
        train_max_length=50,
        pooling="target",
        layers="-4:",
        augment=augment,
    )
    recipe = replace(recipe, epochs=2, loss="ntxent") if released else recipe
    return replace(recipe, **LOSS_PARAMETERS[protocol])


def word_spans(text: str) -> list[Span]:
    """Return the spans of the words with a letter in a text, without the punctuation around them.

    Words are separated by spaces. In scripts without spaces two neighbouring characters count as a word, the most
    frequent length in Chinese and Japanese. (The released code uses a segmenter for each language.)
    """
    spans = []
    for match in _PIECE.finditer(text):
        inside = [
            i
            for i in range(*match.span())
            if text[i].isalnum() or unicodedata.category(text[i])[0] == "M"
        ]
        if inside and any(text[i].isalpha() for i in inside):
            spans.append((inside[0], inside[-1] + 1))
    return spans


def words_in_context(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair a random word of each text with itself; text augmentations change the context of one view (section 3.1).

    The texts before and after the word are augmented separately. Texts without a word are excluded.

    ``released``: texts of fewer than 10 or more than 148 characters are also excluded, the word is one of the first 20,
    and a side of fewer than 10 characters is not changed. (The released code draws among a tokenizer's tokens,
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
    new_before, new_after = (
        maker.augment(side, shortest=RELEASED_SHORTEST) for side in (before, after)
    )
    result = []
    for row, (text, (start, end)) in enumerate(drawn):
        head = _joined(before[row], new_before[row], -1)
        tail = _joined(after[row], new_after[row], 0)
        result.append(
            TextInput(head + text[start:end] + tail, ((len(head), len(head) + end - start),))
        )
    return result


def _joined(old: str, new: str, edge: int) -> str:
    """Return the changed context, with a space next to the word if it had one or the adjacent character changed."""
    if new == old:
        return old
    new = new.strip()
    if old and new and not old[edge].isspace() and new[edge] == old[edge]:
        return new
    return f"{new} " if edge else f" {new}"


# pairs: supervised tuning on pairs of texts of equal meaning, with Mirror-BERT's loss and recipe. The two texts of a
# corpus line (`data.readers.line_parts`) are the views, so no text is masked; dropout remains, as in supervised SimCSE (Gao
# et al., EMNLP 2021, section 4).


def pairs_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return Mirror-BERT's recipe of the level without its span mask."""
    recipe = mirror_preset(level, architecture, protocol)
    return replace(recipe, augment=(("dropout", recipe.rate("dropout")), ("span_mask", 0.0)))


def text_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair the two texts of each line; pairs that share a text are a group. Other lines raise a ``TuningError``."""
    left, right = zip(*map(_pair, texts, fields_of(texts)), strict=True)
    return maker.pairs(left, right, _groups(left, right))


def _pair(text: str, fields: Sequence[str]) -> tuple[str, str]:
    if len(fields) != 2 or not all(fields):
        problem = f"the corpus line {shown(text)} is no pair of texts"
        raise TuningError(problem, "pairs tunes on lines like text1||text2.")
    return fields[0], fields[1]


def _groups(left: Sequence[str], right: Sequence[str]) -> list[int]:
    """Return a number for each pair, the same for pairs connected through shared texts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    number = {text: index for index, text in enumerate(dict.fromkeys([*left, *right]))}
    ends = [[number[text] for text in view] for view in (left, right)]
    graph = coo_array(([1] * len(left), ends), shape=(len(number), len(number)))
    groups: list[int] = connected_components(graph, directed=False)[1][ends[0]].tolist()
    return groups


# sap: SapBERT's self-alignment (Liu et al., NAACL 2021), metric learning on the names of concepts. A corpus line is a
# pair of names of one concept, `id||name||other name` (the format of SapBERT's training files), or one name, `id||name`
# or `id<TAB>name`: then every two names of a concept make a pair, at most MOST_PAIRS a concept, as in SapBERT's paper.

MOST_PAIRS = 50
"""Most pairs of one concept (SapBERT: concepts with hundreds of names would dominate)."""


def sap_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return SapBERT's recipe (Liu et al. 2021, "Self-Alignment Pretraining for Biomedical Entity Representations").

    AdamW with 2e-5, batches of 256 name pairs, one epoch, names of at most 25 tokens, [CLS], and the model's own
    dropout, which is 0.1 in the BERT family (released code, ``train/pretrain.sh``). The same at every level; under
    ``released`` the corpus is not cleaned, and the loss has the released code's ``LOSS_PARAMETERS``.
    """
    recipe = Recipe(
        temperature=0.04, epochs=1, train_max_length=25, pooling="cls", augment=(("dropout", 0.1),)
    )
    recipe = replace(
        recipe, batch_size=256, loss=MULTI_SIMILARITY, clean_corpus=protocol == "paper"
    )
    return replace(recipe, **LOSS_PARAMETERS[protocol])


def name_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair names that share an id, which is their group; a wrong line or no pairs raise a ``TuningError``."""
    triples: list[tuple[str, str, str]] = []
    names: dict[str, dict[str, None]] = {}
    for text, fields in zip(texts, fields_of(texts), strict=True):
        if len(fields) not in (2, 3) or not all(fields):
            raise TuningError(
                f"the corpus line {shown(text)} is no name with an id",
                "sap tunes on lines like id||name||other name, id||name or id<TAB>name.",
            )
        if len(fields) == 3:
            triples.append((fields[0], fields[1], fields[2]))
        else:
            names.setdefault(fields[0], {})[fields[1]] = None
    for concept, synonyms in names.items():
        pairs = list(combinations(synonyms, 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [
                pairs[i] for i in sorted(maker.rng.choice(len(pairs), MOST_PAIRS, replace=False))
            ]
        triples += [(concept, first, second) for first, second in pairs]
    if not triples:
        raise TuningError(
            "no two names of the corpus share an id", "sap learns from names of the same concept."
        )
    concepts, left, right = zip(*triples, strict=True)
    return maker.pairs(left, right, concepts)


OF_TWO: tuple[PairFunction, ...] = (text_pairs, name_pairs)
"""Functions for corpus lines with two texts or names; for all others a line is a text."""


@hookimpl
def register_methods(register: Register) -> None:
    """Register the methods of this module."""
    base = Method("base", base_preset, tunes=False, label="{backbone}")
    register("base", base, "the backbone as it comes")
    mirror = Method(
        "mirror", mirror_preset, label="{backbone} + Mirror", levels={"wic": "sentence"}
    )
    register(
        "mirror", mirror, "Mirror-BERT: two views of each string, made by span masking and dropout"
    )
    everywhere = {
        "word": "wic",
        "phrase": "wic",
        "sentence": "wic",
    }  # tuned on the same texts at every level
    wic = Method(
        "mirrorwic", mirrorwic_preset, True, "{backbone} + MirrorWiC", words_in_context, everywhere
    )
    register(
        "mirrorwic",
        wic,
        "MirrorWiC: a word in its context against the same word in a corrupted one",
    )
    pairs = Method(
        "pairs", pairs_preset, True, "{backbone} + pairs", text_pairs, {"wic": "sentence"}
    )
    register("pairs", pairs, "supervised: the two texts of each corpus line are the two views")
    sap = Method("sap", sap_preset, label="{backbone} + SAP", pairs=name_pairs)
    register(
        "sap",
        sap,
        "SapBERT: names of one concept are drawn together, hard pairs mined in the batch",
    )
