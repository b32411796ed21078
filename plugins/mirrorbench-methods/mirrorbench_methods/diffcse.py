"""DiffCSE (Chuang et al., NAACL 2022): SimCSE, with vectors that also help a second model to detect replaced tokens.

A frozen language model fills masked tokens of a text. The discriminator, a copy of the model that learns too, reads the
result with the text's vector in place of its first token, and detects the replaced tokens. "Released code" is
https://github.com/voidism/DiffCSE.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import (
    Objective,
    Recipe,
    TokenizedPairs,
    TuningError,
    in_batch,
    moved,
    read_weights,
)
from mirrorbench_methods.tokens import sum_over_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from mirrorbench.plugin import Transformer


MASKED = 0.3
"""Share of masked tokens (released script)."""
WEIGHT = 0.005
"""Weight of the discriminator's loss (lambda; released script)."""


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return DiffCSE's recipe, the same at every level: the released script for BERT-base (``run_diffcse.sh``).

    7e-6, batches of 64, temperature 0.05, 32 tokens, one epoch, [CLS]. No weight decay: the default of its trainer.
    """
    return Recipe(
        temperature=0.05,
        epochs=1,
        train_max_length=32,
        pooling="cls",
        lr=7e-6,
        batch_size=64,
        weight_decay=0.0,
        loss="difference",
        augment=(("dropout", 0.1),),
        clean_corpus=protocol == "paper",
    )


class Difference(Objective):
    """The loss ``in-batch`` of projected vectors, plus the cross-entropy of detecting replaced tokens with their help.

    ``modules`` are the discriminator, the projection and the detector, in this order.
    """

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        from torch import nn

        super().__init__(transformer, recipe)
        self.generator = language_model(transformer)
        size = transformer.model.config.hidden_size
        projection = nn.Sequential(
            nn.Linear(size, 2 * size, bias=False),
            nn.BatchNorm1d(2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, size, bias=False),
            nn.BatchNorm1d(size, affine=False),
        )
        discriminator = copy.deepcopy(transformer.model)
        # Gives the discriminator the vector of each text, in place of the embedding of its first token.
        discriminator.embeddings.register_forward_hook(self.insert_vectors)
        detector = nn.Linear(size, 2)
        self.modules = [
            discriminator,
            projection.to(transformer.device),
            detector.to(transformer.device),
        ]
        self.vectors_to_insert: Tensor | None = None  # set before each pass of the discriminator

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Add the mean over the first views and ``WEIGHT`` times the mean over the tokens of both views."""
        import torch

        _, projection, _ = self.modules
        vectors = projection(torch.cat([left, right]))
        first, second = vectors.chunk(2)
        labels = moved(batch.labels, left.device)
        contrast = in_batch(first, second, self.recipe.temperature, labels)
        pad_id = self.transformer.tokenizer.pad_token_id
        detection = sum_over_tokens(self.summed_loss, vectors, batch.ids, most, pad_id)
        return contrast + WEIGHT * detection / len(batch.ids.values)

    def filled(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Return texts in which some tokens were masked and predicted by the generator; the first token stays."""
        import torch

        tokenizer = self.transformer.tokenizer
        special = torch.isin(tokens, torch.tensor(tokenizer.all_special_ids, device=tokens.device))
        with torch.no_grad():
            masked = masked_tokens(tokens, special, tokenizer.mask_token_id, len(tokenizer))
            filled = self.generator(input_ids=masked, attention_mask=real.long()).logits.argmax(-1)
        filled[:, 0] = tokens[:, 0]
        return filled

    def summed_loss(self, vectors: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        """Sum the cross-entropy of detecting the replaced tokens."""
        from torch.nn.functional import cross_entropy

        discriminator, _, detector = self.modules
        filled = self.filled(tokens, real)
        self.vectors_to_insert = vectors
        states = discriminator(input_ids=filled, attention_mask=real.long()).last_hidden_state
        is_replaced = (filled != tokens)[real].long()
        return cross_entropy(detector(states)[real].float(), is_replaced, reduction="sum")

    def insert_vectors(self, module: Any, inputs: Any, output: Tensor) -> Tensor:
        """Replace the first embedding of each text by the text's vector, as a hook of the embeddings."""
        import torch

        assert self.vectors_to_insert is not None
        return torch.cat([self.vectors_to_insert[:, None].to(output.dtype), output[:, 1:]], dim=1)


def masked_tokens(tokens: Tensor, special: Tensor, mask_id: int, vocabulary: int) -> Tensor:
    """Mask a share ``MASKED`` of the tokens as in BERT's pretraining: 80 % by the mask, 10 % by random tokens."""
    import torch

    is_drawn = (torch.rand(tokens.shape, device=tokens.device) < MASKED) & ~special
    draw = torch.rand(tokens.shape, device=tokens.device)
    random_tokens = torch.randint(vocabulary, tokens.shape, device=tokens.device)
    # A draw below .8 gives the mask, one from .8 to .9 a random token; the rest stay, and are predicted too.
    changed = torch.where(is_drawn & (draw < 0.9), random_tokens, tokens)
    return changed.masked_fill(is_drawn & (draw < 0.8), mask_id)


def language_model(transformer: Transformer) -> Any:
    """Return the untuned backbone with its prediction head, frozen.

    Raises:
        TuningError: it has no such head, or the discriminator could not read vectors in place of its embeddings.
    """
    config = transformer.model.config
    # The discriminator, a copy of the tuned model, gets a vector in place of an embedding, so both need the same size.
    has_embeddings = hasattr(transformer.model, "embeddings")
    embedding_size = getattr(config, "embedding_size", config.hidden_size)
    takes_vectors = has_embeddings and embedding_size == config.hidden_size
    try:
        model, report = read_weights(
            transformer.path, "AutoModelForMaskedLM", output_loading_info=True
        )
        has_head = not report["missing_keys"]
    except ValueError:
        # transformers has no masked language model of this architecture.
        has_head = False
    if not has_head or not takes_vectors:
        problem = f"diffcse fills masked tokens with the backbone, and {transformer.path.name} has no head that predicts them"
        raise TuningError(
            problem, "Use a masked language model of the BERT or RoBERTa family, or another method."
        )
    return model.float().to(transformer.device).eval().requires_grad_(False)
