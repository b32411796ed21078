"""Encoder systems beside the backbones, encoders of Python objects, and the object that ``load`` returns.

``sbert``: a sentence-transformers model with its own pooling, normalisation and maximum length. Spec keys: ``model``
(hub id; without slash from the organisation ``sentence-transformers``) or ``path`` (a directory); by default the
paper's SBERT (paper 1, Table 15). ``pooling`` reads its transformer alone, at most ``max_length`` tokens (64), instead
of its own pooling: ``mean-padded`` is the readout of paper 1, Table 3 ("over all tokens (including padded ones)").
``prompt``: a text before each text, a template, or the name of one of the model's prompts, in place of its default.

``sapbert``: the released SapBERT, an encoder of biomedical names (Liu et al., NAACL 2021; paper 1, Table 15). Spec
keys: ``model`` (hub id of another release, e.g. cross-lingual) or ``path`` (a directory), ``pooling`` (``cls``;
``mean`` for the release of that name) and ``max_length`` (25 tokens, as in the released code). The method ``sap``
trains one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core import checksums
from mirrorbench.core.devices import out_of_memory, own_weights
from mirrorbench.core.errors import ModelUnavailableError, PluginError, UsageError, not_installed, unknown_name
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.inputs import Encoder, as_inputs, check_vectors
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models import backbones
from mirrorbench.models.directories import modules
from mirrorbench.models.families import not_telling_apart, unreadable
from mirrorbench.models.opening import read_sentence_transformer
from mirrorbench.models.pooling import DEFAULT_MAX_LENGTH, POOLINGS, TEXT, Pooling, PoolingFunction, template

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array, TextInput
    from mirrorbench.core.plugins import Plugins


MOST_TOKENS = 512
"""Tokens of the longest text, where a model of sentence-transformers names none."""


@dataclass(frozen=True, slots=True)
class EncoderContext:
    """How an encoder system is to run.

    Attributes:
        device: e.g. ``cpu``, ``cuda:0``.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        offline: do not use the network.
        poolings: the registered ones, by name.
        begin: called before long work with its size and unit (``30000, "tokens"``).
        advance: called with how many more units are done.
    """

    device: str = "cpu"
    precision: str = "fp32"
    offline: bool = False
    poolings: Mapping[str, PoolingFunction] = field(default_factory=lambda: POOLINGS)
    begin: Callable[[int, str], None] = lambda total, unit: None
    advance: Callable[[int], None] = lambda n: None


def create_encoder(spec: EncoderSpec, plugins: Plugins, context: EncoderContext) -> Encoder:
    """An encoder system from a spec; a ``PluginError`` if the plugin returned something else."""
    entry = plugins.encoders.entry(spec.backbone)
    encoder = entry.value(spec, context)
    if not isinstance(encoder, Encoder) or not isinstance(encoder.fingerprint, str):
        raise PluginError(
            f"the encoder {entry.name!r} of {entry.origin} has no encode() or no fingerprint",
            "An encoder needs encode(inputs) -> array (n, d) and a string attribute fingerprint.",
        )
    return encoder


def checked_params(spec: EncoderSpec, **types: type) -> dict[str, Any]:
    """The keys of a spec, each checked to be known and of its type; values of text keys are converted to text."""
    for key, value in spec.params:
        if key not in types:
            raise unknown_name(f"key of {spec.backbone}", key, list(types))
        if types[key] is not str and type(value) is not types[key] and (types[key], type(value)) != (float, int):
            wanted = {int: "a whole number", float: "a number", bool: "true or false"}[types[key]]
            raise UsageError(f"{key}={value} is not {wanted}")
    return {key: value if types[key] is bool else types[key](value) for key, value in spec.params}


@dataclass
class LazyEncoder:
    """An encoder whose weights are loaded when it first encodes: ``load`` returns a function from inputs to vectors.

    ``fingerprint``: identity of all that changes vectors; ``pooling``: its pooling, if known.
    """

    fingerprint: str
    load: Callable[[], Callable[[list[TextInput]], Any]]
    pooling: Pooling | None = None

    @cached_property
    def _encode(self) -> Callable[[list[TextInput]], Any]:
        return self.load()

    def encode(self, inputs: Sequence[TextInput | str]) -> Any:
        """Vectors of texts, shape (n, dimensions)."""
        return self._encode(as_inputs(inputs))


def create_sbert(spec: EncoderSpec, context: EncoderContext) -> LazyEncoder:
    """The encoder for a spec ``sbert``."""
    params = checked_params(spec, model=str, path=str, pooling=str, max_length=int, prompt=str)
    if "max_length" in params and "pooling" not in params:
        problem = f"{spec}: max_length belongs to a pooling, and this spec names none"
        raise UsageError(problem, "Add pooling=mean-padded, or leave max_length out.")
    directory = sbert_directory(spec, context.offline)
    prompt = template(params["prompt"], directory) if "prompt" in params else None
    if "pooling" not in params:
        return sentence_transformer(directory, context, prompt)
    max_length = params.get("max_length", DEFAULT_MAX_LENGTH)
    pooling = Pooling(params["pooling"], max_length=max_length, prompt=prompt or "")
    return pooled_backbone(_only_transformer(directory), pooling, context)


def sbert_directory(spec: EncoderSpec, offline: bool) -> Path:
    """The files of the model that a spec ``sbert`` names."""
    if path := spec.get("path"):
        directory = Path(str(path)).expanduser().resolve()
        if not (directory / "modules.json").is_file() and not (directory / "config.json").is_file():
            raise ModelUnavailableError(
                f"{spec}: {directory} is no directory of a sentence-transformers model",
                "It holds modules.json, as written by SentenceTransformer.save().",
            )
        return backbones.with_its_base(directory, offline)
    name = str(spec.get("model", "sbert"))
    known = name in backbones.BACKBONES or "/" in name
    return backbones.locate(
        EncoderSpec(name if known else f"sentence-transformers/{name}", spec.revision), "en", offline
    )


def _only_transformer(directory: Path) -> Path:
    """The folder of a model's transformer; an error if other modules than pooling and normalisation follow it."""
    if not (listed := modules(directory)):
        return directory
    kinds = [module.kind for module in listed]
    if kinds[:1] != ["Transformer"] or not {"Pooling", "Normalize"}.issuperset(kinds[1:]):
        raise UsageError(
            f"pooling= reads a transformer alone, and {directory.name} consists of {', '.join(kinds) or 'nothing'}",
            "Leave pooling out: the model is then read as its files say.",
        )
    return directory / listed[0].path


