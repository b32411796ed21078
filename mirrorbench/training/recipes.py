"""Recipes: the hyper-parameters of a tuning. The papers' values are presets of the methods.

Sources: "paper 1" is Mirror-BERT (EMNLP 2021), section 3 and Table 21; "paper 2" is MirrorWiC (CoNLL 2021), section 4
and Table 13; "released code" is what the authors' repositories do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import UsageError, unknown_name
from mirrorbench.core.specs import Value
from mirrorbench.models.adapters import check_installed
from mirrorbench.models.families import checked_attention
from mirrorbench.models.pooling import Pooling

if TYPE_CHECKING:
    from mirrorbench.training.augmentations import Augmentation

MULTI_SIMILARITY = "multi-similarity"
LOSS_PARAMETERS: dict[str, dict[str, Any]] = {
    "paper": {"alpha": 2.0, "beta": 50.0, "base": 0.5},
    "released": {"alpha": 1.0, "beta": 60.0, "base": 0.5},
}
"""The parameters of ``multi-similarity`` by protocol. ``released``: ``metric_learning.py`` of SapBERT and of MirrorWiC.
``paper``: the defaults of pytorch-metric-learning, with which that code computes the loss, since paper 1 (footnote 2)
names the loss without values, and it could not be verified that SapBERT's paper has any."""

STOPS = ("end", "auto")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The hyper-parameters of a tuning."""

    temperature: float
    """tau of Eq. 1."""
    epochs: int
    """Passes over the corpus."""
    train_max_length: int
    """Tokens kept of each string in tuning, special tokens included."""
    pooling: str
    """How vectors are read, in tuning and afterwards: see ``mirrorbench.models.pooling``."""
    layers: str = "-1:"
    """Which layers are averaged, as a Python slice over (embeddings, layer 1, ..., layer n)."""
    lr: float = 2e-5
    """Learning rate of AdamW, constant (paper 1, section 3)."""
    batch_size: int = 200
    """Distinct strings in a batch; the loss sees twice as many vectors (paper 1, section 3)."""
    weight_decay: float = 0.01
    """AdamW's decoupled weight decay (released code; the papers do not state one)."""
    loss: str = "infonce"
    """``infonce``: Eq. 1, negatives only in the denominator; ``ntxent``: released code, positive included;
    ``multi-similarity``: with online mining of hard pairs (paper 1, footnote 2), which has no temperature;
    ``in-batch``: SimCSE's, the second views alone as negatives of the first; or one that a plugin registered."""
    augment: tuple[tuple[str, float], ...] = ()
    """Augmentations and their rates, sorted by name (``dropout``, ``span_mask`` ...)."""
    drop_last: bool = False
    """Whether an incomplete last batch is skipped (released code) or the strings are spread evenly."""
    clean_corpus: bool = True
    """Whether lines are stripped and repeated strings removed (paper 1, section 2.1: "non-duplicated strings"); the
    released code takes the lines as they are."""
    sides: int = 1
    """How many of the two views the text and token augmentations change: 1 (x-bar alone, paper 1, section 2.2) or 2,
    each with its own draws."""
    alpha: float = LOSS_PARAMETERS["paper"]["alpha"]
    """Weight of positives in ``multi-similarity``; no other loss has this and the next two."""
    beta: float = LOSS_PARAMETERS["paper"]["beta"]
    """Weight of negatives."""
    base: float = LOSS_PARAMETERS["paper"]["base"]
    """Cosine from which a positive is near enough and a negative too near."""
    lora: int = 0
    """Rank of the matrices that learn in place of the model's own (``models.adapters``); 0: all weights learn."""
    gradient_checkpointing: bool = False
    """Whether a pass keeps what enters each layer alone, and computes the rest again (``models.checkpointing``)."""
    stop: str = "end"
    """``end``: the state after the last step is kept; ``auto``: the best one by held-out strings, without labels
    (``mirrorbench.training.progress``)."""
    attention: str = ""
    """``bidirectional`` lets each token of a causal model see the whole text; empty for the model's own attention."""
    prompt: str = ""
    """A template around each text, in tuning and afterwards, or the name of one: ``mirrorbench.models.pooling``."""
    normalize: bool = False
    """Whether vectors are scaled to length 1, which changes no cosine."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object with every field that the loss uses, and of the others those that are set."""
        unused = [] if self.loss == MULTI_SIMILARITY else [*LOSS_PARAMETERS["paper"]]
        # Identities of before these keys stay as they are.
        later = (("stop", "end"), ("prompt", ""), ("attention", ""), ("lora", 0), ("gradient_checkpointing", False),
                 ("normalize", False))  # fmt: skip
        unused += [key for key, before in later if getattr(self, key) == before]
        settings = {**asdict(self), "augment": dict(self.augment)}
        return {key: value for key, value in settings.items() if key not in unused}

    def readout(self, max_length: int) -> Pooling:
        """How texts of at most so many tokens are read."""
        return Pooling(self.pooling, self.layers, max_length, self.prompt, self.normalize)

    def rate(self, augmentation: str) -> float:
        """The rate of one augmentation, 0 where the recipe does not use it."""
        return dict(self.augment).get(augmentation, 0.0)


