"""Augmentations inside the model: two passes over one text differ by what they drop (paper 1, sections 2.2, 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.models.families import set_rates

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Dropout:
    """Sets one rate in every dropout of the model: embeddings, attention, hidden states (paper 1, section 2.2)."""

    packs = True

    def configure(self, config: Any, rate: float) -> None:
        """Set every dropout rate of the configuration before the model is built.

        Some architectures (ModernBERT) build no dropout module for a rate of 0, and read the attention's rate from a
        plain attribute.
        """
        set_rates(config, rate)

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rate of every dropout module; it is an error if there are none, or some whose rate cannot be set."""
        import torch

        kind = torch.nn.modules.dropout._DropoutNd
        # Today's models read the rate from their configuration.
        if rate and not any(isinstance(module, kind) for module in model.modules()) and not _drops(model):
            raise TuningError(
                f"{type(model).__name__} has no dropout, so dropout={rate:g} cannot be applied",
                "Write dropout=0 and another augmentation: word_shuffle=3.",
            )
        for name, module in model.named_modules():
            if isinstance(module, kind):
                module.p = float(rate)
            # Dropout classes that are none of torch's (older DeBERTa) would keep their own rate; SqueezeBERT's has one.
            elif "dropout" in type(module).__name__.lower() and not any(isinstance(m, kind) for m in module.modules()):
                raise TuningError(
                    f"{type(model).__name__} has a dropout of its own kind at {name} ({type(module).__name__}); "
                    f"its rate cannot be set to {rate:g}"
                )
        return None


def _drops(model: Any) -> bool:
    """Whether two passes in training mode differ."""
    import torch

    if not hasattr(model, "config"):
        return False
    device = next(model.parameters()).device
    ids = torch.arange(1, 9, device=device)[None]
    halves = {weight.dtype for weight in model.parameters()} - {torch.float32}  # a frozen backbone's
    half = halves.pop() if halves else None
    with torch.no_grad(), torch.random.fork_rng(), torch.autocast(device.type, half, enabled=half is not None):
        model.train()
        one, other = (model(input_ids=ids).last_hidden_state for _ in range(2))
    return not torch.equal(one, other)


class ControlledDropout(Dropout):
    """Dropout whose masks the two views of a pair share (paper 1, section 4.4, Table 8 and Figure 6).

    It keeps dropout's regularisation without its augmentation: for identical strings f(x) = f(x-bar), in training mode.
    Each mask is drawn for the first half of a micro-batch, the first views, and used again for the second half. It
    replaces torch's functions, so it works in all architectures, for layers, functions and fused attention alike.
    """

    packs = False

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Set the rates, and share the masks in everything that this thread computes until it is undone."""
        if not rate:
            return None
        from torch.nn import functional as F  # noqa: N812  (torch's own convention)

        from mirrorbench.models.batching import ReplacedFunctions

        super().attach(model, rate)
        stack = ExitStack()
        stack.enter_context(ReplacedFunctions({F.dropout: _dropout, F.scaled_dot_product_attention: _attention}))
        return stack.close


def _dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    from torch.nn import functional as F  # noqa: N812

    # What all rows share (DeBERTa's relative positions) has no batch axis, and one mask already.
    if not training or p == 0 or x.dim() < 3 or len(x) % 2:
        return F.dropout(x, p, training, inplace)
    mask = F.dropout(x.new_ones(len(x) // 2, *x.shape[1:]), p)
    return x * mask.repeat(2, *[1] * (x.dim() - 1))


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, **options: Any,
) -> Tensor:  # fmt: skip
    from torch.nn import functional as F  # noqa: N812

    from mirrorbench.training.cpu_functions import plain_attention

    if dropout_p == 0:
        return F.scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale, **options)
    if is_causal or options.get("enable_gqa"):
        raise TuningError(
            "controlled_dropout knows the attention of encoders only, and this model's is causal or grouped",
            "Take it out of the encoder spec.",
        )
    return plain_attention(query, key, value, attn_mask, scale, lambda weights: _dropout(weights, dropout_p))


# Names of the output projection of self-attention, whose input is the concatenated heads.
OUTPUT_PROJECTIONS = (
    "attention.output.dense",  # BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DeBERTa v1 and v2
    "attn.Wo",  # ModernBERT
    "attention.out_lin",  # DistilBERT
    "attention.attn.o",  # MPNet
    "attention.dense",  # ALBERT
)


def drop_heads(heads: Tensor, rate: float) -> Tensor:
    """Zero each head of each example with probability ``rate``; shape (batch, tokens, heads, dimensions of a head).

    As in the paper's released code, kept heads are scaled by the number of heads over the number *kept* in the example
    (not by 1 / (1 - rate)). If none is kept, the result is zero; the released code divides by zero there.
    """
    import torch

    n_heads = heads.shape[2]
    kept = torch.rand(heads.shape[0], 1, n_heads, 1, device=heads.device) >= rate
    scale = n_heads / kept.sum(dim=2, keepdim=True).clamp(min=1)
    return heads * (kept * scale).to(heads.dtype)


class Drophead:
    """Puts ``drop_heads`` before the output projection of each self-attention, in training mode only.

    The technique is that of Zhou et al. (2020, "Scheduled DropHead"); the rates in paper 1 (section 4.4, Table 7,
    footnote 12) are 0.2 for BERT and 0.05 for RoBERTa, in place of dropout: ``roberta+mirror:drophead=0.05,dropout=0``.
    """

    packs = False

    def configure(self, config: Any, rate: float) -> None:
        """Nothing: configurations have no such rate."""

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Hook into every self-attention."""
        if not rate:
            return None
        suffixes = tuple(f".{name}" for name in OUTPUT_PROJECTIONS)
        projections = [m for name, m in model.named_modules() if f".{name}".endswith(suffixes)]
        if not projections:
            unknown = f"{type(model).__name__} has no self-attention that drophead knows"
            raise TuningError(f"{unknown}, so drophead={rate:g} cannot be applied", "Take it out of the encoder spec.")
        n_heads = model.config.num_attention_heads

        def before(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            if not module.training:
                return None
            (states,) = inputs
            heads = states.view(*states.shape[:-1], n_heads, -1)
            return (drop_heads(heads, rate).flatten(-2),)

        attached = ExitStack()
        for module in projections:
            attached.callback(module.register_forward_pre_hook(before).remove)
        return attached.close


@hookimpl
def register_augmentations(register: Register) -> None:
    """The augmentations of this module, under their spec keys."""
    shared = "dropout with the same masks for both views of a pair; takes the place of dropout"
    for name, augmentation, description in (
        ("dropout", Dropout(), "rate of every dropout layer of the model"),
        ("controlled_dropout", ControlledDropout(), shared),
        ("drophead", Drophead(), "probability that an attention head is zeroed"),
    ):
        register(name, augmentation, on="model", probability=True, description=description)
