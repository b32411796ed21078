"""Prompts: a text before each text, or a template around it, ``prompt=`` in an encoder spec.

A prompt without ``{text}`` stands before the text, as in sentence-transformers. A template with ``{text}`` twice is
read at its last place, where a causal model knows the whole text. ``{mask}`` is the tokenizer's mask token; such a
template is put together from tokens, as in the released code of PromptBERT, others from characters.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from mirrorbench.core.errors import ModelUnavailableError, UsageError, unknown_name
from mirrorbench.core.specs import Value

TEXT = "{text}"
"""Where the text stands in a template."""
MASK = "{mask}"

PROMPTS = {
    "eol": 'This sentence : "{text}" means in one word:"',
    "echo": "Document:{text}\nDocument again:{text}",
}
"""``eol``: PromptEOL (Jiang et al., "Scaling Sentence Embeddings with Large Language Models", 2023), whose released
code also ends sentences with a full stop and turns double quotes into single ones. ``echo``: the text twice (Springer
et al., "Repetition Improves Language Model Embeddings", 2024), the template for documents of their released code."""
READ: dict[str, dict[str, Value]] = {"eol": {"pooling": "last"}}
"""How a prompt is read unless the spec says otherwise."""

SETTINGS = "config_sentence_transformers.json"
"""File with the prompts of a model of sentence-transformers."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def template(prompt: str, path: Path) -> str:
    """What a spec's prompt stands for: a template with ``{text}``, or nothing for a prompt that adds nothing.

    Args:
        prompt: a template; a text to stand before each text; the name of one in ``PROMPTS`` or of the model's own.
        path: the model's directory.

    Raises:
        UnknownNameError: a single word that names no prompt.
    """
    if not _NAME.fullmatch(prompt):
        whole = prompt if TEXT in prompt else prompt + TEXT
        return "" if whole == TEXT else whole
    named = {**PROMPTS, **own_prompts(path)}
    if prompt not in named:
        error = unknown_name("prompt", prompt, list(named))
        error.hint += f"\nA text to stand before each text ends with a colon or a space: prompt={prompt}:%20"
        raise error
    return template(named[prompt] + ("" if TEXT in named[prompt] else TEXT), path)


def own_prompts(path: Path) -> dict[str, str]:
    """The prompts that a model's authors named in its settings for sentence-transformers."""
    file = path / SETTINGS
    if not file.is_file() and (path.parent / "modules.json").is_file():  # the transformer's own folder
        file = path.parent / SETTINGS
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8")).get("prompts") or {}
        return {str(name): str(prompt) for name, prompt in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise ModelUnavailableError(f"{file} cannot be read: {error}") from error


def prefix(prompt: str) -> str:
    """The text before the text, for libraries that know no other prompt; an error if the template has more."""
    before, _, after = prompt.partition(TEXT)
    if after or MASK in before:
        problem = f"the prompt {prompt!r} has more than a text before {TEXT}, and sentence-transformers knows no other"
        raise UsageError(problem, "Such an encoder cannot be exported; use it through mirrorbench run and encode.")
    return before
