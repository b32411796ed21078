"""Unsupervised SimCSE (Gao et al., EMNLP 2021), with its training head.

Two passes over a sentence differ by their dropout masks and are each other's positives in the batch (Eq. 4, the loss
``in-batch``). The head on the [CLS] vector is dropped after training: the augmentation ``simcse_head``, which other
methods may use too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrorbench.plugin import Recipe, TuningError

ROBERTAS = ("roberta", "xlm-roberta", "camembert")


def preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Return SimCSE's recipe for models of base size, the same at every level.

    Batch size and learning rate: Table A.1 (64 and 3e-5 for BERT, 512 and 1e-5 for RoBERTa; other architectures have
    BERT's). One epoch, and the head in training only: appendix A. Temperature 0.05: appendix D. Dropout 0.1: section
    3. At most 32 tokens: the released script. No weight decay: the default of the trainer that the script uses.
    ``released`` keeps repeated lines of the corpus.
    """
    roberta = architecture in ROBERTAS
    return Recipe(
        temperature=0.05,
        epochs=1,
        train_max_length=32,
        pooling="cls",
        lr=1e-5 if roberta else 3e-5,
        batch_size=512 if roberta else 64,
        weight_decay=0.0,
        loss="in-batch",
        augment=(("dropout", 0.1), ("simcse_head", 1.0)),
        clean_corpus=protocol == "paper",
    )


def dense(model: Any) -> Any:
    """Create a dense layer of the model's width, initialised like its layers, and a tanh."""
    import torch

    config = model.config
    weight = next(model.parameters())
    layer = torch.nn.Linear(config.hidden_size, config.hidden_size)
    torch.nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
    torch.nn.init.zeros_(layer.bias)
    return torch.nn.Sequential(layer, torch.nn.Tanh()).to(weight.device, weight.dtype)


class Head:
    """A dense layer of the model's own width and a tanh over the vectors of the last layer, in training only.

    It maps the vectors of all tokens, so it works with every pooling; SimCSE reads the first token. It is initialised
    like the layers of the model (a normal distribution of ``initializer_range``, zeros as biases), learns with them,
    and is removed after training. Any rate above 0 switches it on.
    """

    packs = True
    """It may be used on packed texts, since it maps one token at a time."""

    def configure(self, config: Any, rate: float) -> None:
        """Do nothing: the head is not part of the model's configuration."""

    def attach(self, model: Any, rate: float) -> Callable[[], None] | None:
        """Add the head to the model; return the function that removes it, or ``None`` for rate 0."""
        if not rate:
            return None
        model.simcse_head = dense(model)
        hook = model.register_forward_hook(_apply_head)

        def detach() -> None:
            hook.remove()
            del model.simcse_head

        return detach


def _apply_head(model: Any, inputs: Any, output: Any) -> Any:
    """Apply the head to the last layer, as a hook of the model.

    Raises:
        TuningError: the pooling reads other layers, which have no head.
    """
    if output.hidden_states is not None:
        raise TuningError(
            "simcse_head is on the last layer, but layers= asks for others",
            "Leave layers at -1:, or add simcse_head=0 to the encoder spec.",
        )
    output.last_hidden_state = model.simcse_head(output.last_hidden_state)
    return output
