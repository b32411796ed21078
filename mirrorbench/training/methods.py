"""Methods, which make an encoder from a backbone: their recipes and their pairs of texts.

A method that tunes has a function ``(texts, maker) -> Pairs``, called at the start of each epoch. Mirror pairs every
string with itself; others pair two names of one concept, or a word in context with the same word in a masked context.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.line_parts import fields_of
from mirrorbench.training.augmentations import (
    Augmentation,
    AugmentationContext,
    functions_and_rates,
)
from mirrorbench.training.recipes import LOSS_PARAMETERS, MULTI_SIMILARITY, Recipe

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from mirrorbench.core.encoder_protocol import Encoder
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.models.encoder_systems import EncoderContext


@dataclass(frozen=True, slots=True)
class Pairs:
    """The positive pairs of one epoch: what the function ``pairs`` of a ``Method`` returns.

    ``left`` and ``right`` hold the first and the second views of at least two pairs, in the same order. The views of a
    pair are trained to be similar, the other texts of a batch serve as negatives; pairs with an equal entry in
    ``groups`` are not negatives of each other. ``together=k`` keeps each k successive pairs in one batch.
    ``PairMaker.pairs`` makes this object from strings; a plugin makes it itself if the texts have target words.

    Attributes:
        left: first views.
        right: second views, in the same order.
        groups: group of each pair; pairs of one group are not negatives of each other. ``None``: each pair is its own
            group.
        together: number of successive pairs that stay in the same batch, in their order; a divisor of the number of
            pairs.

    Example:
        Words in context: the pooling ``target`` compares the words at ``spans``.

        >>> from mirrorbench.plugin import Pairs, TextInput
        >>> def in_capitals(texts, maker):
        ...     left = [TextInput(text, ((0, text.index(" ")),)) for text in texts]  # the first word
        ...     right = [TextInput(text.upper(), ((0, text.index(" ")),)) for text in texts]
        ...     return Pairs(left, right, groups=[text.split()[0] for text in texts])
        >>> pairs = in_capitals(["bank of a river", "money in a bank", "bank of Italy"], maker=None)
        >>> pairs.right[0].text, pairs.groups
        ('BANK OF A RIVER', ['bank', 'money', 'bank'])
    """

    left: Sequence[TextInput]
    right: Sequence[TextInput]
    groups: Sequence[Hashable] | None = None
    together: int = 1


@dataclass(frozen=True, slots=True)
class PairMaker:
    """Settings, random numbers and augmentations for the function ``pairs`` of a ``Method``, its second argument.

    mirrorbench makes one for each tuning. The function reads ``recipe`` (the hyper-parameters), ``protocol`` (``paper``
    or ``released``) and ``mask_token`` (empty for a tokenizer without one), draws all its random numbers from ``rng``,
    and calls ``augment`` or ``pairs`` to apply the recipe's text augmentations. A test makes one as below; to apply
    augmentations, it passes ``load_plugins().augmentations.by_name()`` as ``augmentations``.

    Attributes:
        recipe: the hyper-parameters of the tuning.
        rng: the tuning's generator, the only permitted source of randomness.
        mask_token: the backbone's mask token as text; empty if it has none.
        protocol: ``paper`` or ``released``.
        augmentations: registered augmentations by name, those of the recipe included.
        can_read: returns for each text whether the backbone has embeddings of all its tokens.

    Example:
        A function that pairs each text with a random other one, and its test:

        >>> import numpy as np
        >>> from mirrorbench.plugin import PairMaker, Recipe
        >>> def random_pairs(texts, maker):
        ...     distance = int(maker.rng.integers(1, len(texts)))
        ...     return maker.pairs(texts, [*texts[distance:], *texts[:distance]])
        >>> recipe = Recipe(temperature=0.05, epochs=1, train_max_length=32, pooling="mean")
        >>> maker = PairMaker(recipe, np.random.default_rng(0), "[MASK]", "paper", augmentations={})
        >>> [text.text for text in random_pairs(["flu", "cold", "cough"], maker).right]
        ['cough', 'flu', 'cold']
    """

    recipe: Recipe
    rng: np.random.Generator
    mask_token: str
    protocol: str
    augmentations: Mapping[str, Augmentation]
    can_read: Callable[[Sequence[str]], Sequence[bool]] = lambda texts: [True] * len(texts)

    def augment(self, texts: Sequence[str], shortest: int = 30) -> list[str]:
        """Return texts after the recipe's text augmentations, applied in the order in which the recipe lists them.

        Texts that the backbone could not read afterwards are returned unchanged: words that become neighbours may form
        a token without an embedding.

        Args:
            texts: the texts.
            shortest: characters of the shortest text that ``span_mask`` changes under ``released``.
        """
        augmented = list(texts)
        for function, rate in functions_and_rates(self.recipe.augment, self.augmentations, "text"):
            context = AugmentationContext(self.rng, rate, self.mask_token, self.protocol, shortest)
            augmented = [function(text, context) for text in augmented]
        # Keep the text before augmentation where the backbone cannot read the one after it.
        result = []
        for text, changed, can_read in zip(texts, augmented, self.can_read(augmented), strict=True):
            result.append(changed if can_read else text)
        return result

    def pairs(
        self, left: Sequence[str], right: Sequence[str], groups: Sequence[Hashable] | None = None
    ) -> Pairs:
        """Return pairs of strings with augmented second views, and under ``sides=2`` with augmented first views, too.

        Args:
            left: strings of the first views.
            right: strings of the second views, in the same order.
            groups: group of each pair; by default each pair is its own group.
        """
        if self.recipe.sides == 2:
            left = self.augment(left)
        right = self.augment(right)
        return Pairs(
            [TextInput(text) for text in left], [TextInput(text) for text in right], groups
        )


PairFunction = Callable[[Sequence[str], PairMaker], Pairs]
"""``(texts, maker) -> Pairs``: makes the pairs of an epoch from the strings or lines of the corpus."""


def identical_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair every string with itself (paper 1, section 2.1)."""
    return maker.pairs(texts, texts)


