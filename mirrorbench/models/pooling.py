"""Poolings, which make a vector of a text's hidden states, and prompts, which are templates around a text.

A prompt without ``{text}`` precedes the text, as in sentence-transformers. A template with ``{text}`` twice is read at
its last copy, where a causal model has seen the whole text. ``{mask}`` is the tokenizer's mask token; templates with it
are joined from tokens, as in the released code of PromptBERT, others from characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from mirrorbench.core.encoder_protocol import Array, Encoder, TextInput
from mirrorbench.core.errors import ModelUnavailableError, PluginError, UsageError, unknown_name
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.specs import Value

if TYPE_CHECKING:
    import torch

TEXT = "{text}"
"""Placeholder of the text in a template."""
MASK = "{mask}"
"""Placeholder of the mask token in a template."""

PROMPTS = {
    "eol": 'This sentence : "{text}" means in one word:"',
    "echo": "Document:{text}\nDocument again:{text}",
}
"""``eol``: PromptEOL (Jiang et al., "Scaling Sentence Embeddings with Large Language Models", 2023), whose released
code also ends sentences with a full stop and turns double quotes into single ones. ``echo``: the text twice (Springer
et al., "Repetition Improves Language Model Embeddings", 2024), the template for documents of their released code."""
PROMPT_DEFAULTS: dict[str, dict[str, Value]] = {"eol": {"pooling": "last"}}
"""Keys that a named prompt sets in a spec that does not set them."""

SETTINGS = "config_sentence_transformers.json"
"""File with the prompts of a model of sentence-transformers."""
ROLES = ("query", "document", "passage", "corpus")
"""Names of prompts for queries and documents in sentence-transformers."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def template(prompt: str, path: Path) -> str:
    """Return a prompt of a spec as a template with ``{text}``; empty for a prompt that adds nothing.

    ``prompt``: a template, a text that precedes each text, or the name of a prompt in ``PROMPTS`` or in the model's
    directory. A single word that is not the name of one raises an ``UnknownNameError``.
    """
    if not _NAME.fullmatch(prompt):
        whole = prompt if TEXT in prompt else prompt + TEXT
        return "" if whole == TEXT else whole
    prompts = {**PROMPTS, **stored_prompts(path)}
    if prompt not in prompts:
        error = unknown_name("prompt", prompt, list(prompts))
        error.hint += (
            f"\nA text to stand before each text ends with a colon or a space: prompt={prompt}:%20"
        )
        raise error
    named_prompt = prompts[prompt]
    if TEXT not in named_prompt:
        named_prompt += TEXT
    return template(named_prompt, path)


