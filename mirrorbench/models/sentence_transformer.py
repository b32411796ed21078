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
    reads_tokenizer_file,
    text_folder,
)
from mirrorbench.models.pooling import TEXT
from mirrorbench.models.sentence_transformer_files import UNSTATED_MAX_LENGTH, length_note
from mirrorbench.models.tokenizer_files import FILE_TOKENIZER_NOTE
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
    """Create an encoder from the directory of a sentence-transformers model; words in context are encoded as texts.

    Args:
        path: directory of the model.
        context: settings of the run.
        prompt: a template in place of the model's prompts; the model decides whether a prompt before the text is pooled
            too.
        max_length: tokens kept of each text, in place of the model's own number.
    """
    checksum = directory_checksum(path)

    def load() -> _BatchedModel:
        with unchanged(lambda: model_files(path), checksum, str(path)):
            model = _load_sentence_transformer(path, context)
            # Copy the weights, so that later changes of the files do not reach them.
            own_weights(model)
            if max_length is not None:
                model.max_seq_length = max_length
        batched = _BatchedModel(model, context, prompt)
        # Check that the model can read texts and tells them apart, and whether padding changes its vectors.
        for reader in batched.readers.values():
            reader.missing_embeddings.check_special_tokens(path, reader.tokenizer)
        words = batched.words()
        _check_varies(path, batched, words)
        if not batched.reads_one_by_one:
            batched.reads_one_by_one = _padding_changes_vectors(batched, words)
        return batched

    identity: dict[str, str | int] = {"files": checksum}
    if prompt is not None:
        identity["prompt"] = prompt
    if max_length is not None:
        identity["max_length"] = max_length
    notes = []
    folder = text_folder(path)
    if reads_tokenizer_file(folder):
        identity["tokenizer"] = "file"
        notes.append(FILE_TOKENIZER_NOTE)
    if max_length is None:
        note = length_note(folder, positions_of(folder))
        if note:
            notes.append(note)
    # The fingerprint of a model that is read as its files say is their checksum.
    fingerprint = digest(identity) if len(identity) > 1 else checksum
    return LazyModel(fingerprint, load, notes_on_files=tuple(notes))


