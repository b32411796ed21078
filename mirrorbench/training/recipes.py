"""Recipes: the hyper-parameters of a tuning. The papers' values are presets of the methods.

Sources: "paper 1" is Mirror-BERT (EMNLP 2021), section 3 and Table 21; "paper 2" is MirrorWiC (CoNLL 2021), section 4
and Table 13; "released code" is the authors' repositories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.specs import Value
from mirrorbench.models.adapters import check_installed
from mirrorbench.models.families import BIDIRECTIONAL
from mirrorbench.models.pooling import Pooling

if TYPE_CHECKING:
    from mirrorbench.training.augmentations import Augmentation

MULTI_SIMILARITY = "multi-similarity"
LOSS_PARAMETERS: dict[str, dict[str, Any]] = {
    "paper": {"alpha": 2.0, "beta": 50.0, "base": 0.5},
    "released": {"alpha": 1.0, "beta": 60.0, "base": 0.5},
}
"""Parameters of ``multi-similarity`` by protocol.

``released``: ``metric_learning.py`` of SapBERT and of MirrorWiC. ``paper``: the defaults of pytorch-metric-learning, the
library of that code, since paper 1 (footnote 2) names the loss without values, and values in SapBERT's paper could not
be verified.
"""

STOPS = ("end", "auto")
"""Values of ``stop``."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The hyper-parameters of a tuning, and how the tuned encoder reads texts.

    The preset of a ``Method`` returns one with the defaults of the method. mirrorbench then sets the fields that an
    encoder spec names (``bert+mirror:lr=1e-5,span_mask=0``: every field but ``augment`` is a key, and so is the name of
    every augmentation) and checks the values, which making a ``Recipe`` does not. Losses and pair functions receive the
    result (``Objective.recipe``, ``PairMaker.recipe``). Required are ``temperature``, ``epochs``, ``train_max_length``
    (in tokens) and ``pooling`` (the name of a registered pooling: ``mean``, ``cls``, ``last``, ``target`` ...). A
    plugin cannot add fields: a parameter of its own is the rate of an augmentation, or a constant.

    Attributes:
        temperature: tau of Eq. 1 of both papers.
        epochs: passes over the corpus.
        train_max_length: tokens kept of each string in tuning, special tokens included.
        pooling: name of the registered pooling, in tuning and afterwards; ``mirrorbench list poolings`` shows all. The
            vector is that of the target word if the name begins with ``target``.
        layers: layers that are averaged, as a Python slice over (embeddings, layer 1, ..., layer n).
        lr: learning rate of AdamW, constant (paper 1, section 3).
        batch_size: strings in a batch; the loss sees twice as many vectors (paper 1, section 3).
        weight_decay: AdamW's decoupled weight decay (released code; the papers do not state one).
        loss: ``infonce``: Eq. 1, whose denominator holds only negatives; ``ntxent``: released code, with the positive
            in the denominator; ``multi-similarity``: with online mining of hard pairs, without temperature (paper 1,
            footnote 2); ``in-batch``: SimCSE's, in which only second views are negatives; or a plugin's loss.
        augment: augmentations and their rates, sorted by name (``dropout``, ``span_mask`` ...).
        drop_last: whether an incomplete last batch is skipped (released code); otherwise the strings are spread evenly.
        clean_corpus: whether lines are stripped and repeated strings removed (paper 1, section 2.1: "non-duplicated
            strings"); the released code takes the lines as they are.
        sides: number of views that text and token augmentations change: 1 (only x-bar; paper 1, section 2.2) or 2, with
            independent random numbers.
        alpha: weight of positives in ``multi-similarity``. Other losses use neither this nor the next two.
        beta: weight of negatives in ``multi-similarity``.
        base: cosine in ``multi-similarity`` from which a positive is near enough and a negative too near.
        lora: rank of LoRA's matrices, which learn instead of the model's weights; 0: all weights learn.
        gradient_checkpointing: whether a pass keeps only the inputs of layers, and computes the rest again: less
            memory, more time.
        stop: ``end``: the state after the last step is kept; ``auto``: the best one by held-out strings, without
            labels.
        attention: ``bidirectional`` lets each token of a causal model see the whole text; empty for the attention of
            the model.
        prompt: template around each text, in tuning and afterwards, with ``{text}`` where the text stands and perhaps
            ``{mask}`` for the mask token; a text that precedes each text; or the name of a template: ``eol``, ``echo``
            or one of the model's files. Objectives and pair functions get it as a template with ``{text}``, or empty
            for none.
        normalize: whether vectors are scaled to length 1, which changes no cosine.

    Example:
        A preset that trains longer on words:

        >>> from dataclasses import replace
        >>> from mirrorbench.plugin import Recipe
        >>> def preset(level, architecture, protocol):
        ...     recipe = Recipe(temperature=0.05, epochs=1, train_max_length=32, pooling="cls")
        ...     recipe = replace(recipe, augment=(("dropout", 0.1), ("word_shuffle", 3.0)))
        ...     return replace(recipe, epochs=3) if level == "word" else recipe
        >>> recipe = preset("word", "bert", "paper")
        >>> recipe.epochs, recipe.rate("dropout"), recipe.rate("span_mask")
        (3, 0.1, 0.0)
    """

    temperature: float
    epochs: int
    train_max_length: int
    pooling: str
    layers: str = "-1:"
    lr: float = 2e-5
    batch_size: int = 200
    weight_decay: float = 0.01
    loss: str = "infonce"
    augment: tuple[tuple[str, float], ...] = ()
    drop_last: bool = False
    clean_corpus: bool = True
    sides: int = 1
    alpha: float = LOSS_PARAMETERS["paper"]["alpha"]
    beta: float = LOSS_PARAMETERS["paper"]["beta"]
    base: float = LOSS_PARAMETERS["paper"]["base"]
    lora: int = 0
    gradient_checkpointing: bool = False
    stop: str = "end"
    attention: str = ""
    prompt: str = ""
    normalize: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of the fields.

        It lacks the parameters of ``multi-similarity`` under other losses, and the fields in ``_LATER_FIELDS`` with
        their defaults.
        """
        settings = {**asdict(self), "augment": dict(self.augment)}
        if self.loss != MULTI_SIMILARITY:
            for key in LOSS_PARAMETERS["paper"]:
                del settings[key]
        for key, default in _LATER_FIELDS.items():
            if settings[key] == default:
                del settings[key]
        return settings

    def readout(self, max_length: int) -> Pooling:
        """Return how texts become vectors, for ``pool`` and ``Transformer.forward``.

        Args:
            max_length: number of tokens that are read of each text, special tokens included, those of a prompt
                excluded.

        Raises:
            UsageError: a setting is not valid, or two cannot be combined.
        """
        return Pooling(self.pooling, self.layers, max_length, self.prompt, self.normalize)

    def rate(self, augmentation: str) -> float:
        """Return the rate of one augmentation, 0 if the recipe does not use it."""
        return dict(self.augment).get(augmentation, 0.0)


_LATER_FIELDS: dict[str, Any] = {
    "stop": "end",
    "prompt": "",
    "attention": "",
    "lora": 0,
    "gradient_checkpointing": False,
    "normalize": False,
}
"""Fields added after the first identities were stored, with their defaults; leaving them out keeps those valid."""
_TYPES = {field.name: str(field.type) for field in fields(Recipe) if field.name != "augment"}
"""Name of the type of each field that a spec sets under its own name."""
_LIMITS: dict[str, tuple[float, float]] = {
    "temperature": (1e-4, 100),
    "epochs": (1, 10_000),
    "train_max_length": (3, 100_000),
    "lr": (0, 1),
    "batch_size": (2, 1_000_000),
    "weight_decay": (0, 10),
    "sides": (1, 2),
    "alpha": (1e-3, 1e4),
    "beta": (1e-3, 1e4),
    "base": (-1, 1),
    "lora": (0, 10_000),
}
"""Smallest and largest value of numeric fields."""
RECIPE_KEYS = tuple(_TYPES)
"""Spec keys of a recipe, without those of augmentations."""
OUTSIDE_KEYS = ("max_length", "corpus", "corpus_size", "corpus_sample")
"""Spec keys that are not part of a recipe: the pooling's length and the source of the strings."""


def override(
    recipe: Recipe, params: dict[str, Value], augmentations: Mapping[str, Augmentation]
) -> Recipe:
    """Return the preset of a method with the values that a spec sets.

    ``controlled_dropout`` turns ``dropout`` off unless the spec sets both, since it sets the rates of the same layers.

    Args:
        recipe: the preset.
        params: keys and values of the spec; keys in ``OUTSIDE_KEYS`` are ignored.
        augmentations: registered augmentations by name, whose names are keys, too.

    Raises:
        UnknownNameError: a key is unknown.
        UsageError: a value is wrong, or contradicts another one.
    """
    changes: dict[str, Any] = {}
    rates = dict(recipe.augment)
    for key, value in params.items():
        if key in augmentations:
            rates[key] = _number(key, value)
        elif key in _TYPES:
            changes[key] = _typed(key, value)
        elif key not in OUTSIDE_KEYS:
            known_keys = [*_TYPES, *augmentations, *OUTSIDE_KEYS]
            raise unknown_name("encoder spec key", key, known_keys)
    if rates.get("controlled_dropout") and "dropout" not in params:
        rates["dropout"] = 0.0
    changed = replace(recipe, **changes, augment=tuple(sorted(rates.items())))
    _check(changed)
    # Refuse parameters of the multi-similarity loss if it is not used; they have the same names in each protocol.
    for key in sorted(params.keys() & LOSS_PARAMETERS["paper"].keys()):
        if changed.loss != MULTI_SIMILARITY:
            raise UsageError(
                f"{key}={params[key]} belongs to the loss {MULTI_SIMILARITY}, and the loss is {changed.loss}",
                f"Add loss={MULTI_SIMILARITY}, or leave {key} out.",
            )
    for name, rate in changed.augment:
        augmentations[name].check(rate)
    return changed


def _typed(key: str, value: Value) -> Value:
    """Return a value in the type of its field, or raise a ``UsageError`` if it has another type."""
    type_ = _TYPES[key]
    if type_ == "float":
        return _number(key, value)
    if type_ == "str" and not isinstance(value, bool):
        return str(value)
    if type(value).__name__ != type_:
        raise UsageError(f"{key}={value} is not of type {type_}")
    return value


def _number(key: str, value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{key}={value} is not a number")
    return float(value)


def _check(recipe: Recipe) -> None:
    """Raise a ``UsageError`` for the first wrong value, or if LoRA is used and its package is not installed."""
    if recipe.attention not in ("", BIDIRECTIONAL):
        raise UsageError(
            f"attention={recipe.attention} is unknown",
            f"Write attention={BIDIRECTIONAL}, or leave it out.",
        )
    for name, (low, high) in _LIMITS.items():
        value = getattr(recipe, name)
        if not low <= value <= high:
            raise UsageError(
                f"{name}={value} is out of range", f"It must lie between {low:g} and {high:g}."
            )
    if recipe.lora:
        check_installed()  # the package peft
    if recipe.stop not in STOPS:
        raise unknown_name("value of stop", recipe.stop, list(STOPS))
    if recipe.rate("dropout") and recipe.rate("controlled_dropout"):
        raise UsageError(
            "dropout and controlled_dropout set the same layers",
            "Set only one of them, or set the other to 0.",
        )
