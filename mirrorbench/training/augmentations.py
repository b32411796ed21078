"""Augmentations, which make two different views of one string (Mirror-BERT, sections 2.2 and 4.4, footnote 13).

A *text* augmentation rewrites a string, a *token* augmentation its token ids; they change the second view of each pair,
and under ``sides=2`` the first view, too. A *model* augmentation makes the network noisy, so that two passes over one
text differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mirrorbench.core.errors import PluginError, TuningError, UsageError
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.quoting import shown
from mirrorbench.models.families import set_dropout_rates
from mirrorbench.training.drophead import Drophead

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class AugmentationContext:
    """Random numbers, settings and special tokens for an augmentation of texts or tokens, its second argument.

    mirrorbench makes one for each augmentation of a tuning. A function registered with ``on="text"`` returns the text
    that it gets after the change; it uses ``rng``, ``rate`` (the value of its key in the encoder spec, above 0),
    ``mask_token`` (a text, empty if there is none), ``protocol`` (``paper`` or ``released``) and ``shortest``. One with
    ``on="tokens"`` changes a list of token ids, special ones included, and also uses ``mask_id`` and ``special_ids``.
    All random numbers must come from ``rng``, otherwise a tuning cannot be repeated.

    Attributes:
        rng: the tuning's generator, the only permitted source of randomness.
        rate: the value in the recipe, above 0: a probability, or a number of characters or places.
        mask_token: the backbone's mask token as text; empty if it has none.
        protocol: ``paper`` or ``released``.
        shortest: characters of the shortest string that is changed under ``released`` (Mirror-BERT's code: 30).
        mask_id: id of the mask token, for token augmentations; ``None`` if the backbone has none.
        special_ids: ids of the tokenizer's special tokens, for token augmentations.

    Example:
        A text augmentation, and its test:

        >>> import numpy as np
        >>> from mirrorbench.plugin import AugmentationContext
        >>> def drop_words(text, context):
        ...     words = text.split()
        ...     draws = context.rng.random(len(words))
        ...     kept = [word for word, draw in zip(words, draws) if draw >= context.rate]
        ...     return " ".join(kept) or text
        >>> rng = np.random.default_rng(0)
        >>> context = AugmentationContext(rng, rate=0.5, mask_token="[MASK]", protocol="paper")
        >>> drop_words("one two three four", context)
        'one'
    """

    rng: np.random.Generator
    rate: float
    mask_token: str
    protocol: str
    shortest: int = 30
    mask_id: int | None = None
    special_ids: frozenset[int] = frozenset()


class ModelAugmentation(Protocol):
    """The interface of an augmentation that changes the model during one tuning, such as noise or dropout.

    A plugin registers an object with these members by ``register_augmentations`` with ``on="model"``; it need not be a
    subclass. ``configure`` and ``attach`` are required, ``packs`` is optional. For each tuning whose recipe has the
    augmentation, mirrorbench calls ``configure`` before it builds the model and ``attach`` before the first step.

    Attributes:
        packs: whether it works on packed rows of several texts, in several threads. It then must not tell texts apart
            by the first axis of a tensor, and must draw by ``torch.nn.functional.dropout`` alone. Without this
            attribute, or if it is false, texts are padded, which is slower.

    Example:
        Gaussian noise on the embeddings, removed after the tuning:

        >>> import torch
        >>> from mirrorbench import Session, hookimpl
        >>> from mirrorbench.plugin import load_plugins
        >>> class EmbeddingNoise:
        ...     packs = False
        ...     def configure(self, config, rate):
        ...         pass
        ...     def attach(self, model, rate):
        ...         if rate == 0:
        ...             return None
        ...         def add_noise(module, inputs, output):
        ...             return output + rate * torch.randn_like(output) if module.training else output
        ...         return model.get_input_embeddings().register_forward_hook(add_noise).remove
        >>> class NoisePlugin:
        ...     @hookimpl
        ...     def register_augmentations(self, register):
        ...         register("embedding_noise", EmbeddingNoise(), on="model")
        >>> plugins = load_plugins(discover=False)
        >>> plugins.add(NoisePlugin(), "noise")
        >>> spec = "tiny+mirror:embedding_noise=0.1,dropout=0,corpus=quick-sentences,corpus_size=40"
        >>> Session(plugins=plugins, device="cpu").load(spec).encode(["a cat"]).shape
        (1, 256)
    """

    packs: bool

    def configure(self, config: Any, rate: float) -> None:
        """Change the configuration before the model is built.

        Args:
            config: the model's ``PretrainedConfig`` of transformers.
            rate: the value of the augmentation's key in the recipe; may be 0.
        """

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Change or check the model before the tuning.

        Args:
            model: the model of transformers that is tuned, a ``torch.nn.Module``.
            rate: the value of the augmentation's key in the recipe; may be 0.

        Returns:
            A function that undoes the change, so that no hook remains in the model that is evaluated and saved;
            ``None`` if nothing has to be undone.

        Raises:
            TuningError: the augmentation cannot be applied to this model.
        """


_INPUTS = ("text", "tokens", "model")
TextFunction = Callable[[str, AugmentationContext], str]
TokenFunction = Callable[[list[int], AugmentationContext], list[int]]


@dataclass(frozen=True, slots=True)
class Augmentation:
    """A registered augmentation: what ``register_augmentations`` makes of its arguments.

    Raises:
        PluginError: ``on`` is not one of ``text``, ``tokens`` and ``model``.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.augmentations import Augmentation, AugmentationContext
        >>> augmentation = Augmentation("upper", lambda text, context: text.upper())
        >>> context = AugmentationContext(np.random.default_rng(0), 1.0, "[MASK]", "paper")
        >>> augmentation.apply("a text", context)
        'A TEXT'
    """

    name: str
    """Key of its rate in a spec."""
    function: TextFunction | TokenFunction | ModelAugmentation
    """``(text, context) -> text`` for ``on="text"``; ``(ids, context) -> ids`` for ``on="tokens"``, where the number of
    ids may not change under the pooling ``target``; a ``ModelAugmentation`` for ``on="model"``."""
    on: str = "text"
    """``text``, ``tokens`` or ``model``."""
    probability: bool = False
    """Whether the rate is a probability, which must be below 1."""

    def __post_init__(self) -> None:
        if self.on not in _INPUTS:
            raise PluginError(
                f"augmentation {self.name!r}: on={self.on!r}",
                f"It must be one of {', '.join(_INPUTS)}.",
            )

    def apply(self, value: Any, context: AugmentationContext) -> Any:
        """Return a text or token ids after the augmentation.

        Raises:
            PluginError: the function returned something else.
        """
        changed = self.function(value, context)  # type: ignore[operator]
        if self.on == "text":
            expected = "a text"
            is_valid = isinstance(changed, str)
        else:
            expected = "a list of token ids"
            is_valid = _are_token_ids(changed)
        if not is_valid:
            function = f"the augmentation {self.name!r}{defined_at(self.function)}"
            raise PluginError(
                f"{function} returned {shown(repr(changed))}, not {expected}",
                "Let its function return what it made.",
            )
        return changed

    def check(self, rate: float) -> None:
        """Raise a ``UsageError`` for a negative rate, or a probability of 1 or more."""
        if rate < 0 or (self.probability and rate >= 1):
            limits = "at least 0 and below 1" if self.probability else "at least 0"
            raise UsageError(f"{self.name}={rate:g} is out of range", f"It must be {limits}.")


def _are_token_ids(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(number, Integral) for number in value)


def functions_and_rates(
    rates: Sequence[tuple[str, float]], registered: Mapping[str, Augmentation], on: str
) -> list[tuple[Any, float]]:
    """Return the functions and rates of the augmentations of one kind, in the order of ``rates``.

    Text and token augmentations of rate 0 are left out. Model augmentations of rate 0 come first, so that ``dropout=0``
    does not undo ``controlled_dropout``.

    Args:
        rates: names and rates, as in ``Recipe.augment``.
        registered: augmentations by name.
        on: the kind: ``text``, ``tokens`` or ``model``.

    Returns:
        For ``text`` and ``tokens``, ``Augmentation.apply`` and the rate of each; for ``model``, the
        ``ModelAugmentation`` and the rate.
    """
    of_rate_zero: list[tuple[Any, float]] = []
    in_use: list[tuple[Any, float]] = []
    for name, rate in rates:
        augmentation = registered[name]
        if augmentation.on != on:
            continue
        function = augmentation.function if on == "model" else augmentation.apply
        if rate > 0:
            in_use.append((function, rate))
        else:
            of_rate_zero.append((function, rate))
    return [*of_rate_zero, *in_use] if on == "model" else in_use


def _whole_number(context: AugmentationContext, name: str, unit: str) -> int:
    """Return the rate of an augmentation as a whole number of ``unit``; raise a ``UsageError`` if it is not one."""
    number = int(context.rate)
    if number != context.rate:
        raise UsageError(f"{name}={context.rate:g} is not a whole number of {unit}")
    return number


def span_mask(text: str, context: AugmentationContext) -> str:
    """Replace k = ``context.rate`` consecutive characters by the mask token, with spaces around it (paper 1, Figure 2).

    Strings of at most k characters are not changed. Under ``paper`` every position is equally likely. ``released``
    differs in four ways: the mask is the literal ``[MASK]`` for every tokenizer; strings of fewer than
    ``context.shortest`` characters are not changed; the last position is never drawn; and the first occurrence of the
    drawn characters is replaced.

    Raises:
        UsageError: the rate is not a whole number.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.augmentations import AugmentationContext, span_mask
        >>> context = AugmentationContext(np.random.default_rng(0), 5, "[MASK]", "paper")
        >>> span_mask("The cat sat on the mat.", context)
        'The cat sat on t [MASK] t.'
    """
    k = _whole_number(context, "span_mask", "characters")
    if len(text) <= k:
        return text
    if context.protocol == "released":
        if len(text) < context.shortest:
            return text
        drawn_start = int(context.rng.integers(len(text) - k))
        start = text.index(text[drawn_start : drawn_start + k])
        token = "[MASK]"
    else:
        start = int(context.rng.integers(len(text) - k + 1))
        token = context.mask_token
    return f"{text[:start]} {token} {text[start + k :]}".strip()


def word_shuffle(text: str, context: AugmentationContext) -> str:
    """Reorder the words, separated by spaces, at random; none moves further than k = ``context.rate`` places.

    Paper 1 (footnote 13) does not define its reordering. This is the word noise of Lample et al. (2018, "Unsupervised
    Machine Translation Using Monolingual Corpora Only", section 2.3): the words are sorted by their position plus a
    number drawn uniformly from [0, k + 1).

    Raises:
        UsageError: the rate is not a whole number.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.augmentations import AugmentationContext, word_shuffle
        >>> context = AugmentationContext(np.random.default_rng(0), 2, "[MASK]", "paper")
        >>> word_shuffle("one two three four five", context)
        'two one three four five'
    """
    k = _whole_number(context, "word_shuffle", "places")
    words = text.split()
    positions = np.arange(len(words))
    noise = context.rng.random(len(words)) * (k + 1)
    order = np.argsort(positions + noise, kind="stable")
    return " ".join(words[index] for index in order)


def token_mask(ids: list[int], context: AugmentationContext) -> list[int]:
    """Replace each token except special ones by the mask token, with probability ``context.rate`` (footnote 13).

    If all tokens of the text would be replaced, none is.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.augmentations import AugmentationContext, token_mask
        >>> context = AugmentationContext(
        ...     np.random.default_rng(0), 0.5, "[MASK]", "paper", mask_id=103, special_ids=frozenset({101, 102})
        ... )
        >>> token_mask([101, 7, 8, 9, 102], context)
        [101, 7, 103, 103, 102]
    """
    positions = [i for i, token in enumerate(ids) if token not in context.special_ids]
    draws = context.rng.random(len(positions))
    masked_positions = [i for i, draw in zip(positions, draws, strict=True) if draw < context.rate]
    if len(masked_positions) == len(positions):
        return ids
    assert (
        context.mask_id is not None
    )  # a tuning that masks is refused for a backbone without a mask token
    masked = list(ids)
    for i in masked_positions:
        masked[i] = context.mask_id
    return masked


def word_mask(text: str, context: AugmentationContext) -> str:
    """Replace each word, separated by spaces, by one mask token with probability ``context.rate`` (footnote 13).

    If all words would be replaced, none is; single words therefore never change.

    Example:
        >>> import numpy as np
        >>> from mirrorbench.training.augmentations import AugmentationContext, word_mask
        >>> context = AugmentationContext(np.random.default_rng(0), 0.3, "[MASK]", "paper")
        >>> word_mask("one two three four", context)
        'one [MASK] [MASK] [MASK]'
    """
    words = text.split()
    is_masked = context.rng.random(len(words)) < context.rate
    if is_masked.all():
        return text
    for i in np.flatnonzero(is_masked):
        words[i] = context.mask_token
    return " ".join(words)


class Dropout:
    """Sets one rate in every dropout of the model: embeddings, attention, hidden states (paper 1, section 2.2)."""

    packs = True

    def configure(self, config: Any, rate: float) -> None:
        """Set every dropout rate of the configuration, since ModernBERT builds no dropout module for a rate of 0."""
        set_dropout_rates(config, rate)

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rate of every dropout module; return ``None``, since this is not undone.

        Raises:
            TuningError: the rate is above 0 and the model has no dropout, or it has dropout whose rate cannot be set.
        """
        from torch.nn.modules.dropout import _DropoutNd

        # A model without dropout modules may still drop: newer ones read the rate from their configuration.
        if rate and not _contains_torch_dropout(model) and not _passes_differ(model):
            raise TuningError(
                f"{type(model).__name__} has no dropout, so dropout={rate:g} cannot be applied",
                "Write dropout=0 and another augmentation: word_shuffle=3.",
            )
        for name, module in model.named_modules():
            if isinstance(module, _DropoutNd):
                module.p = float(rate)
                continue
            # A class other than torch's (older DeBERTa) would keep its rate. One that contains torch's (SqueezeBERT) is
            # fine: this loop sets the inner module.
            class_name = type(module).__name__
            is_dropout_by_name = "dropout" in class_name.lower()
            if is_dropout_by_name and not _contains_torch_dropout(module):
                raise TuningError(
                    f"{type(model).__name__} has a dropout of its own kind at {name} ({class_name}); "
                    f"its rate cannot be set to {rate:g}"
                )
        return None


def _contains_torch_dropout(model: Any) -> bool:
    from torch.nn.modules.dropout import _DropoutNd

    return any(isinstance(module, _DropoutNd) for module in model.modules())


def _passes_differ(model: Any) -> bool:
    """Return whether two passes over the same tokens in training mode differ, as they do if the model drops anything.

    Without a configuration, return false. Otherwise the model is left in training mode.
    """
    import torch

    if not hasattr(model, "config"):
        return False
    device = next(model.parameters()).device
    ids = torch.arange(1, 9, device=device)[None]
    # The weights of a frozen backbone are in half precision, and need autocast.
    half_precisions = {weight.dtype for weight in model.parameters()} - {torch.float32}
    half_precision = half_precisions.pop() if half_precisions else None
    with (
        torch.no_grad(),
        torch.random.fork_rng(),
        torch.autocast(device.type, half_precision, enabled=half_precision is not None),
    ):
        model.train()
        first = model(input_ids=ids).last_hidden_state
        second = model(input_ids=ids).last_hidden_state
    return not torch.equal(first, second)


class ControlledDropout(Dropout):
    """Dropout with the same masks for both views of a pair (paper 1, section 4.4, Table 8 and Figure 6).

    It keeps dropout's regularisation without its augmentation: for identical strings f(x) = f(x-bar), in training mode.
    Masks are drawn for the first views, the first half of a micro-batch, and used again for the second half. To work
    with the layers, functions and fused attention of all architectures, it replaces functions of torch.
    """

    packs = False

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rates, and share the masks in this thread until the returned function is called.

        Errors are those of ``Dropout.attach``; ``None`` is returned for a rate of 0.
        """
        if not rate:
            return None
        from torch.nn import functional as F  # noqa: N812  (torch's own convention)

        from mirrorbench.models.batching import ReplacedFunctions

        super().attach(model, rate)
        replacements: dict[Callable[..., Any], Callable[..., Any]] = {
            F.dropout: _paired_dropout,
            F.scaled_dot_product_attention: _paired_attention,
        }
        stack = ExitStack()
        stack.enter_context(ReplacedFunctions(replacements))
        return stack.close


def _paired_dropout(
    x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Compute torch's ``dropout`` with the same mask for both halves of the first axis."""
    from torch.nn import functional as F  # noqa: N812

    # States shared by all rows (DeBERTa's relative positions) have no batch axis, and one mask already.
    if not training or p == 0 or x.dim() < 3 or len(x) % 2:
        return F.dropout(x, p, training, inplace)
    n_pairs = len(x) // 2
    mask = F.dropout(x.new_ones(n_pairs, *x.shape[1:]), p)
    other_axes = [1] * (x.dim() - 1)
    return x * mask.repeat(2, *other_axes)


def _paired_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **options: Any,
) -> Tensor:
    """Compute torch's ``scaled_dot_product_attention`` with the same dropout mask for both halves of the batch."""
    from torch.nn import functional as F  # noqa: N812

    from mirrorbench.training.cpu_functions import plain_attention

    if dropout_p == 0:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options
        )
    if is_causal or options.get("enable_gqa"):
        raise TuningError(
            "controlled_dropout knows the attention of encoders only, and this model's is causal or grouped",
            "Take it out of the encoder spec.",
        )

    def drop(weights: Tensor) -> Tensor:
        return _paired_dropout(weights, dropout_p)

    return plain_attention(query, key, value, attn_mask, scale, drop)


@hookimpl
def register_augmentations(register: Register) -> None:
    """Register the augmentations of this module, under their spec keys."""
    register(
        "span_mask",
        span_mask,
        on="text",
        description="k consecutive characters become the mask token",
    )
    register("word_shuffle", word_shuffle, on="text", description="words move by at most k places")
    register(
        "dropout",
        Dropout(),
        on="model",
        probability=True,
        description="rate of every dropout layer of the model",
    )
    register(
        "controlled_dropout",
        ControlledDropout(),
        on="model",
        probability=True,
        description="dropout with the same masks for both views of a pair; takes the place of dropout",
    )
    register(
        "token_mask",
        token_mask,
        on="tokens",
        probability=True,
        description="probability that a token is masked",
    )
    register(
        "word_mask",
        word_mask,
        on="text",
        probability=True,
        description="probability that a word is masked",
    )
    register(
        "drophead",
        Drophead(),
        on="model",
        probability=True,
        description="probability that an attention head is zeroed",
    )