_TYPES = {field.name: str(field.type) for field in fields(Recipe) if field.name != "augment"}
_LIMITS: dict[str, tuple[float, float]] = {
    "temperature": (1e-4, 100), "epochs": (1, 10_000), "train_max_length": (3, 100_000), "lr": (0, 1),
    "batch_size": (2, 1_000_000), "weight_decay": (0, 10), "sides": (1, 2), "alpha": (1e-3, 1e4), "beta": (1e-3, 1e4),
    "base": (-1, 1), "lora": (0, 10_000),
}  # fmt: skip
RECIPE_KEYS = tuple(_TYPES)
# Spec keys that are no part of a recipe: the pooling's length, and where the strings come from.
OUTSIDE_KEYS = ("max_length", "corpus", "corpus_size", "corpus_sample")


def override(recipe: Recipe, params: dict[str, Value], augmentations: Mapping[str, Augmentation]) -> Recipe:
    """A recipe with the values that a spec sets; keys in ``OUTSIDE_KEYS`` are ignored.

    ``controlled_dropout`` sets the rates of the same layers as ``dropout`` and so replaces it. An unknown key is an
    ``UnknownNameError``, a wrong or contradictory value a ``UsageError``.
    """
    changes: dict[str, Any] = {}
    rates = dict(recipe.augment)
    for key, value in params.items():
        if key in OUTSIDE_KEYS:
            continue
        if key in augmentations:
            rates[key] = _number(key, value)
        elif key in _TYPES:
            changes[key] = _coerce(key, value)
        else:
            raise unknown_name("encoder spec key", key, [*_TYPES, *augmentations, *OUTSIDE_KEYS])
    if rates.get("controlled_dropout") and "dropout" not in params:
        rates["dropout"] = 0.0
    changed = replace(recipe, **changes, augment=tuple(sorted(rates.items())))
    _check(changed)
    for key in sorted(params.keys() & LOSS_PARAMETERS["paper"].keys()):
        if changed.loss != MULTI_SIMILARITY:
            problem = f"{key}={params[key]} belongs to the loss {MULTI_SIMILARITY}, and the loss is {changed.loss}"
            raise UsageError(problem, f"Add loss={MULTI_SIMILARITY}, or leave {key} out.")
    for name, rate in changed.augment:
        augmentations[name].check(rate)
    return changed


def _coerce(key: str, value: Value) -> Value:
    want = _TYPES[key]
    if want == "float":
        return _number(key, value)
    if want == "str" and not isinstance(value, bool):
        return str(value)
    if type(value).__name__ != want:
        raise UsageError(f"{key}={value} is not of type {want}")
    return value


def _number(key: str, value: Value) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{key}={value} is not a number")
    return float(value)


def _check(recipe: Recipe) -> None:
    checked_attention(recipe.attention)
    for name, (low, high) in _LIMITS.items():
        value = getattr(recipe, name)
        if not low <= value <= high:
            raise UsageError(f"{name}={value} is out of range", f"It must lie between {low:g} and {high:g}.")
    if recipe.lora:
        check_installed()
    if recipe.stop not in STOPS:
        raise unknown_name("value of stop", recipe.stop, list(STOPS))
    if recipe.rate("dropout") and recipe.rate("controlled_dropout"):
        raise UsageError("dropout and controlled_dropout set the same layers", "Set one of them, or one of them to 0.")