class _BatchedModel:
    """A model of sentence-transformers that encodes in mirrorbench's batches, with a prompt for each role of inputs."""

    def __init__(self, model: Any, context: EncoderContext, prompt: str | None) -> None:
        import torch

        self.model = model
        self.prompt = prompt
        self.precision = context.precision
        self.device = torch.device(context.device)
        self.limit = model.get_max_seq_length() or UNSTATED_MAX_LENGTH
        # A prompt that only precedes the text is passed to the model, as `prefix`. Any other one is filled in here, as
        # `template`. Both are empty without a prompt.
        self.prefix = ""
        self.template = prompt or ""
        if self.template.endswith(TEXT) and self.template.count(TEXT) == 1:
            self.prefix = self.template.removesuffix(TEXT)
            self.template = ""
        # Input modules by role. An empty prompt replaces the model's own ones; without a prompt they are used.
        template_of_roles = TEXT if prompt == "" else prompt
        self.readers = input_modules(model, template_of_roles)
        # Texts are read one by one if others in a batch would change their vectors.
        configs = [getattr(module, "config", None) for module in model.modules()]
        self.reads_one_by_one = any(
            reads_by_longest(config) for config in configs if hasattr(config, "to_json_string")
        )
        for reader in self.readers.values():
            if reader.tokenizer is not None and not _can_pad(reader):
                # A single text needs no padding.
                self.reads_one_by_one = True

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for results."""
        notes = (reader.missing_embeddings.note for reader in self.readers.values())
        return tuple(dict.fromkeys(note for note in notes if note))

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that the model cannot read."""
        return any(reader.missing_embeddings.names for reader in self.readers.values())

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that has no embedding."""
        if not self.refuses_texts:
            return
        for role, reader in self.readers.items():
            texts = [item.text for item in inputs if self._role(item) == role]
            if texts:
                reader.check(texts)

    def count_cut(self, inputs: Sequence[TextInput], pooling: Any = None) -> Truncation | None:
        """Count the inputs that are longer than the model reads with their prompt; ``None`` if it cuts none."""
        parts = []
        for role, reader in self.readers.items():
            texts = [item.text for item in inputs if self._role(item) == role]
            if texts:
                parts.append(reader.count_cut(texts))
        return Truncation.total(parts)

    def _role(self, item: TextInput) -> str:
        """Return the role under which an input is read; empty if ``prompt`` replaces the prompts of all roles."""
        return item.role if self.prompt is None else ""

    def words(self) -> list[str]:
        """Return the words of the vocabulary that the model can read, sorted; empty without a vocabulary."""
        tokenizer: Any = getattr(self.model, "tokenizer", None)
        if not hasattr(tokenizer, "get_vocab"):
            return []
        missing = set(self.readers[""].missing_embeddings.names.values())
        words = []
        for token in tokenizer.get_vocab():
            if token.isalnum() and token not in missing:
                words.append(token)
        return sorted(words)

    def encode(self, inputs: list[TextInput]) -> Array:
        """Encode inputs, each under the prompt of its role; ``prompt`` replaces the prompts of all roles."""
        self.check_inputs(inputs)
        roles = np.array([self._role(item) for item in inputs])
        methods = {"query": self.model.encode_query, "document": self.model.encode_document}
        encoded: Any = None
        for role in np.unique(roles):
            rows = np.flatnonzero(roles == role)
            reader = self.readers.get(role, self.readers[""])
            texts = reader.shortened([self._filled(inputs[row]) for row in rows])
            vectors = self._encode_texts(texts, methods.get(role, self.model.encode))
            if encoded is None:
                encoded = np.empty((len(inputs), vectors.shape[1]), vectors.dtype)
            encoded[rows] = vectors
        return encoded  # type: ignore[no-any-return]

    def _filled(self, item: TextInput) -> str:
        """Return the text of an input in the template, if there is one."""
        return self.template.replace(TEXT, item.text) if self.template else item.text

    def _encode_texts(self, texts: list[str], encode: Callable[..., Any]) -> Array:
        """Encode texts in batches that fit the device, and return their vectors in the order of the texts.

        ``encode``: the method of the model.
        """
        import torch

        # Take a text's characters for its number of tokens: counting the tokens would tokenise the text twice.
        estimated_tokens = np.array([min(len(text), self.limit) for text in texts], dtype=np.int64)
        device = device_type(self.device)
        # Without a prompt the model puts its own before texts; an empty one makes it put none.
        options = {} if self.prompt is None else {"prompt": self.prefix}
        batches: Iterable[list[int]]
        if device == "cpu":
            # One call, in which the library makes batches of 32.
            batches = [list(range(len(texts)))]
        else:
            budget = TOKEN_BUDGET[device]
            batches = similar_length_batches(estimated_tokens, budget, pass_cost=PASS_COST[device])

        def encode_rows(rows: list[int]) -> torch.Tensor:
            batch = [texts[row] for row in rows]
            batch_size = 32 if device == "cpu" else len(rows)
            # A tokenizer processes the whole texts of a batch before it cuts them, for which memory must suffice.
            has_too_many_characters = batch_size * max(map(len, batch)) > MOST_CHARACTERS
            if self.reads_one_by_one or has_too_many_characters:
                batch_size = 1
            with quiet_transformers(), autocast(self.device, self.precision):
                vectors = encode(
                    batch,
                    batch_size=batch_size,
                    convert_to_tensor=True,
                    show_progress_bar=False,
                    **options,
                )
            return vectors.float()  # type: ignore[no-any-return]

        computed_rows = []
        computed_vectors = []
        for rows, vectors in within_memory(batches, encode_rows, self.device, estimated_tokens):
            computed_rows.append(rows)
            computed_vectors.append(vectors)
        # Undo the order of the batches.
        order = np.argsort(np.concatenate(computed_rows))
        return torch.cat(computed_vectors).cpu().numpy()[order]


def _can_pad(reader: InputModule) -> bool:
    """Return whether an input module can pad texts; a tokenizer without a padding token gets another one as such.

    ``reader`` has a tokenizer.
    """
    tokenizer = reader.tokenizer
    if tokenizer.pad_token is None:
        # sentence-transformers requires a padding token, even for single texts.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.bos_token
        return False
    return tokenizer.pad_token_id not in reader.missing_embeddings.names


def _load_sentence_transformer(path: Path, context: EncoderContext) -> Any:
    """Open a sentence-transformers model; any failure but a lack of memory raises a ``ModelUnavailableError``."""
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
        lines = str(error).strip().splitlines()
        first_line = lines[0] if lines else "no message"
        raise ModelUnavailableError(
            f"sentence-transformers cannot open {path}: {type(error).__name__}: {first_line[:300]}",
            "Only floating-point weights are read, not int8, GGUF or ONNX; code beside a model is never run.",
        ) from error


def _check_varies(path: Path, model: _BatchedModel, words: Sequence[str]) -> None:
    """Raise a ``ModelUnavailableError`` if a model makes no vectors, or one vector of two texts of its words."""
    step = max(1, len(words) // 16)
    first_text = " ".join(words[::step])
    second_text = " ".join(words[1::step])
    try:
        first_vector, second_vector = model.encode(as_inputs([first_text, second_text]))
    except KeyError as error:
        raise ModelUnavailableError(
            f"{path} makes no vectors of texts: none of its modules returns {error}",
            f"Add a Pooling to modules.json, or read its transformer alone: {path}:pooling=mean",
        ) from error
    if len(words) > 1 and np.array_equal(first_vector, second_vector):
        raise not_telling_apart(
            f"the sentence-transformers model in {path}", "its weights, tokenizer and prompt"
        )


def _padding_changes_vectors(model: _BatchedModel, words: Sequence[str]) -> bool:
    """Return whether the vector of a short text changes, by more than rounding, beside a long one in a batch."""
    if len(words) < 2:
        return False
    short_text = words[0]
    long_text = " ".join(words[:12])
    vector = model.encode(as_inputs([short_text]))[0]
    padded_vector = model.encode(as_inputs([short_text, long_text]))[0]
    rounding = ROUNDING[model.precision] * np.linalg.norm(vector)
    return bool(np.linalg.norm(vector - padded_vector) > rounding)