def sentence_transformer(path: Path, context: EncoderContext, prompt: str | None = None) -> LazyEncoder:
    """An encoder from the directory of a sentence-transformers model; contexts are encoded as whole texts.

    ``prompt``: a template in place of the model's default prompt; the model says whether a prompt before the text is
    pooled too.
    """
    # What stands before texts is handed on, what stands around them is not known there.
    before = prompt.removesuffix(TEXT) if prompt and prompt.endswith(TEXT) and prompt.count(TEXT) == 1 else ""
    around, files = "" if before else prompt, directory_checksum(path)

    def load() -> Callable[[list[TextInput]], Array]:
        import torch

        from mirrorbench.core.devices import autocast, kind
        from mirrorbench.models import batching

        device = torch.device(context.device)
        with checksums.unchanged(lambda: _model_files(path), files, str(path)):
            model = _load_sentence_transformer(path, context)
            own_weights(model)
        sort = kind(device)
        limit = model.get_max_seq_length() or MOST_TOKENS

        def encode(inputs: list[TextInput]) -> Array:
            texts = [around.replace(TEXT, item.text) if around else item.text for item in inputs]
            # Characters stand for tokens, of which most texts have fewer: to count tokens is to tokenise twice.
            lengths = np.array([min(len(text), limit) for text in texts], dtype=np.int64)
            budget, cost = batching.TOKEN_BUDGET[sort], batching.PASS_COST[sort]
            own = {} if prompt is None else {"prompt": before}
            similar = () if sort == "cpu" else batching.similar_length_batches(lengths, budget, pass_cost=cost)
            batches = list(similar) or [[*range(len(texts))]]

            def compute(rows: list[int]) -> torch.Tensor:
                some, size = [texts[row] for row in rows], 32 if sort == "cpu" else len(rows)
                with autocast(device, context.precision):
                    vectors = model.encode(
                        some, batch_size=size, convert_to_tensor=True, show_progress_bar=False, **own
                    )
                return vectors.float()  # type: ignore[no-any-return]

            rows, found = zip(*batching.within_memory(batches, compute, device, lengths), strict=True)
            return torch.cat(found).cpu().numpy()[np.argsort(np.concatenate(rows))]

        _check_varies(path, model, encode)
        return encode

    identity = {"files": files} | ({} if prompt is None else {"prompt": prompt})
    return LazyEncoder(digest(identity) if len(identity) > 1 else files, load)


