"""Models that sentence-transformers itself opens: their encoding in batches, checks and identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.checksums import content, unchanged
from mirrorbench.core.devices import autocast, device_type, out_of_memory, own_weights
from mirrorbench.core.encoder_protocol import as_inputs
from mirrorbench.core.errors import ModelUnavailableError, not_installed
from mirrorbench.core.identity import digest
from mirrorbench.models.batching import (
    PASS_COST,
    TOKEN_BUDGET,
    Ragged,
    similar_length_batches,
    within_memory,
)
from mirrorbench.models.encoder_systems import EncoderContext, LazyModel
from mirrorbench.models.families import not_telling_apart, positions_of, unreadable
from mirrorbench.models.long_texts import MOST_CHARACTERS, check_size, shorten, token_ids
from mirrorbench.models.missing_embeddings import MissingEmbeddings
from mirrorbench.models.opening import (
    quiet_transformers,
    read_sentence_transformer,
    reads_file,
    text_folder,
)
from mirrorbench.models.pooling import TEXT
from mirrorbench.models.sentence_transformer_files import length_note
from mirrorbench.models.tokenizer_files import TOKENS_OF_FILE
from mirrorbench.models.traits import ROUNDING, reads_by_longest

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.encoder_protocol import Array, TextInput

_TEXTS_PER_CHECK = 2048
MOST_TOKENS = 512
"""Maximum length, in tokens, of a model of sentence-transformers that names none."""


def sentence_transformer(
    path: Path,
    context: EncoderContext,
    prompt: str | None = None,
    max_length: int | None = None,
) -> LazyModel:
    """Create an encoder from the directory of a sentence-transformers model; contexts are encoded as whole texts.

    ``prompt``: a template in place of the model's default prompt; the model decides whether a prompt before the text is
    pooled too. ``max_length``: tokens kept of each text, in place of the model's own.
    """
    files = directory_checksum(path)

    def load() -> _BatchedModel:
        with unchanged(lambda: _model_files(path), files, str(path)):
            model = _load_sentence_transformer(path, context)
            own_weights(model)
            if max_length is not None:
                model.max_seq_length = max_length
        batched = _BatchedModel(model, context, prompt)
        words = batched.words()
        _check_varies(path, batched, words)
        batched.alone = batched.alone or _reads_padding(batched, words)
        return batched

    identity: dict[str, str | int] = {"files": files}
    if prompt is not None:
        identity["prompt"] = prompt
    if max_length is not None:
        identity["max_length"] = max_length
    notes = []
    folder = text_folder(path)
    if reads_file(folder):
        identity["tokenizer"] = "file"
        notes.append(TOKENS_OF_FILE)
    if max_length is None and (note := length_note(folder, positions_of(folder))):
        notes.append(note)
    fingerprint = digest(identity) if len(identity) > 1 else files
    return LazyModel(fingerprint, load, notes_on_files=tuple(notes))


class _BatchedModel:
    """A model of sentence-transformers with mirrorbench's batches, and prompts by role of the input."""

    def __init__(self, model: Any, context: EncoderContext, prompt: str | None) -> None:
        import torch

        self.model, self.prompt, self.precision = model, prompt, context.precision
        self.device = torch.device(context.device)
        self.limit = model.get_max_seq_length() or MOST_TOKENS
        # The model takes a prompt before texts; it knows none around them, so such a template is filled here.
        is_prefix = bool(prompt) and str(prompt).endswith(TEXT) and str(prompt).count(TEXT) == 1
        self.prefix = str(prompt).removesuffix(TEXT) if is_prefix else ""
        self.template = "" if self.prefix else prompt
        # Whether texts are read one by one, since others in a batch would change their vectors.
        configs = [getattr(module, "config", None) for module in model.modules()]
        self.alone = any(reads_by_longest(c) for c in configs if hasattr(c, "to_json_string"))
        # The tokenizer of transformers that cuts texts; modules of words and of images have none.
        tokenizer = getattr(model, "tokenizer", None)
        self.tokenizer = tokenizer if hasattr(tokenizer, "truncation_side") else None
        self.missing = MissingEmbeddings.of(tokenizer, getattr(model[0], "auto_model", None))
        if getattr(tokenizer, "pad_token_id", None) in self.missing.names:
            self.alone = True  # a text alone needs no padding

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for results."""
        return (self.missing.note,) if self.missing.note else ()

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that the model cannot read."""
        return bool(self.missing.names)

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that has no embedding."""
        if not self.refuses_texts:
            return
        texts = [item.text for item in inputs]
        for start in range(0, len(texts), _TEXTS_PER_CHECK):
            chunk = texts[start : start + _TEXTS_PER_CHECK]
            shortened = shorten(chunk, self.tokenizer, self.limit)
            ids = Ragged.of(token_ids(shortened, self.tokenizer, self.limit))
            self.missing.check(ids, chunk)

    def words(self) -> list[str]:
        """Return the words of the vocabulary that the model can read, in their order; a model of images has none."""
        known: Iterable[str] = getattr(getattr(self.model, "tokenizer", None), "get_vocab", list)()
        missing = set(self.missing.names.values())
        return sorted(word for word in known if word.isalnum() and word not in missing)

    def encode(self, inputs: list[TextInput]) -> Array:
        """Encode inputs, each under the prompt of its role; ``prompt`` replaces the prompts of all roles."""
        self.check_inputs(inputs)
        roles = np.array([item.role if self.prompt is None else "" for item in inputs])
        by_role = {"query": self.model.encode_query, "document": self.model.encode_document}
        encoded: Any = None
        for role in np.unique(roles):
            rows = (roles == role).nonzero()[0]
            vectors = self._encode_role(
                [inputs[row] for row in rows], by_role.get(role, self.model.encode)
            )
            encoded = (
                np.empty((len(inputs), vectors.shape[1]), vectors.dtype)
                if encoded is None
                else encoded
            )
            encoded[rows] = vectors
        return encoded  # type: ignore[no-any-return]

    def _encode_role(self, inputs: list[TextInput], encode_texts: Callable[..., Any]) -> Array:
        import torch

        texts = [
            self.template.replace(TEXT, item.text) if self.template else item.text
            for item in inputs
        ]
        texts = self._shortened(texts)
        # Characters stand for tokens, of which most texts have fewer: counting tokens would tokenise twice.
        lengths = np.array([min(len(text), self.limit) for text in texts], dtype=np.int64)
        type_ = device_type(self.device)
        options = {} if self.prompt is None else {"prompt": self.prefix}
        similar = similar_length_batches(lengths, TOKEN_BUDGET[type_], pass_cost=PASS_COST[type_])
        batches = [[*range(len(texts))]] if type_ == "cpu" else list(similar)

        def compute(rows: list[int]) -> torch.Tensor:
            batch, size = [texts[row] for row in rows], 32 if type_ == "cpu" else len(rows)
            # The tokenizer reads the texts of a batch whole, at once.
            if self.alone or size * max(map(len, batch)) > MOST_CHARACTERS:
                size = 1
            with quiet_transformers(), autocast(self.device, self.precision):
                vectors = encode_texts(
                    batch,
                    batch_size=size,
                    convert_to_tensor=True,
                    show_progress_bar=False,
                    **options,
                )
            return vectors.float()  # type: ignore[no-any-return]

        rows, parts = zip(*within_memory(batches, compute, self.device, lengths), strict=True)
        return torch.cat(parts).cpu().numpy()[np.argsort(np.concatenate(rows))]

    def _shortened(self, texts: list[str]) -> list[str]:
        """Return texts, of long ones a beginning that holds all tokens that the model reads."""
        if self.tokenizer is None or not self.model.get_max_seq_length():
            for text in texts:
                check_size(text, "the model cuts no text")
            return texts
        return shorten(texts, self.tokenizer, self.limit)


def _load_sentence_transformer(path: Path, context: EncoderContext) -> Any:
    if find_spec("sentence_transformers") is None:
        raise not_installed(ModelUnavailableError, "sbert needs", "sentence-transformers", "sbert")
    try:
        return read_sentence_transformer(path, context.device, context.precision)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        ImportError,
        RuntimeError,
        AttributeError,
    ) as error:
        if out_of_memory(error):
            raise unreadable(path, error) from error
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise ModelUnavailableError(
            f"sentence-transformers cannot open {path}: {type(error).__name__}: {first[:300]}",
            "Only floating-point weights are read, not int8, GGUF or ONNX; code beside a model is never run.",
        ) from error


def _check_varies(path: Path, model: _BatchedModel, words: Sequence[str]) -> None:
    """Raise if a model makes no vectors of texts, or equal ones of two texts of its own words."""
    texts = [" ".join(words[first :: max(1, len(words) // 16)]) for first in range(2)]
    try:
        left, right = model.encode(as_inputs(texts))
    except KeyError as error:
        raise ModelUnavailableError(
            f"{path} makes no vectors of texts: none of its modules returns {error}",
            f"Add a Pooling to modules.json, or read its transformer alone: {path}:pooling=mean",
        ) from error
    if len(words) > 1 and np.array_equal(left, right):
        raise not_telling_apart(
            f"the sentence-transformers model in {path}", "its weights, tokenizer and prompt"
        )


def _reads_padding(model: _BatchedModel, words: Sequence[str]) -> bool:
    """Return whether a short text has another vector beside a long one, by more than rounding."""
    if len(words) < 2:
        return False
    alone = model.encode(as_inputs(words[:1]))[0]
    beside = model.encode(as_inputs([words[0], " ".join(words[:12])]))[0]
    rounding = ROUNDING[model.precision] * np.linalg.norm(alone)
    return bool(np.linalg.norm(alone - beside) > rounding)


_IGNORED = {"README.md", "onnx", "openvino", ".git", ".gitattributes", ".cache"}


def directory_checksum(path: Path) -> str:
    """Return the SHA-256 of all files below a model directory, except documentation and other weight formats."""
    return content(_model_files(path))


def _model_files(path: Path) -> list[tuple[str, Path]]:
    named = ((file.relative_to(path), file) for file in sorted(path.rglob("*")) if file.is_file())
    return [(name.as_posix(), file) for name, file in named if _IGNORED.isdisjoint(name.parts)]
