"""Tokens without an embedding: a tokenizer to which tokens were added may have more than its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mirrorbench.core.errors import ModelUnavailableError, UnreadableTextError, UsageError
from mirrorbench.core.quoting import shown
from mirrorbench.models.ragged import Ragged

_OTHER_TOKENIZER = "Take the tokenizer that belongs to the model, or the model whose embeddings were resized to it."


@dataclass(frozen=True)
class MissingEmbeddings:
    """The tokens of a tokenizer that a model cannot read, since it has no embedding of them."""

    names: Mapping[int, str]
    """The tokens by id."""
    n_embeddings: int
    """Number of embeddings that the model has."""

    @classmethod
    def of(cls, tokenizer: Any, model: Any) -> MissingEmbeddings:
        """Compare a tokenizer of transformers with a model; nothing is missing without either, or a table."""
        if tokenizer is None or model is None:
            return cls({}, 0)
        try:
            n_embeddings = int(model.get_input_embeddings().weight.shape[0])
        except (NotImplementedError, AttributeError):
            # E.g. a model of characters, which hashes them.
            return cls({}, 0)
        return cls.beyond(tokenizer, n_embeddings)

    @classmethod
    def beyond(cls, tokenizer: Any, n_embeddings: int) -> MissingEmbeddings:
        """Return the tokens of a tokenizer beyond a number of embeddings."""
        names = {id_: name for name, id_ in tokenizer.get_vocab().items() if id_ >= n_embeddings}
        return cls(names, n_embeddings)

    @property
    def note(self) -> str:
        """The sentence for the user on opening; empty where nothing is missing."""
        if not self.names:
            return ""
        tokens = "1 id" if len(self.names) == 1 else f"{len(self.names):,} ids"
        return (
            f"the tokenizer has {tokens} more than the model's {self.n_embeddings:,} embeddings; "
            "a text that holds such a token is refused"
        )

    def check(self, ids: Ragged, texts: Sequence[str]) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that has no embedding.

        ``ids``: the token ids of each text.
        """
        if not self.names:
            return
        places = np.flatnonzero(ids.values >= self.n_embeddings)
        if not len(places):
            return
        first_place = places[0]
        row = int(np.searchsorted(ids.starts, first_place, side="right")) - 1
        raise UnreadableTextError(
            texts[row],
            self._problem(int(ids.values[first_place])),
            f"Leave the text out. {_OTHER_TOKENIZER}",
        )

    def check_prompt(self, ids: Ragged, prompt: str) -> None:
        """Raise a ``UsageError`` for a prompt with a token that has no embedding.

        ``ids``: the token ids of its parts before and after the text.
        """
        if not self.names:
            return
        missing_ids = ids.values[ids.values >= self.n_embeddings]
        if len(missing_ids):
            raise UsageError(
                f"the prompt {prompt!r} cannot be read: {self._problem(int(missing_ids[0]))}",
                f"Write another prompt. {_OTHER_TOKENIZER}",
            )

    def check_special_tokens(self, path: Path, tokenizer: Any) -> None:
        """Raise a ``ModelUnavailableError`` if a special token that is put into every text has no embedding.

        ``path``: the model's directory. ``tokenizer``: of transformers, or ``None`` for one without special tokens.
        """
        if not self.names or tokenizer is None:
            return
        for id_ in tokenizer("")["input_ids"]:
            if id_ in self.names:
                raise ModelUnavailableError(
                    f"the tokenizer in {path} puts {self.names[id_]} (id {id_:,}) into every text, and the model has "
                    f"{self.n_embeddings:,} embeddings",
                    _OTHER_TOKENIZER,
                )

    def check_padding(self, path: Path, tokenizer: Any) -> None:
        """Raise a ``UsageError`` if the padding token, which poolings like ``mean-padded`` read, has no embedding."""
        if tokenizer.pad_token_id in self.names:
            raise UsageError(
                f"padding is read, and the model in {path} has no embedding of its token {tokenizer.pad_token}",
                "Choose another pooling than mean-padded, or the tokenizer that belongs to the model.",
            )

    def replace_missing(self, ids: Sequence[int]) -> list[int]:
        """Return token ids with 0, which has an embedding, in place of those that have none."""
        return [0 if id_ in self.names else id_ for id_ in ids]

    def _problem(self, id_: int) -> str:
        """Return a clause that names a token without an embedding."""
        token = shown(self.names[id_])
        return f"its token {token} has the id {id_:,}, and the model has {self.n_embeddings:,} embeddings"
