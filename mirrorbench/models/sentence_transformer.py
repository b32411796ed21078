"""Models that sentence-transformers itself opens: their encoding in batches, checks and identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.devices import autocast, device_type, out_of_memory, own_weights
from mirrorbench.core.encoder_protocol import as_inputs
from mirrorbench.core.errors import ModelUnavailableError, not_installed
from mirrorbench.core.identity import digest
from mirrorbench.core.truncation import Truncation
from mirrorbench.models.batching import (
    PASS_COST,
    TOKEN_BUDGET,
    similar_length_batches,
    within_memory,
)
from mirrorbench.models.encoder_systems import EncoderContext, LazyModel
from mirrorbench.models.families import not_telling_apart, positions_of, unreadable
from mirrorbench.models.input_modules import InputModule, input_modules
from mirrorbench.models.long_texts import MOST_CHARACTERS
from mirrorbench.models.model_files import directory_checksum, model_files
from mirrorbench.models.opening import (
    quiet_transformers,
    read_sentence_transformer,
    reads_file,
    text_folder,
)
from mirrorbench.models.pooling import TEXT
from mirrorbench.models.sentence_transformer_files import MOST_TOKENS, length_note
from mirrorbench.models.tokenizer_files import TOKENS_OF_FILE
from mirrorbench.models.traits import ROUNDING, reads_by_longest
from mirrorbench.storage.checksums import unchanged

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.encoder_protocol import Array, TextInput


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
        with unchanged(lambda: model_files(path), files, str(path)):
            model = _load_sentence_transformer(path, context)
            own_weights(model)
            if max_length is not None:
                model.max_seq_length = max_length
        batched = _BatchedModel(model, context, prompt)
        for reader in batched.inputs.values():
            reader.missing.check_special_tokens(path, reader.tokenizer)
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
        template = None if prompt is None else prompt or TEXT
        self.inputs = input_modules(model, template)
        # Whether texts are read one by one, since others in a batch would change their vectors.
        configs = [getattr(module, "config", None) for module in model.modules()]
        self.alone = any(reads_by_longest(c) for c in configs if hasattr(c, "to_json_string"))
        for reader in self.inputs.values():
            if reader.tokenizer is not None and not _can_pad(reader):
                self.alone = True  # a text alone needs no padding

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for results."""
        notes = (reader.missing.note for reader in self.inputs.values())
        return tuple(dict.fromkeys(note for note in notes if note))

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that the model cannot read."""
        return any(reader.missing.names for reader in self.inputs.values())

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that has no embedding."""
        if not self.refuses_texts:
            return
        for role, reader in self.inputs.items():
            texts = [item.text for item in inputs if self._role(item) == role]
            if texts:
                reader.check(texts)

    def count_cut(self, inputs: Sequence[TextInput], pooling: Any = None) -> Truncation | None:
        """Count the inputs that are longer than the model reads with their prompt; ``None`` if it cuts none."""
        parts = []
        for role, reader in self.inputs.items():
            texts = [item.text for item in inputs if self._role(item) == role]
            if texts:
                parts.append(reader.count_cut(texts))
        return Truncation.total(parts)

    def _role(self, item: TextInput) -> str:
        """Return the role under which an input is read: an own prompt replaces those of all roles."""
        return item.role if self.prompt is None else ""

    def words(self) -> list[str]:
        """Return the words of the vocabulary that the model can read, in their order; a model of images has none."""
        known: Iterable[str] = getattr(getattr(self.model, "tokenizer", None), "get_vocab", list)()
        missing = set(self.inputs[""].missing.names.values())
        return sorted(word for word in known if word.isalnum() and word not in missing)

    def encode(self, inputs: list[TextInput]) -> Array:
        """Encode inputs, each under the prompt of its role; ``prompt`` replaces the prompts of all roles."""
        self.check_inputs(inputs)
        roles = np.array([self._role(item) for item in inputs])
        by_role = {"query": self.model.encode_query, "document": self.model.encode_document}
        encoded: Any = None
        for role in np.unique(roles):
            rows = (roles == role).nonzero()[0]
            reader = self.inputs.get(role, self.inputs[""])
            texts = reader.shortened([self._filled(inputs[row]) for row in rows])
            vectors = self._encode_texts(texts, by_role.get(role, self.model.encode))
            encoded = (
                np.empty((len(inputs), vectors.shape[1]), vectors.dtype)
                if encoded is None
                else encoded
            )
            encoded[rows] = vectors
        return encoded  # type: ignore[no-any-return]

    def _filled(self, item: TextInput) -> str:
        return self.template.replace(TEXT, item.text) if self.template else item.text

    def _encode_texts(self, texts: list[str], encode_texts: Callable[..., Any]) -> Array:
        import torch

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


def _can_pad(reader: InputModule) -> bool:
    """Return whether an input module can pad texts; a tokenizer without a token for it gets one, to be used at all."""
    tokenizer = reader.tokenizer
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.bos_token
        return False
    return tokenizer.pad_token_id not in reader.missing.names


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
