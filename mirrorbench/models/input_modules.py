"""Input modules of sentence-transformers: which one reads a text, under which prompt, and what it can read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mirrorbench.core.truncation import Truncation
from mirrorbench.models.long_texts import check_size, count_longer, shorten, token_ids
from mirrorbench.models.missing_embeddings import MissingEmbeddings
from mirrorbench.models.pooling import TEXT
from mirrorbench.models.positions import positions_of_model
from mirrorbench.models.ragged import Ragged

_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names of prompts by role; sentence-transformers puts the first one that a model has before texts of the role."""
_TEXTS_PER_CHECK = 2048


@dataclass(frozen=True)
class InputModule:
    """The module of a model that reads the texts of a role.

    Attributes:
        module: the module of sentence-transformers.
        template: the prompt, with ``{text}`` in the place of the text.
        missing_embeddings: tokens that it cannot read.
    """

    module: Any
    template: str
    missing_embeddings: MissingEmbeddings

    @classmethod
    def of(cls, model: Any, role: str, template: str | None) -> InputModule:
        """Return the module of a model that reads texts of a role; ``template`` replaces the prompts of the model.

        A Router without a route for the role raises a ``ValueError``.
        """
        module = model[0]
        if hasattr(module, "sub_modules"):
            # A Router, which has modules for each route.
            route = module._resolve_route(task=role or None, modality="text")
            module = module.sub_modules[route][0]
        if template is None:
            template = _prompt_of_role(model, role) + TEXT
        tokenizer = getattr(module, "tokenizer", None)
        if hasattr(module, "num_embeddings"):
            # A StaticEmbedding.
            missing_embeddings = MissingEmbeddings.beyond(tokenizer, module.num_embeddings)
        else:
            transformer = getattr(module, "auto_model", None)
            missing_embeddings = MissingEmbeddings.of(tokenizer, transformer)
        return cls(module, template, missing_embeddings)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers that cuts texts; ``None`` for modules of words, of images or of a table."""
        tokenizer = getattr(self.module, "tokenizer", None)
        return tokenizer if hasattr(tokenizer, "truncation_side") else None

    @property
    def cuts(self) -> bool:
        """Whether the module cuts long texts."""
        return self.tokenizer is not None and bool(self.module.max_seq_length)

    def shortened(self, texts: Sequence[str]) -> list[str]:
        """Return texts, long ones cut to a beginning that holds all tokens that the module reads.

        A text that is too long to be read as a whole, but cannot be cut, raises an ``UnreadableTextError``.
        """
        if self.cuts:
            return shorten(texts, self.tokenizer, self.module.max_seq_length)
        for text in texts:
            check_size(text, "the model cuts no text")
        return list(texts)

    def count_cut(self, texts: Sequence[str]) -> Truncation | None:
        """Count the texts that are longer than the module reads with their prompt; ``None`` if it cuts none."""
        if not self.cuts:
            return None
        window = self.module.max_seq_length
        filled = [self.template.replace(TEXT, text) for text in texts]
        cut = count_longer(filled, self.tokenizer, window)
        return Truncation(cut, len(texts), window, positions_of_model(self.module.auto_model))

    def check(self, texts: Sequence[str]) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that has no embedding.

        Such a token in the prompt raises a ``UsageError``.
        """
        if not self.missing_embeddings.names:
            return
        parts = self.template.split(TEXT)
        self.missing_embeddings.check_prompt(self._token_ids(parts), self.template)
        for start in range(0, len(texts), _TEXTS_PER_CHECK):
            chunk = texts[start : start + _TEXTS_PER_CHECK]
            filled = [self.template.replace(TEXT, text) for text in chunk]
            self.missing_embeddings.check(self._token_ids(self.shortened(filled)), chunk)

    def _token_ids(self, texts: Sequence[str]) -> Ragged:
        """Return the token ids of each text, as the module reads it."""
        if self.cuts:
            return Ragged.of(token_ids(texts, self.tokenizer, self.module.max_seq_length))
        if self.tokenizer is not None:
            return Ragged.of(self.tokenizer(list(texts))["input_ids"])
        encodings = self.module.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return Ragged.of([encoding.ids for encoding in encodings])


def input_modules(model: Any, template: str | None) -> dict[str, InputModule]:
    """Return the input module of each role that a model reads; that of ``""`` reads texts without a role.

    ``template``: replaces the prompts of the model.
    """
    modules = {"": InputModule.of(model, "", template)}
    for role in _PROMPT_NAMES:
        # A Router may have no route for queries or for documents.
        with suppress(ValueError):
            modules[role] = InputModule.of(model, role, template)
    return modules


def _prompt_of_role(model: Any, role: str) -> str:
    """Return the prompt that sentence-transformers puts before texts of a role; empty for none."""
    prompt_name = model.default_prompt_name
    for name in _PROMPT_NAMES.get(role, ()):
        if name in model.prompts:
            prompt_name = name
            break
    return str(model.prompts.get(prompt_name) or "")
