"""Positions of a model: how many tokens it can read, and the position of a text's first token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_FROM_ZERO = frozenset(("albert", "bert", "distilbert", "electra", "modernbert"))
"""Types of models that number positions from 0."""
_FROM_PADDING = frozenset(
    (
        "camembert",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
    )
)
"""Types of models that number positions from the id of padding + 1."""


def positions_of_settings(settings: Mapping[str, Any]) -> int | None:
    """Return the most tokens that a model with this ``config.json`` can read; ``None`` if the model itself must tell.

    The number is known for types of the papers' models, so that transformers need not be imported, which takes seconds.
    """
    model_type = settings.get("model_type")
    stated = settings.get("max_position_embeddings")
    if model_type not in _FROM_ZERO | _FROM_PADDING or type(stated) is not int:
        return None
    return max(stated - first_position(settings.get), 0)


def positions_of_model(model: Any) -> int:
    """Return the most tokens that a model of transformers can read, 0 if unknown.

    This is the number in its configuration, unless a table of positions has fewer rows for tokens of a text.
    """
    config = model.config
    stated = getattr(config, "max_position_embeddings", None)
    tables = list(_position_tables(model))
    limits = [_rows_for_tokens(table) for table in tables]
    # DeBERTa's attention is relative: there is a limit only if absolute positions are added to the embeddings too.
    relative = getattr(config, "relative_attention", False) and not tables
    if type(stated) is int and stated > 0 and not relative:
        limits.append(stated)
    return max(min(limits, default=0), 0)


def first_position(setting: Callable[[str], Any]) -> int:
    """Return the position of a text's first token: padding_idx + 1 in RoBERTa's family, else 0.

    ``setting`` looks up a key of the configuration.
    """
    if setting("model_type") not in _FROM_PADDING:
        return 0
    return (setting("pad_token_id") or 0) + 1


def _position_tables(model: Any) -> Iterator[Any]:
    """Yield the modules that look up an embedding of each position."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        is_table = "Embedding" in type(module).__name__ and getattr(weight, "ndim", 0) == 2
        if is_table and "position" in name.rpartition(".")[2]:
            yield module


def _rows_for_tokens(table: Any) -> int:
    """Return the number of rows of a table of positions after those for padding (RoBERTa) or an offset (BART, OPT)."""
    padding = getattr(table, "padding_idx", None)
    if padding is None:
        offset = getattr(table, "offset", 0)
    else:
        offset = padding + 1
    return int(table.weight.shape[0]) - int(offset or 0)
