"""Long texts, shortened before they are tokenised.

A tokenizer reads a whole text before it cuts the tokens, with up to 870 bytes of memory for each character. Therefore
only a beginning of a long text is tokenised, one that surely holds the tokens that the model reads (its window).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from mirrorbench.core.errors import UnreadableTextError

MOST_CHARACTERS = 2_000_000
"""Most characters that are tokenised at once, of one text or of several; up to 1.7 GB of memory (Chinese)."""
CHARACTERS_PER_TOKEN = 10
"""Characters per token of the window in a first attempt: about twice as many as a token has in most texts."""
MARGIN = 16
"""Tokens that a beginning must have after the window, since cutting the text may change the last ones."""
_MIN_RATIO = 4
"""Texts more than this many times as long as the first attempt are shortened; tokenising others costs no more."""
_SPACE = re.compile(r"\s")
_SPACE_INSIDE = re.compile(r"[^\s▁][\s▁]")
"""White space after a character of a token, as it is or as SentencePiece writes it."""


def shorten(texts: Sequence[str], tokenizer: Any, window: int) -> list[str]:
    """Return texts, long ones cut to a beginning that has the same first ``window`` token ids.

    A text is cut at white space. The beginning is doubled until it has more tokens than the window, and those of the
    window stay the same. Texts without white space are left whole, and so is every text if ``tokenizer`` (of
    transformers) cuts at the left, or has tokens of several words.

    Raises:
        UnreadableTextError: a text that has to be left whole has more than ``MOST_CHARACTERS``.
    """
    reason = ""
    if tokenizer.truncation_side == "left":
        reason = "the tokenizer cuts it at the left"
    elif _has_tokens_of_several_words(tokenizer):
        reason = "the tokenizer has tokens of several words"
    if reason:
        for text in texts:
            check_size(text, reason)
        return list(texts)
    return _beginnings(texts, tokenizer, window)


def count_longer(texts: Sequence[str], tokenizer: Any, window: int) -> int:
    """Count the texts with more than ``window`` tokens, special tokens included.

    A text with too few bytes for so many tokens is not tokenised. Of a long text only a beginning is, which is doubled
    until it decides the answer; one of ``MOST_CHARACTERS`` with too few tokens is taken not to be longer.
    """
    undecided = [text for text in texts if may_be_longer(text, window)]
    size = CHARACTERS_PER_TOKEN * (window + MARGIN)
    longer = 0
    while undecided:
        beginnings = [text[: min(_next_space(text, size), MOST_CHARACTERS)] for text in undecided]
        # At most so many tokens: the window, and some more, since a cut may change the last ones.
        ids = token_ids(beginnings, tokenizer, window + MARGIN)
        still_undecided = []
        for text, beginning, tokens in zip(undecided, beginnings, ids, strict=True):
            has_all_tokens = len(tokens) == window + MARGIN
            is_whole_text = beginning == text
            can_be_doubled = size < MOST_CHARACTERS
            if not has_all_tokens and not is_whole_text and can_be_doubled:
                still_undecided.append(text)
            elif len(tokens) > window:
                longer += 1
        undecided = still_undecided
        size *= 2
    return longer


_MOST_SPECIAL_TOKENS = 8
"""More than the special tokens around any text."""


def may_be_longer(text: str, window: int) -> bool:
    """Return whether a tokenizer of words, pieces or bytes may make more than ``window`` tokens of a text.

    A token has at least one byte, so the number of bytes is an upper limit. A normaliser may replace characters by
    those that they stand for (a ligature by several letters, a wide space by a narrow one), so both are counted.
    """
    n_bytes = len(text.encode("utf-8", "surrogatepass"))
    if not text.isascii():
        n_bytes += len(unicodedata.normalize("NFKD", text).encode("utf-8", "surrogatepass"))
    return n_bytes + _MOST_SPECIAL_TOKENS > window


def _beginnings(texts: Sequence[str], tokenizer: Any, window: int) -> list[str]:
    """Return texts, long ones cut at white space to a beginning with the same first ``window`` tokens.

    A beginning is doubled until it has more tokens than the window, and the last doubling has not changed the window's.
    The tokenizer's tokens must not depend on text that follows much later.
    """
    shortened = list(texts)
    size = CHARACTERS_PER_TOKEN * (window + MARGIN)
    # Rows of the texts for which a beginning is to be tried.
    pending = [row for row, text in enumerate(texts) if len(text) > _MIN_RATIO * size]
    # By row, the window's tokens of the beginning that was tried before; a first beginning has none to compare.
    previous_tokens: dict[int, list[int]] = {}
    while pending:
        for row in pending:
            shortened[row] = _beginning(texts[row], size)
        # A beginning that is the whole text needs no check.
        cut_rows = [row for row in pending if len(shortened[row]) < len(texts[row])]
        ids = token_ids([shortened[row] for row in cut_rows], tokenizer, window + MARGIN)
        pending = []
        for row, tokens in zip(cut_rows, ids, strict=True):
            is_long_enough = len(tokens) == window + MARGIN
            is_unchanged = tokens[:window] == previous_tokens.get(row)
            if not is_long_enough or not is_unchanged:
                pending.append(row)
            previous_tokens[row] = tokens[:window]
        size *= 2
    return shortened


def _has_tokens_of_several_words(tokenizer: Any) -> bool:
    """Return whether some tokens have white space inside, so that the best tokens of a text may depend on its end.

    Unigram models of SentencePiece that were trained without ``split_by_whitespace`` have them. The answer is
    remembered for each tokenizer.
    """
    if tokenizer not in _remembered_answers:
        _remembered_answers[tokenizer] = _finds_tokens_of_several_words(tokenizer)
    return _remembered_answers[tokenizer]


_remembered_answers: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def _finds_tokens_of_several_words(tokenizer: Any) -> bool:
    """Return whether the vocabulary has a token with white space inside that the tokenizer uses for its own text."""
    if not tokenizer.is_fast or type(tokenizer.backend_tokenizer.model).__name__ != "Unigram":
        return False
    for token, id_ in tokenizer.get_vocab().items():
        if not _SPACE_INSIDE.search(token):
            continue
        text = token.replace("▁", " ")
        if id_ in tokenizer(text, add_special_tokens=False)["input_ids"]:
            return True
    return False


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
    """Return a text up to the first white space after ``size`` characters.

    Raise an ``UnreadableTextError`` if that has more than ``MOST_CHARACTERS``.
    """
    beginning = text[: _next_space(text, size)]
    if len(beginning) > MOST_CHARACTERS:
        longest_beginning = text[:MOST_CHARACTERS].strip()
        if longest_beginning and not _SPACE.search(longest_beginning):
            check_size(text, "it has no white space where it could be cut")
        check_size(text, f"its first {MOST_CHARACTERS:,} characters have too few tokens")
    return beginning


def _next_space(text: str, size: int) -> int:
    """Return the index of the first white space after ``size`` characters, or of the text's end: no word is divided."""
    space = _SPACE.search(text, size)
    return space.start() if space else len(text)


def parts_of_texts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield texts in parts of at most ``MOST_CHARACTERS``, or of one text."""
    part: list[str] = []
    characters = 0
    for text in texts:
        if part and characters + len(text) > MOST_CHARACTERS:
            yield part
            part = []
            characters = 0
        part.append(text)
        characters += len(text)
    if part:
        yield part
