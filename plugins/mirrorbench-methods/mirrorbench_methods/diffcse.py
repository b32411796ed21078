"""DiffCSE (Chuang et al., NAACL 2022): SimCSE, and vectors from which a second model finds the replaced tokens.

A frozen language model fills masked tokens of a text. The discriminator, a copy of the model that learns too, reads the
result with the text's vector in place of its first token, and says which tokens are not the text's own. "Released code"
is https://github.com/voidism/DiffCSE.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from mirrorbench.core.devices import moved
from mirrorbench.core.errors import TuningError
from mirrorbench.training.objective import Objective
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.objective import TokenizedPairs

MASKED = 0.3
"""Share of the tokens that is masked (released script)."""
WEIGHT = 0.005
"""The weight of the discriminator's loss (lambda; released script)."""


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """DiffCSE's recipe, the same at every level: the released script for BERT-base (``run_diffcse.sh``).

    7e-6, batches of 64, temperature 0.05, 32 tokens, one epoch, [CLS]. No weight decay: the default of its trainer.
    """
    return Recipe(
        temperature=0.05, epochs=1, train_max_length=32, pooling="cls", lr=7e-6, batch_size=64, weight_decay=0.0,
        loss="difference", augment=(("dropout", 0.1),), clean_corpus=protocol == "paper",
    )  # fmt: skip


class Difference(Objective):
    """The loss ``in-batch`` of projected vectors, and the cross-entropy of which tokens are replaced, given them."""

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        from torch import nn

        super().__init__(transformer, recipe)
        self.generator = language_model(transformer)
        size = transformer.model.config.hidden_size
        projection = nn.Sequential(
            nn.Linear(size, 2 * size, bias=False), nn.BatchNorm1d(2 * size), nn.ReLU(),
            nn.Linear(2 * size, size, bias=False), nn.BatchNorm1d(size, affine=False),
        )  # fmt: skip
        discriminator = copy.deepcopy(transformer.model)
        discriminator.embeddings.register_forward_hook(self.put_vectors)
        self.modules = [discriminator, *(module.to(transformer.device) for module in (projection, nn.Linear(size, 2)))]
        self.given: Tensor | None = None

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """The mean over the first views, and ``WEIGHT`` times the mean over the tokens of both."""
        import torch

        from mirrorbench.training.objective import in_batch

        vectors = self.modules[1](torch.cat([left, right]))
        contrast = in_batch(*vectors.chunk(2), self.recipe.temperature, moved(batch.labels, left.device))
        detection = self.over_tokens(self.surprise, vectors, batch.ids, most)
        return contrast + WEIGHT * detection / len(batch.ids.values)

    def filled(self, tokens: Tensor, real: Tensor) -> Tensor:
        """The texts as the generator fills them: its likeliest token in every place but the first, some masked."""
        import torch

        tokenizer = self.transformer.tokenizer
        special = torch.isin(tokens, torch.tensor(tokenizer.all_special_ids, device=tokens.device))
        with torch.no_grad():
            masked = masked_tokens(tokens, special, tokenizer.mask_token_id, len(tokenizer))
            filled = self.generator(input_ids=masked, attention_mask=real.long()).logits.argmax(-1)
        filled[:, 0] = tokens[:, 0]
        return filled

    def surprise(self, vectors: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        """The summed cross-entropy of which tokens are replaced."""
        from torch.nn.functional import cross_entropy

        self.given, filled = vectors, self.filled(tokens, real)
        states = self.modules[0](input_ids=filled, attention_mask=real.long()).last_hidden_state
        replaced = (filled != tokens)[real].long()
        return cross_entropy(self.modules[2](states)[real].float(), replaced, reduction="sum")

    def put_vectors(self, module: Any, inputs: Any, output: Tensor) -> Tensor:
        """The embeddings of texts, the first of each replaced by its vector."""
        import torch

        assert self.given is not None
        return torch.cat([self.given[:, None].to(output.dtype), output[:, 1:]], dim=1)


def masked_tokens(tokens: Tensor, special: Tensor, mask_id: int, vocabulary: int) -> Tensor:
    """Replace the ``MASKED`` tokens: 80 % by the mask, 10 % by random ones, 10 % by none, as BERT's pretraining."""
    import torch

    drawn = (torch.rand(tokens.shape, device=tokens.device) < MASKED) & ~special
    kind = torch.rand(tokens.shape, device=tokens.device)
    others = torch.randint(vocabulary, tokens.shape, device=tokens.device)
    return torch.where(drawn & (kind < 0.9), others, tokens).masked_fill(drawn & (kind < 0.8), mask_id)


def language_model(transformer: Transformer) -> Any:
    """The backbone as it comes with its prediction head, frozen; ``TuningError`` if it cannot be both models."""
    from mirrorbench.models.opening import read_weights

    config = transformer.model.config
    try:
        model, report = read_weights(transformer.path, "AutoModelForMaskedLM", output_loading_info=True)
    except ValueError:  # no such model of this architecture
        model, report = None, {"missing_keys": ["all"]}
    embedded = getattr(config, "embedding_size", config.hidden_size) == config.hidden_size
    if report["missing_keys"] or not embedded or not hasattr(transformer.model, "embeddings"):
        problem = (
            f"diffcse fills masked tokens with the backbone, and {transformer.path.name} has no head that predicts them"
        )
        raise TuningError(problem, "Use a masked language model of the BERT or RoBERTa family, or another method.")
    return model.float().to(transformer.device).eval().requires_grad_(False)