def base_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return mean pooling over the last layer (paper 1, footnote 5: better than [CLS] for untuned models).

    Args:
        level: not used.
        architecture: not used.
        protocol: ``paper``, or ``released``, whose mean includes the padding.

    Example:
        >>> from mirrorbench.training.methods import base_preset
        >>> base_preset("sentence", "bert", "paper").pooling
        'mean'
    """
    pooling = "mean-padded" if protocol == "released" else "mean"
    return Recipe(temperature=1.0, epochs=1, train_max_length=64, pooling=pooling)


@dataclass(frozen=True, slots=True)
class Method:
    """A way to make an encoder from a backbone (``bert+NAME``), which a plugin registers with ``register_methods``.

    There are three kinds:

    - A method that tunes has a ``preset``, which returns the ``Recipe`` for the level of a task, and perhaps its own
      ``pairs``, a function ``(texts, maker) -> Pairs``. mirrorbench calls ``pairs`` at the start of each epoch with the
      lines of the corpus and a ``PairMaker``; by default each line is paired with itself. A ``TuningError`` from it
      fails the cells of this encoder.
    - With ``tunes=False`` only the recipe's readout is used: ``pooling``, ``layers``, ``prompt``, ``attention`` and
      ``normalize``.
    - With ``create`` (and ``tunes=False``) the method makes the encoder itself, and neither preset nor pairs are used.

    ``name`` must be the name under which the method is registered. A user's keys (``bert+NAME:lr=1e-5``) replace values
    of the recipe.

    Attributes:
        name: name after ``+`` in a spec, the same as in ``register``.
        preset: ``(level, architecture, protocol) -> Recipe`` with the paper's values: the level of a task (``word``,
            ``phrase``, ``sentence`` or ``wic``), the backbone's ``model_type``, and ``paper`` or ``released``. By
            default mean pooling over the last layer, for a method that does not tune.
        tunes: whether the weights change. A method that does not tune uses only pooling and layers of its recipe.
        label: name of the row in tables; ``{backbone}`` and ``{method}`` stand for the names of the backbone and the
            method.
        pairs: ``(texts, maker) -> Pairs``: makes the pairs of an epoch from the corpus. By default each string is
            paired with itself.
        levels: levels of tasks that use the recipe and corpus of another level: ``{"wic": "sentence"}`` for Mirror,
            which encodes the whole sentence for words in context.
        create: ``(spec, path, context) -> Encoder`` for a method without tuning and recipe, such as ``static``: makes
            the encoder from the directory of the backbone, and checks the keys of the spec.
        baseline: whether ``mirrorbench run --baselines`` has a row for it; such a method needs no labels and no
            settings.

    Example:
        Mirror-BERT's loss on neighbouring lines of the corpus:

        >>> from mirrorbench import Session, hookimpl
        >>> from mirrorbench.plugin import Method, Recipe, load_plugins
        >>> def preset(level, architecture, protocol):
        ...     rates = (("dropout", 0.1),)
        ...     return Recipe(temperature=0.04, epochs=1, train_max_length=50, pooling="mean", augment=rates)
        >>> def neighbours(texts, maker):
        ...     return maker.pairs(texts[:-1], texts[1:])
        >>> class NeighboursPlugin:
        ...     @hookimpl
        ...     def register_methods(self, register):
        ...         register("neighbours", Method("neighbours", preset, pairs=neighbours), "pairs of lines")
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add(NeighboursPlugin(), "neighbours")
        >>> spec = "tiny+neighbours:corpus=quick-sentences,corpus_size=40"
        >>> Session(plugins=plugins, device="cpu").load(spec).encode(["a cat"]).shape
        (1, 256)
    """

    name: str
    preset: Callable[[str, str, str], Recipe] = base_preset
    tunes: bool = True
    label: str = "{backbone} + {method}"
    pairs: PairFunction = identical_pairs
    levels: Mapping[str, str] = field(default_factory=dict)
    create: Callable[[EncoderSpec, Path, EncoderContext], Encoder] | None = None
    baseline: bool = False


def mirror_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return Mirror-BERT's recipe (paper 1, section 3, "Training Setup and Details", and appendix B).

    Word-in-context tasks have the sentence recipe, since Mirror encodes the whole sentence there (paper 2, Table 3).
    Under the protocol ``released``, the recipe is that of the authors' code.
    """
    has_sentence_recipe = level in ("sentence", "wic")
    # Appendix B: sentence-level BERT is tuned and tested with mean pooling, everything else with [CLS].
    pooling = "mean" if has_sentence_recipe and architecture == "bert" else "cls"
    masked_characters = {"word": 0, "phrase": 2}.get(level, 5)
    recipe = Recipe(
        temperature=0.2 if level == "word" else 0.04,
        epochs=1 if has_sentence_recipe else 2,
        train_max_length=50 if has_sentence_recipe else 25,
        pooling=pooling,
        augment=(("dropout", 0.1), ("span_mask", float(masked_characters))),
    )
    if protocol == "released":
        if pooling == "mean":
            pooling = "mean-padded"
        recipe = replace(recipe, loss="ntxent", drop_last=True, clean_corpus=False, pooling=pooling)
    return replace(recipe, **LOSS_PARAMETERS[protocol])


