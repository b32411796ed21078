"""Long texts, shortened before they are tokenised.

A tokenizer reads a whole text before it cuts the tokens, with some 140 bytes of memory for each character. Of a long
text only a beginning that surely holds the tokens of the window is tokenised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mirrorbench.core.errors import UnreadableTextError

MOST_CHARACTERS = 10_000_000
"""Most characters that are tokenised at once, of one text or of several; about 1.4 GB of memory."""
CHARACTERS_PER_TOKEN = 10
"""Characters of a first attempt for each token of the window: about twice as many as a token has in most texts."""
MARGIN = 16
"""Tokens behind the window that a beginning must have, which a cut may change."""
_SHORT = 4
"""A text of at most so many times the first attempt is left whole: to tokenise it once costs no more."""
_SPACE = re.compile(r"\s")


def shorten(texts: Sequence[str], tokenizer: Any, window: int) -> list[str]:
    """Return texts, of the long ones a beginning that has the same first ``window`` token ids.

    A text is cut at white space. The beginning is doubled until it has more tokens than the window, and until these do
    not change any more. Texts without white space are left whole, and so is every text if ``tokenizer`` (of
    transformers) cuts at the left.

    Raises:
        UnreadableTextError: a text that has to be left whole has more than ``MOST_CHARACTERS``.
    """
    shortened = list(texts)
    if tokenizer.truncation_side == "left":
        for text in texts:
            check_size(text, "the tokenizer cuts it at the left")
        return shortened
    size = CHARACTERS_PER_TOKEN * (window + MARGIN)
    long = [row for row, text in enumerate(texts) if len(text) > _SHORT * size]
    before: dict[int, list[int]] = {}
    while long:
        for row in long:
            shortened[row] = _beginning(texts[row], size)
        long = [row for row in long if len(shortened[row]) < len(texts[row])]
        ids = token_ids([shortened[row] for row in long], tokenizer, window + MARGIN)
        open_rows = []
        for row, tokens in zip(long, ids, strict=True):
            settled = len(tokens) == window + MARGIN and tokens[:window] == before.get(row)
            if not settled:
                open_rows.append(row)
            before[row] = tokens[:window]
        long = open_rows
        size *= 2
    return shortened


def token_ids(texts: Sequence[str], tokenizer: Any, max_length: int) -> list[list[int]]:
    """Return the token ids of each text, with special tokens, cut to ``max_length``."""
    ids: list[list[int]] = []
    for part in parts_of_texts(texts):
        ids += tokenizer(
            part,
            truncation=True,
            max_length=max_length,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
    return ids


def check_size(text: str, reason: str) -> None:
    """Raise an ``UnreadableTextError`` for more than ``MOST_CHARACTERS``; ``reason``: why the whole text is read."""
    if len(text) > MOST_CHARACTERS:
        raise UnreadableTextError(
            text,
            f"the text has {len(text):,} characters, and since {reason} it is read as a whole, which takes at most "
            f"{MOST_CHARACTERS:,}",
            "Divide it into several texts, or shorten it.",
        )


def _beginning(text: str, size: int) -> str:
    """Return a text up to the first white space after ``size`` characters."""
    space = _SPACE.search(text, size)
    beginning = text[: space.start()] if space else text
    if len(beginning) > MOST_CHARACTERS:
        check_size(text, "it has no white space where it could be cut")
    return beginning


def parts_of_texts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield texts in parts of at most ``MOST_CHARACTERS``, or of one text."""
    part: list[str] = []
    characters = 0
    for text in texts:
        if part and characters + len(text) > MOST_CHARACTERS:
            yield part
            part, characters = [], 0
        part.append(text)
        characters += len(text)
    if part:
        yield part
