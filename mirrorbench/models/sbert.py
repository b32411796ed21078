"""Released encoders to compare with: ``sbert`` and ``sapbert``.

``sbert``: a sentence-transformers model with its own pooling, normalisation and maximum length. Spec keys: ``model``
(hub id; without slash from the organisation ``sentence-transformers``) or ``path`` (a directory); by default the
paper's SBERT (Mirror-BERT, Table 15). ``max_length`` replaces the model's own. ``pooling`` reads the transformer alone,
at most ``max_length`` tokens (64), instead of the model's pooling: ``mean-padded`` is the readout of Mirror-BERT's
Table 3 ("over all tokens (including padded ones)"). ``prompt``: a text before each text, a template, or the name of a
prompt of the model, in place of its default.

``sapbert``: the released SapBERT, an encoder of biomedical names (Liu et al., NAACL 2021; Mirror-BERT, Table 15). Spec
keys: ``model`` (hub id of another release, e.g. cross-lingual) or ``path`` (a directory), ``pooling`` (``cls``;
``mean`` for the release of that name) and ``max_length`` (25 tokens, as in the released code). The method ``sap``
trains such an encoder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import ModelUnavailableError, UsageError, unknown_name
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.models.backbones import ADAPTER, BACKBONES, locate, with_its_base
from mirrorbench.models.encoder_systems import EncoderContext, LazyModel, checked_params
from mirrorbench.models.families import positions_of
from mirrorbench.models.fingerprints import fingerprint, unchanged_backbone
from mirrorbench.models.model_files import modules
from mirrorbench.models.opening import reads_tokenizer_file, text_folder
from mirrorbench.models.pooling import DEFAULT_MAX_LENGTH, Pooling, template
from mirrorbench.models.sentence_transformer_files import (
    missing_settings_error,
    missing_settings_file,
)
from mirrorbench.models.tokenizer_files import FILE_TOKENIZER_NOTE
from mirrorbench.storage.files import resolved

if TYPE_CHECKING:
    from mirrorbench.models.transformer_encoder import TransformerEncoder


@hookimpl
def register_encoders(register: Register) -> None:
    """Register ``sbert`` and ``sapbert``."""
    register("sbert", create_sbert, "a sentence-transformers model; by default the paper's SBERT")
    register("sapbert", create_sapbert, "SapBERT: an encoder of biomedical names")


def create_sbert(spec: EncoderSpec, context: EncoderContext) -> LazyModel:
    """Create the encoder of an ``sbert`` spec; a model of the hub is downloaded unless the context is offline.

    With ``pooling`` in the spec only the transformer is read, otherwise sentence-transformers opens the whole model.

    Raises:
        UsageError: the spec or a prompt is not valid, or the model's files do not say how it makes its vectors.
        ModelUnavailableError: the model is missing.
    """
    params = checked_params(spec, model=str, path=str, pooling=str, max_length=int, prompt=str)
    directory = sbert_directory(spec, context.offline)
    prompt = template(params["prompt"], directory) if "prompt" in params else None
    max_length = params.get("max_length")
    if "pooling" in params:
        pooling = Pooling(
            params["pooling"],
            max_length=DEFAULT_MAX_LENGTH if max_length is None else max_length,
            prompt=prompt or "",
        )
        return pooled_backbone(_only_transformer(directory), pooling, context)

    from mirrorbench.models.sentence_transformer import sentence_transformer

    # Without the settings of a module, suggest to read the transformer alone.
    missing_file = missing_settings_file(directory, modules(directory))
    if missing_file is not None:
        backbone = EncoderSpec(str(spec.get("path") or spec.get("model") or "sbert"))
        raise missing_settings_error(
            spec, missing_file, suggestion=backbone.with_params(pooling="mean")
        )
    if max_length is not None:
        _check_length(spec, directory, max_length)
    return sentence_transformer(directory, context, prompt, max_length)


def sbert_directory(spec: EncoderSpec, offline: bool) -> Path:
    """Return the directory of the model of an ``sbert`` spec, which is downloaded unless ``offline``.

    A missing model raises a ``ModelUnavailableError``.
    """
    path = spec.get("path")
    if path:
        directory = resolved(str(path))
        _check_directory(spec, directory)
        return with_its_base(directory, offline)
    name = str(spec.get("model", "sbert"))
    if name not in BACKBONES and "/" not in name:
        name = f"sentence-transformers/{name}"
    return locate(EncoderSpec(name, spec.revision), "en", offline)


def _check_directory(spec: EncoderSpec, directory: Path) -> None:
    """Raise a ``ModelUnavailableError`` unless a directory holds a model that sentence-transformers opens."""
    if (directory / "modules.json").is_file() or (directory / "config.json").is_file():
        return
    if (directory / ADAPTER).is_file():
        raise ModelUnavailableError(
            f"{spec}: {directory} is an adapter alone, without a modules.json of sentence-transformers",
            f"Read it by a pooling that you name: {directory}:pooling=mean",
        )
    raise ModelUnavailableError(
        f"{spec}: {directory} is not a directory of a sentence-transformers model",
        "Such a directory holds modules.json, as SentenceTransformer.save() writes it.",
    )


def _check_length(spec: EncoderSpec, directory: Path, max_length: int) -> None:
    """Raise a ``UsageError`` for a maximum length that a model of sentence-transformers cannot read."""
    positions = positions_of(text_folder(directory))
    if max_length < 1 or 0 < positions < max_length:
        problem = f"{spec}: max_length={max_length}, but {directory.name} has {positions} positions"
        raise UsageError(problem, f"Write {spec.with_params(max_length=positions)}")


def _only_transformer(directory: Path) -> Path:
    """Return the folder of a model's transformer; ``UsageError`` for modules other than pooling and normalisation."""
    listed = modules(directory)
    if not listed:
        return directory
    classes = [module.class_name for module in listed]
    if classes[:1] != ["Transformer"] or not {"Pooling", "Normalize"}.issuperset(classes[1:]):
        raise UsageError(
            f"pooling= reads a transformer alone, but {directory.name} consists of {', '.join(classes) or 'nothing'}",
            "Leave pooling out to use all modules of the model.",
        )
    return directory / listed[0].path