# mirrorwic: MirrorWiC (CoNLL 2021), contrastive tuning on words in identical, slightly corrupted contexts.

Span = tuple[int, int]
"""First character of a word, and the one after its last."""

# Values of the released code (get_mirrorwic_traindata.py).
RELEASED_LENGTHS = range(10, 149)
"""Lengths of sentences that are used, in characters."""
RELEASED_WORDS = 20
"""Number of words, from the first, among which the target is drawn."""
RELEASED_SHORTEST = 10
"""Characters of the shortest context that is masked."""

# Scripts that put no spaces between words: Thai and Lao, Burmese, Khmer, kana, Han.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_PIECE = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")

_MIRRORWIC_RATES = {
    "roberta": (0, 0.3),
    "xlm-roberta": (0, 0.3),
    "deberta": (1, 0.3),
    "deberta-v2": (1, 0.3),
}
"""Span mask and dropout rate by architecture."""


def mirrorwic_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return MirrorWiC's recipe (paper 2, section 4, "Fine-Tuning Details", and Table 13), the same at every level.

    The span mask, K characters on each side of the target, and the dropout rate are those of BERT (K = 10, 0.4),
    RoBERTa (0, 0.3) and DeBERTa (1, 0.3); other architectures have BERT's. ``released``: the authors' script always
    trains for 2 epochs with a dropout of 0.4 (``mirror_wic.sh`` never reads its fourth argument), with the positive in
    the denominator of the loss.
    """
    masked_characters, dropout = _MIRRORWIC_RATES.get(architecture, (10, 0.4))
    if protocol == "released":
        dropout = 0.4
    recipe = Recipe(
        temperature=0.04,
        epochs=1,
        train_max_length=50,
        pooling="target",
        layers="-4:",
        augment=(("dropout", dropout), ("span_mask", float(masked_characters))),
    )
    if protocol == "released":
        recipe = replace(recipe, epochs=2, loss="ntxent")
    return replace(recipe, **LOSS_PARAMETERS[protocol])


def word_spans(text: str) -> list[Span]:
    """Return the spans of a text's words that contain a letter, without the punctuation around them.

    Words are separated by spaces. In scripts without spaces two neighbouring characters count as a word, the most
    frequent length in Chinese and Japanese. (The released code uses a segmenter for each language.)
    """
    spans = []
    for match in _PIECE.finditer(text):
        positions = [i for i in range(*match.span()) if _belongs_to_word(text[i])]
        if any(text[i].isalpha() for i in positions):
            spans.append((positions[0], positions[-1] + 1))
    return spans


def _belongs_to_word(character: str) -> bool:
    """Return whether a character is a letter, a digit or a combining mark."""
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def words_in_context(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair a random word of each text with itself; text augmentations change the context of one view (section 3.1).

    The texts before and after the word are augmented separately. Texts without a word are excluded.

    ``released``: texts of fewer than 10 or more than 148 characters are also excluded, the word is one of the first 20,
    and a side of fewer than 10 characters is not changed. (The released code draws among a tokenizer's tokens,
    punctuation included, and once for all epochs; here among words, anew in each.)
    """
    released = maker.protocol == "released"
    targets: list[_Target] = []
    for text in texts:
        if released and len(text) not in RELEASED_LENGTHS:
            continue
        spans = word_spans(text)
        if released:
            spans = spans[:RELEASED_WORDS]
        if not spans:
            continue
        start, end = spans[int(maker.rng.integers(len(spans)))]
        targets.append(_Target(text, start, end))
    if maker.recipe.sides == 2:
        left = _with_augmented_contexts(targets, maker)
    else:
        left = [TextInput(target.text, ((target.start, target.end),)) for target in targets]
    right = _with_augmented_contexts(targets, maker)
    return Pairs(left, right)


