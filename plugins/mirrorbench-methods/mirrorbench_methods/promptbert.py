"""PromptBERT (Jiang et al. 2022): the vector of a text is that of the mask in a sentence about the text.

The two views are in different templates. In tuning, the mask's vector in the template alone is subtracted from that of
each view, so that the template's own part does not count. "Released code" is https://github.com/kongds/Prompt-BERT.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.plugin import (
    Objective,
    Ragged,
    Recipe,
    TokenizedPairs,
    Tokens,
    TuningError,
    UsageError,
    in_batch,
    moved,
    pool,
)
from mirrorbench_methods import simcse

if TYPE_CHECKING:
    from torch import Tensor

    from mirrorbench.plugin import Transformer


BERT = ('This sentence of "{text}" means{mask}.', 'This sentence : "{text}" means{mask}.')
ROBERTA = ("This sentence : '{text} ' means{mask}.", "The sentence : '{text} ' means{mask}.")
"""Templates of the two views (released script); the first one is used at test, too."""


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return PromptBERT's recipe without labels, the same at every level: the released script (``run.sh``).

    1e-5, batches of 256, temperature 0.05, one epoch, 32 tokens of the text beside [CLS] and [SEP], and a head in
    training only. No weight decay: the default of its trainer.
    """
    prompt, _ = ROBERTA if architecture in simcse.ROBERTAS else BERT
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
    """Return the vector of the mask token of each text, of the last one if there are several.

    Raises:
        UsageError: a text has no mask token: its prompt lacks {mask}.
    """
    import torch

    is_mask = (tokens.ids == tokens.tokenizer.mask_token_id) & tokens.mask.bool()
    # Positions are counted from 1, so that the maximum is that of the last mask, and 0 (then -1) without a mask.
    numbers = torch.arange(1, is_mask.shape[1] + 1, device=is_mask.device)
    positions = (is_mask * numbers).amax(1) - 1
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
        is_roberta = transformer.model.config.model_type in simcse.ROBERTAS
        _, second_template = ROBERTA if is_roberta else BERT
        self.readers = (
            denoising(transformer, recipe.prompt, recipe.prompt),
            denoising(transformer, recipe.prompt, second_template),
        )
        self.modules = [simcse.dense(transformer.model)]

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Average the cross-entropy over the first views."""
        head = self.modules[0]
        labels = moved(batch.labels, left.device)
        return in_batch(head(left), head(right), self.recipe.temperature, labels)


def denoising(transformer: Transformer, given: str, template: str) -> Any:
    """Return a reader that moves texts from one template to another, and subtracts the vector of the template alone.

    Args:
        transformer: the model.
        given: the template in which texts are tokenised.
        template: the template in which they are read.

    Raises:
        TuningError: the model takes no positions of tokens.
    """
    import inspect

    import torch

    from mirrorbench.plugin import Transformer

    if "position_ids" not in inspect.signature(transformer.model.forward).parameters:
        problem = f"promptbert sets positions of tokens, but {transformer.model.config.model_type} models take none"
        raise TuningError(
            problem, "Use a backbone of the BERT or RoBERTa family, or another method."
        )
    given_start, given_end = transformer.prompt_ids(given)
    template_start, template_end = transformer.prompt_ids(template)

    class Denoising(Transformer):
        """The transformer with another ``forward``: texts arrive in the given template, and are read in the other."""

        def forward(self, ids: Ragged, poolings: Any, *args: Any, **named: Any) -> list[Tensor]:
            """Return, for each pooling, the vectors of the texts, less those of the template without a text."""
            # A row is special tokens, start of the given template, text, end of the template, special tokens.
            n_leading, n_trailing = self.special_tokens
            rows = list(ids)
            leading = rows[0][:n_leading]
            trailing = rows[0][len(rows[0]) - n_trailing :]
            start_of_text = n_leading + len(given_start)
            length_of_end = len(given_end) + n_trailing
            texts = [row[start_of_text : len(row) - length_of_end] for row in rows]
            template_before = np.concatenate([leading, template_start])
            template_after = np.concatenate([template_end, trailing])
            prompted = [np.concatenate([template_before, text, template_after]) for text in texts]

            # The template alone has the positions that it has around a text: its second part is moved by the text's
            # length. So it is read once for each length; positions have the shape (lengths, tokens of the template).
            lengths, index_of_length = np.unique([len(text) for text in texts], return_inverse=True)
            template_ids = np.concatenate([template_before, template_after])
            offsets = np.arange(len(template_ids))
            is_after_text = offsets >= len(template_before)
            positions = self.first_position + offsets + lengths[:, None] * is_after_text
            tokens = self.moved(np.tile(template_ids, (len(lengths), 1)))
            states = self.states(
                all_layers=True, input_ids=tokens, position_ids=self.moved(positions)
            )
            template_tokens = Tokens(
                mask=torch.ones_like(tokens), find_ids=lambda: tokens, tokenizer=self.tokenizer
            )

            # For each pooling, the vector of a text minus that of the template around a text of its length.
            vectors = super().forward(Ragged.of(prompted), poolings, *args, **named)
            denoised = []
            for vectors_of_pooling, pooling in zip(vectors, poolings, strict=True):
                # The vectors of the template alone, one for each length.
                noise = pool(states, template_tokens, pooling, self.poolings)
                denoised.append(vectors_of_pooling - noise[self.moved(index_of_length)])
            return denoised

    values = {field.name: getattr(transformer, field.name) for field in fields(Transformer)}
    return Denoising(**values)