def create_sapbert(spec: EncoderSpec, context: EncoderContext) -> LazyModel:
    """Create the encoder of a ``sapbert`` spec; a model of the hub is downloaded unless the context is offline."""
    params = checked_params(spec, model=str, path=str, pooling=str, max_length=int)
    if params.get("path"):
        model = str(resolved(str(params["path"])))
    else:
        model = params.get("model", "sapbert")
    directory = locate(EncoderSpec(model, spec.revision), "en", context.offline)
    pooling = Pooling(params.get("pooling", "cls"), max_length=params.get("max_length", 25))
    return pooled_backbone(directory, pooling, context)


def pooled_backbone(directory: Path, pooling: Pooling, context: EncoderContext) -> LazyModel:
    """Create an encoder that pools the states of the backbone in a directory.

    An unknown pooling raises an ``UnknownNameError``.
    """
    if pooling.mode not in context.poolings:
        raise unknown_name("pooling", pooling.mode, list(context.poolings))
    weights_fingerprint = fingerprint(directory)

    def load() -> TransformerEncoder:
        import torch

        from mirrorbench.models.transformer import load_transformer
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        with unchanged_backbone(directory, weights_fingerprint):
            transformer = load_transformer(
                directory, torch.device(context.device), poolings=context.poolings
            )
        return TransformerEncoder(transformer, pooling, context.precision)

    readout: list[Value] = [pooling.mode, pooling.max_length]
    if pooling.prompt:
        readout.append(pooling.prompt)
    identity = {"weights": weights_fingerprint, "readout": readout}
    notes = (FILE_TOKENIZER_NOTE,) if reads_tokenizer_file(directory) else ()
    return LazyModel(digest(identity), load, pooling, notes)