class _Target(NamedTuple):
    """A word of a text."""

    text: str
    """The whole text."""
    start: int
    """Index of the word's first character."""
    end: int
    """Index of the character after the word's last."""


def _with_augmented_contexts(targets: Sequence[_Target], maker: PairMaker) -> list[TextInput]:
    """Return the texts with the parts before and after the target augmented, each with the target's new span."""
    contexts_before = [text[:start] for text, start, _ in targets]
    contexts_after = [text[end:] for text, _, end in targets]
    augmented_before = maker.augment(contexts_before, shortest=RELEASED_SHORTEST)
    augmented_after = maker.augment(contexts_after, shortest=RELEASED_SHORTEST)
    result = []
    for row, (text, start, end) in enumerate(targets):
        word = text[start:end]
        before = _joined(contexts_before[row], augmented_before[row], -1)
        after = _joined(contexts_after[row], augmented_after[row], 0)
        span = (len(before), len(before) + len(word))
        result.append(TextInput(before + word + after, (span,)))
    return result


def _joined(old: str, new: str, edge: int) -> str:
    """Return an augmented context with the right space between it and the word.

    There is a space if the old context had one there, or if the character next to the word changed.

    Args:
        old: the context before the augmentation.
        new: the context after it.
        edge: index of the character next to the word: -1 for the context before it, 0 for the one after it.
    """
    if new == old:
        return old
    new = new.strip()
    # No space where the old context had none, unless the character next to the word changed.
    had_no_space = bool(old) and not old[edge].isspace()
    if had_no_space and new and new[edge] == old[edge]:
        return new
    return f"{new} " if edge == -1 else f" {new}"


# pairs: supervised tuning on pairs of texts of equal meaning, with Mirror-BERT's loss and recipe. The two texts of a
# corpus line (`data.readers.line_parts`) are the views, so no text is masked; dropout remains, as in supervised SimCSE
# (Gao et al., EMNLP 2021, section 4).


def pairs_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return Mirror-BERT's recipe of the level without its span mask."""
    recipe = mirror_preset(level, architecture, protocol)
    return replace(recipe, augment=(("dropout", recipe.rate("dropout")), ("span_mask", 0.0)))


def text_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair the two texts of each line; pairs that share a text are in one group.

    Raises:
        TuningError: a line does not have two texts.
    """
    left: list[str] = []
    right: list[str] = []
    for text, fields in zip(texts, fields_of(texts), strict=True):
        if len(fields) != 2 or not all(fields):
            raise TuningError(
                f"the corpus line {shown(text)} is not a pair of texts",
                "pairs tunes on lines like text1||text2.",
            )
        left.append(fields[0])
        right.append(fields[1])
    return maker.pairs(left, right, _groups(left, right))


def _groups(left: Sequence[str], right: Sequence[str]) -> list[int]:
    """Return a number for each pair; pairs connected through shared texts have the same number."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # A graph with the distinct texts as nodes and the pairs as edges.
    node_of = {text: node for node, text in enumerate(dict.fromkeys([*left, *right]))}
    left_nodes = [node_of[text] for text in left]
    right_nodes = [node_of[text] for text in right]
    edges = [1] * len(left)
    graph = coo_array((edges, (left_nodes, right_nodes)), shape=(len(node_of), len(node_of)))
    _, component_of_node = connected_components(graph, directed=False)
    groups: list[int] = component_of_node[left_nodes].tolist()
    return groups