def stored_prompts(path: Path) -> dict[str, str]:
    """Read the named prompts in a model's settings for sentence-transformers; empty without such settings."""
    file = path / SETTINGS
    if not file.is_file() and (path.parent / "modules.json").is_file():
        # The path is the transformer's own folder inside the model's.
        file = path.parent / SETTINGS
    if not file.is_file():
        return {}
    try:
        prompts = json.loads(file.read_text(encoding="utf-8")).get("prompts") or {}
        return {str(name): str(prompt) for name, prompt in prompts.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise ModelUnavailableError(f"{file} cannot be read: {error}") from error


def prefix(prompt: str) -> str:
    """Return a template's text before ``{text}``; text after it, or a mask, raises a ``UsageError``."""
    before, _, after = prompt.partition(TEXT)
    if after or MASK in before:
        raise UsageError(
            f"the prompt {prompt!r} has more than a text before {TEXT}, which sentence-transformers cannot read",
            "Such an encoder cannot be exported; use it through mirrorbench run and encode.",
        )
    return before


DEFAULT_MAX_LENGTH = 64
"""Tokens kept of each text, special tokens included (released code of paper 1; the paper states no number). The cards
of paper 2's tasks set their own ``max_length``, from its released code."""

STATED = 1 << 20
"""Value of a task's or purpose's ``max_length`` that stands for as many tokens as the model's files state."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """How hidden states become a vector: by a mean over layers, then a registered pooling over tokens.

    Attributes:
        mode: name of a registered pooling (``register_poolings``). Names that begin with ``target`` read the tokens of
            the target word (paper 2, section 3), in a window around it if the text is long; without a target those of
            the text, special tokens excluded.
        layers: python slice of (embeddings, layer 1, ..., layer n): ``-1:`` is the last layer, ``-4:`` the mean of
            four.
        max_length: tokens kept of each text, special tokens included, whatever the tokenizer's setting.
        prompt: template with ``{text}`` around each text, whose tokens do not count for ``max_length``; empty for none.
        normalize: whether vectors are scaled to length 1.

    Example:
        >>> import mirrorbench
        >>> from mirrorbench.plugin import Pooling
        >>> transformer = mirrorbench.load("tiny", device="cpu").transformer
        >>> ids = transformer.tokenize(["a cat", "a dog"], max_length=8)
        >>> transformer.forward(ids, [Pooling("cls")])[0].shape
        torch.Size([2, 256])
    """

    mode: str = "mean"
    layers: str = "-1:"
    max_length: int = DEFAULT_MAX_LENGTH
    prompt: str = ""
    normalize: bool = False

    def __post_init__(self) -> None:
        """Raise a ``UsageError`` for a setting that is not valid, or two that cannot be combined."""
        if self.prompt and self.marked:
            raise UsageError(
                "prompt= and pooling=target-marked cannot be combined", "Leave the prompt out."
            )
        if not 3 <= self.max_length <= 1_000_000:
            raise UsageError(
                f"max_length={self.max_length} is out of range",
                "It must be from 3 to 1,000,000 tokens.",
            )
        # Called for its error alone.
        parse_layers(self.layers)
        if self.prompt and TEXT not in self.prompt:
            raise UsageError(
                f"prompt={self.prompt} has no place for the text",
                f"Write {TEXT} where the text stands.",
            )
        if MASK in self.prompt and self.of_target:
            raise UsageError(
                f"pooling={self.mode} cannot read a word in a prompt with {MASK}",
                f"Leave {MASK} out.",
            )
        if MASK in self.prompt and self.prompt.count(TEXT) > 1:
            raise UsageError(
                f"a prompt with {MASK} holds the text only once", f"Leave {MASK} or {TEXT} out."
            )

    def to_json(self) -> dict[str, Value]:
        """Return the equivalent keys of a spec."""
        keys: dict[str, Value] = {
            "pooling": self.mode,
            "layers": self.layers,
            "max_length": self.max_length,
        }
        if self.prompt:
            keys["prompt"] = self.prompt
        if self.normalize:
            keys["normalize"] = self.normalize
        return keys

    @property
    def identity(self) -> list[Value]:
        """Settings that change vectors."""
        return list(self.to_json().values())

    @property
    def of_target(self) -> bool:
        """Whether the vector is the target word's."""
        return self.mode.startswith("target")

    @property
    def marked(self) -> bool:
        """Whether targets are in brackets while texts are tokenised."""
        return self.mode == "target-marked"

    @property
    def is_repeated(self) -> bool:
        """Whether the prompt holds several copies of the text, of which the last one is read."""
        return self.prompt.count(TEXT) > 1

    @property
    def of_copy(self) -> bool:
        """Whether the pooling is over the tokens of the last copy of the text."""
        return self.is_repeated and not self.of_target


def parse_layers(text: str) -> slice:
    """Return the slice of ``-4:``, ``1:5``, ``:`` or a single index (``-2`` is the last layer but one)."""
    match = re.fullmatch(r"(-?\d+)|(-?\d+)?:(-?\d+)?", text)
    if not match:
        raise UsageError(
            f"layers={text} is not a range of layers",
            "Write -4: (top four), 1:5, or a single layer.",
        )
    index, start, stop = (int(number) if number else None for number in match.groups())
    if index is None:
        return slice(start, stop)
    # After the last layer (-1) the slice ends at None, since 0 would be the start.
    return slice(index, index + 1 or None)


@dataclass
class Tokens:
    """The tokens of a batch of texts: the second argument of a pooling.

    mirrorbench makes one for each pass. A function registered by ``register_poolings`` gets ``(states, tokens)``, with
    states of shape (texts, width, dimensions), and reads ``mask``, ``ids``, ``tokenizer`` and, if its name begins with
    ``target``, ``target``. All tensors are on the device of the states. A test makes one as below.

    Attributes:
        mask: 1 for tokens, special ones included, and 0 for padding, shape (texts, width).
        find_ids: function that returns ``ids``, called when they are first read.
        tokenizer: the backbone's tokenizer of transformers.
        target: weights of the tokens of each text's target, shape (texts, width), or of several words in it, shape
            (texts, words, width); ``None`` without a ``target`` pooling in the pass.

    Example:
        A pooling that takes the largest state of each dimension, and its test:

        >>> import torch
        >>> from mirrorbench.plugin import Tokens
        >>> def largest(states, tokens):
        ...     return states.masked_fill(~tokens.mask.bool()[:, :, None], float("-inf")).amax(dim=1)
        >>> states = torch.tensor([[[1.0, 5.0], [3.0, 2.0], [9.0, 9.0]]])  # a text of two tokens, and padding
        >>> ids = torch.tensor([[2, 3, 0]])
        >>> tokens = Tokens(mask=torch.tensor([[1, 1, 0]]), find_ids=lambda: ids, tokenizer=None)
        >>> largest(states, tokens)
        tensor([[3., 5.]])
    """

    mask: torch.Tensor
    find_ids: Callable[[], torch.Tensor]
    tokenizer: Any
    target: torch.Tensor | None = None

    @cached_property
    def ids(self) -> torch.Tensor:
        """Token ids, shape (texts, width), with any ids at padding."""
        return self.find_ids()

    def masked_to_target(self) -> Tokens:
        """Return the same tokens with the target's alone in ``mask``."""
        assert self.target is not None
        return replace(self, mask=(self.target > 0).to(self.mask.dtype))


class LostTargets(NamedTuple):
    """Counts of texts and targets that a ``target`` pooling does not read completely."""

    texts_cut: int
    """Texts cut to a window around the target."""
    targets_cut: int
    """Targets longer than the window."""
    targets_missing: int
    """Targets without a token."""


@runtime_checkable
class PoolingEncoder(Encoder, Protocol):
    """The protocol of encoders that pool the same passes in several ways: backbones."""

    def encode_pooled(
        self,
        inputs: Sequence[TextInput],
        poolings: Sequence[Pooling],
        advance: Callable[[int], None] = ...,
    ) -> list[Array]:
        """Return one array per pooling, shape (n, dimensions); ``advance`` is called with numbers of texts done."""

    def lost_targets(self, inputs: Sequence[TextInput], pooling: Pooling) -> LostTargets:
        """Count the inputs whose target a ``target`` pooling does not read completely."""


PoolingFunction = Callable[["torch.Tensor", Tokens], "torch.Tensor"]
"""``(states, tokens) -> vectors``: from float32 of shape (texts, width, dimensions) to (texts, dimensions)."""


def cls(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """The first token's vector, before any pooling layer."""
    return states[:, 0]


def mean(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Mean over all tokens but padding, special tokens included."""
    weights = tokens.mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(1) / weights.sum(1)


def mean_padded(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Mean over ``max_length`` positions with padding, as in the papers' released code."""
    return states.mean(1)


def target(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Mean over the tokens of the target word (paper 2, section 3)."""
    assert tokens.target is not None
    return _weighted(states, tokens.target)


def target_marked(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Pool the target as paper 2's released code: in brackets while the text is tokenised, and cut at its end."""
    return target(states, tokens)


def last(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """The last token's vector, the only one of a causal model that has read the whole text."""
    positions = tokens.mask.long().cumsum(1)
    return _weighted(states, (positions == positions[:, -1:]) & tokens.mask.bool())


def mean_by_position(states: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    """Mean over all tokens but padding, the i-th with weight i (SGPT: Muennighoff 2022, Eq. 2)."""
    positions = (tokens.mask.long().cumsum(1) * tokens.mask).to(states.dtype)
    return _weighted(states, positions / positions.sum(1, keepdim=True))


def _weighted(states: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return weighted sums over tokens: one vector a text, or several if it has weights of several words."""
    import torch

    with torch.autocast(states.device.type, enabled=False):  # autocast would use half precision
        if weights.dim() == 3:
            return torch.bmm(weights.to(states.dtype), states)
        return torch.bmm(weights.to(states.dtype).unsqueeze(1), states).squeeze(1)


POOLINGS: dict[str, PoolingFunction] = {
    "cls": cls,
    "mean": mean,
    "mean-padded": mean_padded,
    "target": target,
    "target-marked": target_marked,
    "last": last,
    "weighted-mean": mean_by_position,
}


@hookimpl
def register_poolings(register: Register) -> None:
    """Register the poolings of this module."""
    for name, function in POOLINGS.items():
        register(name, function, (function.__doc__ or "").rstrip("."))


def pool(
    hidden_states: tuple[torch.Tensor, ...],
    tokens: Tokens,
    pooling: Pooling,
    registered: Mapping[str, PoolingFunction] = POOLINGS,
) -> torch.Tensor:
    """Return the vectors of a batch under a pooling, float32 of shape (batch, dimensions).

    Average the states over the pooling's layers, apply the registered function to the tokens, and normalise if the
    pooling says so. ``Transformer.forward`` does this for texts; an objective or a reader of a plugin calls ``pool``
    for states that it has computed itself.

    Args:
        hidden_states: embeddings and each layer's output, each of shape (batch, tokens, dimensions), as
            ``Transformer.states`` returns them; for the layers ``-1:`` the last layer suffices.
        tokens: the tokens of the texts.
        pooling: layers, name of the pooling and normalisation: ``recipe.readout(max_length)``, ``Objective.pooling``,
            or one that ``forward`` got.
        registered: functions by name; by default the built-in ones. ``Transformer.poolings`` also has those of plugins.

    Returns:
        The vectors. A pooling over targets returns (batch, words, dimensions) if ``tokens`` has several target words a
        text.

    Raises:
        UsageError: the pooling selects no layer, or no pooling has its name.
        PluginError: the function of a plugin returned something else than vectors.

    Example:
        >>> import torch
        >>> from mirrorbench.plugin import Recipe, Tokens, pool
        >>> states = torch.tensor([[[1.0, 0.0], [3.0, 2.0], [9.0, 9.0]]])  # a text of two tokens, and padding
        >>> tokens = Tokens(mask=torch.tensor([[1, 1, 0]]), find_ids=lambda: torch.tensor([[2, 3, 0]]), tokenizer=None)
        >>> recipe = Recipe(temperature=0.05, epochs=1, train_max_length=32, pooling="mean")
        >>> pool((states,), tokens, recipe.readout(max_length=32))
        tensor([[2., 1.]])
    """
    import torch

    # First average the states of a token over the layers of a slice.
    layers = hidden_states[parse_layers(pooling.layers)]
    if not layers:
        raise UsageError(
            f"layers={pooling.layers} selects no layer",
            f"This model has layers 0 to {len(hidden_states) - 1}.",
        )
    if pooling.mode not in registered:
        raise unknown_name("pooling", pooling.mode, list(registered))
    # float32 from here on: a mean over many tokens loses precision in half precision.
    states = layers[0].float()
    if len(layers) > 1:
        states = torch.stack([states, *(layer.float() for layer in layers[1:])]).mean(0)
    # Then pool over tokens. Where the prompt repeats the text, ``target`` holds the tokens of its last copy.
    if pooling.of_copy:
        tokens = tokens.masked_to_target()
    function = registered[pooling.mode]
    vectors = function(states, tokens)
    fault = ""
    if not isinstance(vectors, torch.Tensor):
        fault = f"a {type(vectors).__name__}, not a tensor"
    elif vectors.ndim < 2 or len(vectors) != len(states):
        fault = f"shape {tuple(vectors.shape)} for {len(states)} texts"
    if fault:
        raise PluginError(
            f"the pooling {pooling.mode!r}{defined_at(function)} returned {fault}",
            "It returns a tensor of shape (texts, dimensions).",
        )
    if pooling.normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)
    return vectors