def _load_sentence_transformer(path: Path, context: EncoderContext) -> Any:
    if find_spec("sentence_transformers") is None:
        raise not_installed(ModelUnavailableError, "sbert needs", "sentence-transformers", "sbert")
    try:
        return read_sentence_transformer(path, context.device, context.precision)
    except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError, AttributeError) as error:
        if out_of_memory(error):
            raise unreadable(path, error) from error
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise ModelUnavailableError(
            f"sentence-transformers cannot open {path}: {type(error).__name__}: {first[:300]}",
            "Weights in floating-point numbers are read, not int8, GGUF or ONNX; code beside a model is never run.",
        ) from error


def _check_varies(path: Path, model: Any, encode: Callable[[list[TextInput]], Array]) -> None:
    """Raise where a model makes no vectors of texts, or equal ones of two texts of its own words."""
    known: Iterable[str] = getattr(getattr(model, "tokenizer", None), "get_vocab", list)()  # images have none
    words = sorted(word for word in known if word.isalnum())
    texts = [" ".join(words[first :: max(1, len(words) // 16)]) for first in range(2)]
    try:
        one, other = encode(as_inputs(texts))
    except KeyError as error:
        raise ModelUnavailableError(
            f"{path} makes no vectors of texts: none of its modules gives {error}",
            f"Add a Pooling to modules.json, or read its transformer alone: {path}:pooling=mean",
        ) from error
    if len(words) > 1 and np.array_equal(one, other):
        raise not_telling_apart(f"the sentence-transformers model in {path}", "its weights, tokenizer and prompt")


_IGNORED = {"README.md", "onnx", "openvino", ".git", ".gitattributes", ".cache"}


def directory_checksum(path: Path) -> str:
    """SHA-256 of all files below a model directory, except documentation and other weight formats."""
    return checksums.content(_model_files(path))


def _model_files(path: Path) -> list[tuple[str, Path]]:
    named = ((file.relative_to(path), file) for file in sorted(path.rglob("*")) if file.is_file())
    return [(name.as_posix(), file) for name, file in named if _IGNORED.isdisjoint(name.parts)]


def create_sapbert(spec: EncoderSpec, context: EncoderContext) -> LazyEncoder:
    """The encoder for a spec ``sapbert``."""
    params = checked_params(spec, model=str, path=str, pooling=str, max_length=int)
    path = params.get("path")
    where = str(Path(path).expanduser().resolve()) if path else params.get("model", "sapbert")
    directory = backbones.locate(EncoderSpec(where, spec.revision), "en", context.offline)
    pooling = Pooling(params.get("pooling", "cls"), max_length=params.get("max_length", 25))
    return pooled_backbone(directory, pooling, context)


def pooled_backbone(directory: Path, pooling: Pooling, context: EncoderContext) -> LazyEncoder:
    """An encoder from the directory of a backbone, read under a pooling."""
    if pooling.mode not in context.poolings:
        raise unknown_name("pooling", pooling.mode, list(context.poolings))

    def load() -> Callable[[list[TextInput]], Array]:
        import torch

        from mirrorbench.models.encoder import TransformerEncoder
        from mirrorbench.models.transformer import load_transformer

        with backbones.unchanged_backbone(directory, weights):
            transformer = load_transformer(directory, torch.device(context.device), poolings=context.poolings)
        return TransformerEncoder(transformer, pooling, context.precision).encode

    read = [pooling.mode, pooling.max_length, *([pooling.prompt] if pooling.prompt else [])]
    weights = backbones.fingerprint(directory)
    identity = {"weights": weights, "readout": read}
    return LazyEncoder(digest(identity), load, pooling)


@hookimpl
def register_encoders(register: Register) -> None:
    """Register the systems of this module."""
    register("sbert", create_sbert, "a sentence-transformers model; by default the paper's SBERT")
    register("sapbert", create_sapbert, "SapBERT: an encoder of biomedical names")


def as_encoder(model: Any) -> Encoder:
    """A Python object as an encoder: an encoder as it is, any other through its ``encode(strings)``.

    Only SentenceTransformers get a fingerprint; for other objects it is empty.
    """
    if isinstance(getattr(model, "fingerprint", None), str) and isinstance(model, Encoder):
        return model
    if not callable(getattr(model, "encode", None)):
        raise UsageError(
            f"a {type(model).__name__} is no encoder: it has no encode(texts)",
            "Give a spec, what mirrorbench.load returns, or a SentenceTransformer.",
        )
    known = any(kind.__name__ == "SentenceTransformer" for kind in type(model).__mro__)
    quiet = {"show_progress_bar": False} if known else {}

    def encode(inputs: list[TextInput]) -> Any:
        return model.encode([item.text for item in inputs], **quiet)

    return LazyEncoder(_object_fingerprint(model) if known else "", lambda: encode)


def _object_fingerprint(model: Any) -> str:
    """Digest of weights, modules, tokenizer, prompts and settings: changes whenever vectors could."""
    weights = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        weights.update(f"{name} {tuple(tensor.shape)}".encode())
        weights.update(tensor.detach().cpu().contiguous().float().numpy().tobytes())
    settings = ("max_seq_length", "default_prompt_name", "prompts", "truncate_dim")
    tokenizer = getattr(model.tokenizer, "backend_tokenizer", None)
    return digest({
        "weights": weights.hexdigest(),
        "modules": str(model),
        "settings": [str(getattr(model, name, "")) for name in settings],
        "tokenizer": hashlib.sha256((tokenizer.to_str() if tokenizer else "").encode()).hexdigest(),
    })  # fmt: skip


@dataclass(repr=False, eq=False)
class TextEncoder:
    """An encoder as ``load`` returns it: vectors of strings or of words in context.

    Args:
        encoder: computes the vectors.
        name: the spec that was loaded.
    """

    encoder: Encoder
    name: str = "encoder"

    def __repr__(self) -> str:
        return f"<mirrorbench encoder {self.name}>"

    @property
    def fingerprint(self) -> str:
        """Identity of the vectors: changes with weights, pooling or precision."""
        pooling = getattr(self.encoder, "pooling", None)
        if not isinstance(pooling, Pooling):
            return self.encoder.fingerprint
        precision = getattr(self.encoder, "precision", "")
        return digest({"encoder": self.encoder.fingerprint, "readout": str(pooling), "precision": precision})

    def encode(self, texts: Sequence[str | TextInput]) -> Array:
        """One vector per text: float32 of shape (len(texts), dimensions).

        Args:
            texts: strings, or inputs with target words.

        Raises:
            UsageError: ``texts`` is a single string.
            EncodingError: the encoder returned something else.
        """
        if isinstance(texts, str):
            raise UsageError("encode() takes a list of texts, and got one string", "Write encode([text]).")
        inputs = as_inputs(texts)
        return check_vectors(self.encoder.encode(inputs), len(inputs), "the encoder")