# sap: SapBERT's self-alignment (Liu et al., NAACL 2021), metric learning on the names of concepts. A corpus line is a
# pair of names of one concept, `id||name||other name` (the format of SapBERT's training files), or one name, `id||name`
# or `id<TAB>name`: then every two names of a concept make a pair, at most MOST_PAIRS a concept, as in SapBERT's paper.

MOST_PAIRS = 50
"""Most pairs of one concept (SapBERT: otherwise concepts with hundreds of names would dominate)."""


def sap_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return SapBERT's recipe (Liu et al. 2021, "Self-Alignment Pretraining for Biomedical Entity Representations").

    AdamW with 2e-5, batches of 256 name pairs, one epoch, names of at most 25 tokens, [CLS], and the model's own
    dropout, which is 0.1 in the BERT family (released code, ``train/pretrain.sh``). The same at every level; under
    ``released`` the corpus is not cleaned, and the loss has the released code's ``LOSS_PARAMETERS``.
    """
    recipe = Recipe(
        temperature=0.04,
        epochs=1,
        train_max_length=25,
        pooling="cls",
        batch_size=256,
        loss=MULTI_SIMILARITY,
        augment=(("dropout", 0.1),),
        clean_corpus=protocol == "paper",
    )
    return replace(recipe, **LOSS_PARAMETERS[protocol])


def name_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pair names that share an id; the id becomes the group of the pair.

    Lines with two names are pairs as they are, and come first. Then pairs are drawn from the names in lines with one
    name, for each id.

    Raises:
        TuningError: a line is not an id with one or two names, or no two names share an id.
    """
    ids: list[str] = []
    left: list[str] = []
    right: list[str] = []
    # The inner dictionaries keep distinct names in their order; their values mean nothing.
    names_by_id: dict[str, dict[str, None]] = {}
    for text, fields in zip(texts, fields_of(texts), strict=True):
        if len(fields) not in (2, 3) or not all(fields):
            raise TuningError(
                f"the corpus line {shown(text)} is not a name with an id",
                "sap tunes on lines like id||name||other name, id||name or id<TAB>name.",
            )
        if len(fields) == 3:
            ids.append(fields[0])
            left.append(fields[1])
            right.append(fields[2])
        else:
            names_by_id.setdefault(fields[0], {})[fields[1]] = None
    for id_, names in names_by_id.items():
        for first, second in _sampled_pairs(list(names), maker.rng):
            ids.append(id_)
            left.append(first)
            right.append(second)
    if not ids:
        raise TuningError(
            "no two names of the corpus share an id", "sap learns from names of the same concept."
        )
    return maker.pairs(left, right, ids)


def _sampled_pairs(names: Sequence[str], rng: np.random.Generator) -> list[tuple[str, str]]:
    """Return all pairs of names, or ``MOST_PAIRS`` of them drawn at random if there are more."""
    pairs = list(combinations(names, 2))
    if len(pairs) <= MOST_PAIRS:
        return pairs
    drawn = rng.choice(len(pairs), MOST_PAIRS, replace=False)
    return [pairs[i] for i in sorted(drawn)]


TWO_TEXT_FUNCTIONS: tuple[PairFunction, ...] = (text_pairs, name_pairs)
"""Pair functions that read two texts or names from a corpus line, and group the pairs; for others a line is a text."""


@hookimpl
def register_methods(register: Register) -> None:
    """Register the methods of this module."""
    register(
        "base",
        Method("base", base_preset, tunes=False, label="{backbone}"),
        "the backbone as it comes",
    )
    register(
        "mirror",
        Method("mirror", mirror_preset, label="{backbone} + Mirror", levels={"wic": "sentence"}),
        "Mirror-BERT: two views of each string, made by span masking and dropout",
    )
    register(
        "mirrorwic",
        Method(
            "mirrorwic",
            mirrorwic_preset,
            label="{backbone} + MirrorWiC",
            pairs=words_in_context,
            # Tuned on the same texts at every level.
            levels={"word": "wic", "phrase": "wic", "sentence": "wic"},
        ),
        "MirrorWiC: a word in its context against the same word in a corrupted one",
    )
    register(
        "pairs",
        Method(
            "pairs",
            pairs_preset,
            label="{backbone} + pairs",
            pairs=text_pairs,
            levels={"wic": "sentence"},
        ),
        "supervised: the two texts of each corpus line are the two views",
    )
    register(
        "sap",
        Method("sap", sap_preset, label="{backbone} + SAP", pairs=name_pairs),
        "SapBERT: names of one concept are drawn together, hard pairs mined in the batch",
    )
