"""TSDAE (Wang et al., Findings of EMNLP 2021): a decoder rebuilds a text from the vector of its remaining words.

The decoder shares the model's weights; its attention to the vector and its prediction head learn too and are dropped.
"Authors' example": examples/unsupervised_learning/TSDAE of github.com/UKPLab/sentence-transformers.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import (
    AugmentationContext,
    Objective,
    Recipe,
    TokenizedPairs,
    TuningError,
    read_weights,
)
from mirrorbench_methods.tokens import sum_over_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from mirrorbench.plugin import Transformer


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return TSDAE's recipe: 60 % of the words deleted, [CLS] and tied weights are the paper's best combination.

    Batches of 8, constant 3e-5, no weight decay, one epoch: the authors' example (``README.md``); 75 tokens, an
    incomplete last batch left out: its ``train_stsb_tsdae.py``. Dropout 0.1: the model's own.
    """
    return Recipe(
        temperature=1.0,
        epochs=1,
        train_max_length=75,
        pooling="cls",
        lr=3e-5,
        batch_size=8,
        weight_decay=0.0,
        loss="reconstruction",
        augment=(("dropout", 0.1), ("word_deletion", 0.6)),
        drop_last=protocol == "released",
        clean_corpus=protocol == "paper",
    )


def delete_words(text: str, context: AugmentationContext) -> str:
    """Delete each word, separated by spaces, with probability ``context.rate``; at least a random one stays."""
    words = text.split()
    stays = context.rng.random(len(words)) >= context.rate
    if words and not stays.any():
        stays[context.rng.integers(len(words))] = True
    return " ".join(word for word, word_stays in zip(words, stays, strict=True) if word_stays)


class Reconstruction(Objective):
    """Mean cross-entropy of the first views' tokens, given those before them and the second view's vector."""

    def __init__(self, transformer: Transformer, recipe: Recipe) -> None:
        super().__init__(transformer, recipe)
        self.readers = (None, transformer)
        self.modules = [tied_decoder(transformer)]

    def loss(self, left: Tensor, right: Tensor, batch: TokenizedPairs, most: int) -> Tensor:
        """Average the cross-entropy over the tokens of the batch."""
        ids = batch.view(0)[0]
        pad_id = self.transformer.tokenizer.pad_token_id
        # All tokens but the first of each text.
        n_predicted = len(ids.values) - len(ids)
        return sum_over_tokens(self.summed_loss, right, ids, most, pad_id) / n_predicted

    def summed_loss(self, vectors: Tensor, tokens: Tensor, real: Tensor) -> Tensor:
        """Sum the cross-entropy of all tokens except the first of each text, given the text's vector."""
        from torch.nn.functional import cross_entropy

        decoded = self.modules[0](
            input_ids=tokens[:, :-1], encoder_hidden_states=vectors[:, None], use_cache=False
        )
        # The cross-entropy leaves out targets of -100.
        targets = tokens.masked_fill(~real, -100)[:, 1:].flatten()
        return cross_entropy(decoded.logits.float().flatten(0, 1), targets, reduction="sum")


def tied_decoder(transformer: Transformer) -> Any:
    """Load the backbone as a decoder that shares the model's weights.

    Raises:
        TuningError: transformers has no decoder with cross-attention for this architecture.
    """
    config = copy.deepcopy(transformer.model.config)
    config.is_decoder = True
    config.add_cross_attention = True
    try:
        decoder = read_weights(transformer.path, "AutoModelForCausalLM", config=config)
    except ValueError:
        # transformers has no decoder of this architecture.
        decoder = None
    decoder_parameters = dict(decoder.base_model.named_parameters()) if decoder else {}
    if not any("cross" in name for name in decoder_parameters):
        problem = f"tsdae needs a decoder, and transformers has none with cross-attention for {config.model_type}"
        raise TuningError(
            problem, "Use a backbone of the BERT or RoBERTa family, or another method."
        )
    # Where names agree, the decoder's modules hold the model's weights themselves, not copies: a step updates both.
    # The weights of its cross-attention are its own.
    for name, weight in transformer.model.named_parameters():
        if name in decoder_parameters:
            module, _, attribute = name.rpartition(".")
            setattr(decoder.base_model.get_submodule(module), attribute, weight)
    decoder.get_output_embeddings().weight = decoder.get_input_embeddings().weight
    return decoder.float().to(transformer.device)
