"""PromptBERT (Jiang et al. 2022): the vector of a text is that of the mask in a sentence about the text.

The two views are in different templates. In tuning, the mask's vector in the template alone is subtracted from that of
each view, so that the template's own part does not count. "Released code" is https://github.com/kongds/Prompt-BERT.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.devices import moved
from mirrorbench.core.errors import TuningError, UsageError
from mirrorbench.models.positions import first_position
from mirrorbench.training.losses import Objective
from mirrorbench.training.recipes import Recipe
from mirrorbench_methods import simcse

if TYPE_CHECKING:
    from torch import Tensor

    from mirrorbench.models.pooling import Tokens
    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.losses import TokenizedPairs

BERT = ('This sentence of "{text}" means{mask}.', 'This sentence : "{text}" means{mask}.')
ROBERTA = ("This sentence : '{text} ' means{mask}.", "The sentence : '{text} ' means{mask}.")
"""Templates of the two views (released script); the first one is used at test, too."""


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return PromptBERT's recipe without labels, the same at every level: the released script (``run.sh``).

    1e-5, batches of 256, temperature 0.05, one epoch, 32 tokens of the text beside [CLS] and [SEP], and a head in
    training only. No weight decay: the default of its trainer.
    """
    prompt = (ROBERTA if architecture in simcse.ROBERTAS else BERT)[0]
    return Recipe(
        temperature=0.05,
        epochs=1,
        train_max_length=34,
        pooling="mask",
        lr=1e-5,
        batch_size=256,
        weight_decay=0.0,
        loss="templates",
        augment=(("dropout", 0.1),),
        clean_corpus=protocol == "paper",
        prompt=prompt,
    )


def mask_token(states: Tensor, tokens: Tokens) -> Tensor:
    """Return the vector of the mask token, the last one of several; for prompts with {mask}."""
    import torch

    masks = (tokens.ids == tokens.tokenizer.mask_token_id) & tokens.mask.bool()
    positions = (masks * torch.arange(1, masks.shape[1] + 1, device=masks.device)).amax(1) - 1
    if int(positions.min()) < 0:
        raise UsageError(
            "pooling=mask, but a text has no mask token", "Add a prompt= with {mask} in it."
        )
    return states[torch.arange(len(states), device=states.device), positions]


class Templates(Objective):
    """The loss ``in-batch`` of denoised vectors through a dense layer and a tanh."""

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe)
        if "{mask}" not in recipe.prompt or recipe.pooling != "mask":
            problem = f"loss={recipe.loss} compares the masks of two templates"
            raise TuningError(
                problem, "Write +promptbert, with {mask} in its prompt, or choose another loss."
            )
        second = (ROBERTA if transformer.model.config.model_type in simcse.ROBERTAS else BERT)[1]
        self.readers = (
            denoising(transformer, recipe.prompt, recipe.prompt),
            denoising(transformer, recipe.prompt, second),
        )
        self.modules = [simcse.dense(transformer.model)]

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Average the cross-entropy over the first views."""
        from mirrorbench.training.losses import in_batch

        head = self.modules[0]
        return in_batch(
            head(left), head(right), self.recipe.temperature, moved(batch.labels, left.device)
        )


def denoising(transformer: Transformer, given: str, template: str) -> Any:
    """Return a reader that moves texts from one template to another, and subtracts the vector of the template alone."""
    import inspect

    import torch

    from mirrorbench.models.batching import Ragged
    from mirrorbench.models.pooling import Tokens, pool
    from mirrorbench.models.transformer import Transformer

    if "position_ids" not in inspect.signature(transformer.model.forward).parameters:
        problem = f"promptbert sets positions of tokens, but {transformer.model.config.model_type} models take none"
        raise TuningError(
            problem, "Use a backbone of the BERT or RoBERTa family, or another method."
        )
    old, new = transformer.prompt_ids(given), transformer.prompt_ids(template)

    class Denoising(Transformer):
        def forward(self, ids: Ragged, poolings: Any, *args: Any, **named: Any) -> list[Tensor]:
            first, last = self.special_tokens
            starts, ends = first + len(old[0]), last + len(old[1])
            texts = [row[starts : len(row) - ends] for row in ids]
            ids = Ragged.of(
                [
                    np.concatenate([row[:first], new[0], text, new[1], row[len(row) - last :]])
                    for row, text in zip(ids, texts, strict=True)
                ]
            )
            bare = np.concatenate([ids[0][:first], *new, ids[0][len(ids[0]) - last :]])
            lengths, rows = np.unique([len(text) for text in texts], return_inverse=True)
            after_text = np.arange(len(bare)) >= first + len(new[0])
            positions = (
                np.arange(len(bare)) + lengths[:, None] * after_text
            )  # as if the text were there
            positions = positions + first_position(
                lambda key: getattr(self.model.config, key, None)
            )
            tokens, position_ids = (
                self._moved(array) for array in (np.tile(bare, (len(lengths), 1)), positions)
            )
            states = self._states(True, input_ids=tokens, position_ids=position_ids)
            read = Tokens(torch.ones_like(tokens), lambda: tokens, self.tokenizer)
            noise = [
                pool(states, read, pooling, self.poolings)[self._moved(rows)]
                for pooling in poolings
            ]
            vectors = super().forward(ids, poolings, *args, **named)
            return [vector - part for vector, part in zip(vectors, noise, strict=True)]

    return Denoising(
        **{field.name: getattr(transformer, field.name) for field in fields(Transformer)}
    )
