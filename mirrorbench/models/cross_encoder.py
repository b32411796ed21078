"""Cross-encoders of sentence-transformers, which score a pair of texts and have no vectors: ``crossencoder``.

Spec keys: ``path`` (a directory) or ``model`` (a hub id), and ``max_length`` (tokens of a pair, by default the model's).
Cross-encoders can score user data of the kind ``reranking``. Scores are those before the model's last activation, such
as a sigmoid, which would make high scores equal; the order is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.devices import autocast
from mirrorbench.core.errors import EncodingError, ModelUnavailableError, UsageError, not_installed
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.core.truncation import Truncation
from mirrorbench.models.backbones import configuration, locate
from mirrorbench.models.encoder_systems import EncoderContext, LazyModel, checked_params
from mirrorbench.models.families import positions_of
from mirrorbench.models.long_texts import shorten
from mirrorbench.models.model_files import directory_checksum, model_files
from mirrorbench.models.opening import quiet_transformers, read_cross_encoder, text_folder
from mirrorbench.models.positions import positions_of_model
from mirrorbench.models.sentence_transformer_files import UNSTATED_MAX_LENGTH
from mirrorbench.storage.checksums import unchanged
from mirrorbench.storage.files import resolved

if TYPE_CHECKING:
    from mirrorbench.core.encoder_protocol import Array, TextInput

_BATCH = 32
"""Pairs that are computed together; neighbours are of similar length."""
_PAIRS_PER_COUNT = 1024
"""Pairs that are tokenised together to count those that are cut."""
_HEADS = ("ForSequenceClassification", "ForCausalLM")
"""Endings of the architectures that sentence-transformers reads as cross-encoders."""


@hookimpl
def register_encoders(register: Register) -> None:
    """Register ``crossencoder``."""
    register(
        "crossencoder",
        create_cross_encoder,
        "a cross-encoder of sentence-transformers, for reranking: path=DIR or model=ID",
    )


class LazyCrossEncoder(LazyModel):
    """A cross-encoder whose weights are loaded when it first scores."""

    reads_pairs = True
    """Whether inputs are pairs of texts."""


def create_cross_encoder(spec: EncoderSpec, context: EncoderContext) -> LazyCrossEncoder:
    """Create the encoder of a ``crossencoder`` spec; a model of the hub is downloaded unless the context is offline.

    Raises:
        UsageError: neither or both of ``path`` and ``model`` are given, or a maximum length that the model cannot read.
        ModelUnavailableError: the directory holds no cross-encoder with one score.
    """
    params = checked_params(spec, path=str, model=str, max_length=int)
    if ("path" in params) == ("model" in params):
        raise UsageError(
            f"{spec} needs either path or model",
            "Write crossencoder:path=DIR, or crossencoder:model=HUB_ID",
        )
    directory = _directory(spec, params, context.offline)
    max_length = params.get("max_length")
    positions = positions_of(text_folder(directory))  # 0 if unknown
    if max_length is not None and (max_length < 1 or 0 < positions < max_length):
        raise UsageError(
            f"{spec}: max_length={max_length}, but {directory.name} has {positions} positions",
            f"Write {spec.with_params(max_length=positions)}",
        )
    checksum = directory_checksum(directory)

    def load() -> _CrossEncoder:
        with unchanged(lambda: model_files(directory), checksum, str(directory)):
            return _CrossEncoder.read(directory, context, max_length)

    identity: dict[str, str | int] = {"files": checksum, "scores": "pairs"}
    if max_length is not None:
        identity["max_length"] = max_length
    return LazyCrossEncoder(digest(identity), load)


def _directory(spec: EncoderSpec, params: dict[str, Any], offline: bool) -> Path:
    """Return the model's directory, downloaded if needed.

    Raise a ``ModelUnavailableError`` if it is missing or holds no cross-encoder.
    """
    if "model" in params:
        directory = locate(EncoderSpec(params["model"], spec.revision), "en", offline)
    else:
        directory = resolved(params["path"])
        if not directory.is_dir():
            raise ModelUnavailableError(f"{spec}: there is no such directory: {directory}")
    # The model's own folder, or that of its first module.
    folder = text_folder(directory)
    if not (folder / "config.json").is_file():
        raise ModelUnavailableError(f"{spec}: {directory} has no config.json of a model")
    architectures = configuration(folder).get("architectures") or ["no architecture"]
    if not str(architectures[0]).endswith(_HEADS):
        raise ModelUnavailableError(
            f"{spec}: {directory} is not a cross-encoder: its config.json names {architectures[0]}",
            f"A model without a score of its own encodes texts: -e {directory}",
        )
    return directory


class _CrossEncoder:
    """An open cross-encoder."""

    notes = ()
    refuses_texts = False

    def __init__(self, model: Any, context: EncoderContext) -> None:
        import torch

        self.model = model
        self.precision = context.precision
        self.device = torch.device(context.device)
        self.tokenizer = model.tokenizer
        self.window = int(model.max_seq_length or UNSTATED_MAX_LENGTH)

    @classmethod
    def read(
        cls, directory: Path, context: EncoderContext, max_length: int | None
    ) -> _CrossEncoder:
        """Open the model in a directory; ``ModelUnavailableError`` if that fails, or if it gives several scores."""
        if find_spec("sentence_transformers") is None:
            raise not_installed(
                ModelUnavailableError, "crossencoder needs", "sentence-transformers", "sbert"
            )
        try:
            model = read_cross_encoder(directory, context.device, context.precision)
        except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError) as error:
            lines = str(error).strip().splitlines()
            reason = lines[0][:300] if lines else "no message"
            raise ModelUnavailableError(
                f"sentence-transformers cannot open {directory} as a cross-encoder: {type(error).__name__}: {reason}"
            ) from error
        if model.num_labels != 1:
            raise ModelUnavailableError(
                f"{directory} gives a pair {model.num_labels} scores, and candidates are ranked by one",
                "Classifiers of entailment have three, rerankers one.",
            )
        if max_length is not None:
            model.max_seq_length = max_length
        return cls(model, context)

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Return the scores of n pairs, shape (n, 1); raise an ``EncodingError`` for an input without a second text."""
        import torch

        if any(not item.second for item in inputs):
            raise EncodingError(
                "a cross-encoder scores pairs of texts, and has no vector of a text",
                "It can score data of the kind reranking: docs/own_data.md",
            )
        # Each text keeps as many tokens as a whole pair may have; the model cuts the pair.
        first_texts = shorten([item.text for item in inputs], self.tokenizer, self.window)
        second_texts = shorten([item.second for item in inputs], self.tokenizer, self.window)
        pairs = list(zip(first_texts, second_texts, strict=True))
        with quiet_transformers(), autocast(self.device, self.precision):
            scores = self.model.predict(
                pairs,
                batch_size=_BATCH,
                # A sigmoid would make high scores equal.
                activation_fn=torch.nn.Identity(),
                convert_to_tensor=True,
                show_progress_bar=False,
            )
        array: Array = scores.float().cpu().numpy()[:, None]
        return array

    def count_cut(self, inputs: Sequence[TextInput], pooling: Any = None) -> Truncation:
        """Count the pairs that are longer than the model reads."""
        cut = 0
        for start in range(0, len(inputs), _PAIRS_PER_COUNT):
            chunk = inputs[start : start + _PAIRS_PER_COUNT]
            first_texts = [item.text for item in chunk]
            second_texts = [item.second for item in chunk]
            with quiet_transformers():
                token_ids = self.tokenizer(first_texts, second_texts)["input_ids"]
            cut += sum(len(ids) > self.window for ids in token_ids)
        positions = positions_of_model(self.model[0].auto_model)
        return Truncation(cut, len(inputs), self.window, positions, "pairs")
