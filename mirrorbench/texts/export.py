"""Write an encoder as a directory from which sentence-transformers and mirrorbench compute the same vectors.

``modules.json`` lists a transformer, ``WeightedLayerPooling`` where layers are averaged, ``WordWeights`` where special
tokens are left out, ``Pooling``, ``Normalize`` where vectors have length 1, and ``Dense`` for a transformation.
``mirrorbench.json`` holds pooling and origin. The model card shows the code that does the same with transformers alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.errors import StorageError, UsageError
from mirrorbench.core.identity import DESCRIPTION
from mirrorbench.core.quoting import is_text
from mirrorbench.models.adapters import is_adapted
from mirrorbench.models.backbones import ADAPTER
from mirrorbench.models.pooling import Pooling, parse_layers, prefix
from mirrorbench.models.sentence_transformer_files import IDENTITY, prompt_tokens
from mirrorbench.models.transformations import STORED, Affine
from mirrorbench.storage.files import sync_folder, sync_tree, unwritable
from mirrorbench.storage.output_folders import PUT_ASIDE, beside

if TYPE_CHECKING:
    import torch

    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.models.transformer import Transformer

EVAL_RESULTS = ".eval_results"
"""The folder of a model's scores, by the rules of the Hugging Face hub."""
SCORES_FILE = "mirrorbench.yaml"
"""The file in it that ``mirrorbench card`` writes."""

# Patterns of the files that tune writes, or sentence-transformers if it saves into the same folder.
_FILES = (
    DESCRIPTION,
    "README.md",
    ".gitattributes",
    "config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "generation_config.json",
    ADAPTER,
    "adapter_model.safetensors",
    "model.safetensors",
    "model-?????-of-?????.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "tokenizer_config.json",
    "*processor_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "vocab.*",
    "vocab-*.json",
    "*_vocab.json",
    "merges.txt",
    "dict.txt",
    "bpe.codes",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.*",
    "spiece.model",
    "sentencepiece*.model",
    "spm*.model",
    "tiktoken.model",
    "source.spm",
    "target.spm",
    "emoji.json",
    "normalizer.json",
    "byte_maps.json",
    "word_shape.json",
    "word_pronunciation.json",
)
# Patterns of the folders of modules, and of the scores that ``mirrorbench card`` writes.
_FOLDERS = ("[0-9]*_*", EVAL_RESULTS)
_MOST_NAMED = 3
"""Maximum number of foreign files that a message names."""

# The mode of sentence-transformers' Pooling for each pooling; all versions have them.
_POOLING_MODES = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "last": "lasttoken",
    "weighted-mean": "weightedmean_tokens",
    "target": "mean_tokens",
    "target-marked": "mean_tokens",
}

# How sentence-transformers reads the encoder of a model with a decoder.
_ENCODER_OF_DECODER_MODEL = {
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "encoder_last_hidden_state"}
    },
    "module_output_name": "token_embeddings",
}


def check_exportable(
    spec: EncoderSpec, pooling: Pooling, *, has_decoder: bool, cuts_at_left: bool
) -> None:
    """Raise ``UsageError`` where other libraries cannot compute this pooling.

    Args:
        spec: the encoder, for messages.
        pooling: its pooling.
        has_decoder: whether the model is the encoder of an encoder-decoder, and is saved with its decoder.
        cuts_at_left: whether the tokenizer keeps the end of a long text.
    """
    if has_decoder and pooling.layers != "-1:":
        raise UsageError(
            "sentence-transformers reads only the last layer of a model with a decoder, "
            f"so layers={pooling.layers} cannot be exported",
            f"Write {spec.with_params(layers='-1:')}",
        )
    # ``prefix`` returns the text that a prompt puts before the input.
    if prefix(pooling.prompt) and pooling.of_target:
        problem = f"prompt={pooling.prompt} and pooling={pooling.mode} cannot be exported together"
        raise UsageError(problem, "Leave one of them out.")
    if pooling.prompt and cuts_at_left:
        raise UsageError(
            f"{spec}: the tokenizer cuts long texts at the left, and other libraries would cut the prompt "
            f"{prefix(pooling.prompt)!r} with them",
            "Leave the prompt out (prompt=).",
        )
    if pooling.mode not in _POOLING_MODES:
        reason = "is not one of sentence-transformers'"
        if pooling.mode == "mean-padded":
            reason = "averages over padding too"
        raise UsageError(
            f"pooling={pooling.mode} {reason}, so it cannot be exported",
            f"Write {spec.with_params(pooling='mean')}",
        )


def check_output(output: Path, force: bool) -> None:
    """Raise ``UsageError`` unless ``output`` is new, an empty directory or, with ``force``, an encoder's directory."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise UsageError(
            f"{output} is a file, link or device; an encoder is a directory",
            "Name another --output.",
        )
    if not is_text(os.path.abspath(output)):
        encoding = sys.getfilesystemencoding()
        problem = (
            f"{os.path.abspath(output)} is not valid {encoding}, as the path of a model must be"
        )
        raise UsageError(
            problem, "Name an --output whose path is text, or set PYTHONUTF8=1 where it is UTF-8."
        )
    # Folders that could not be renamed, or must not be.
    reason = ""
    if os.path.ismount(output):
        reason = "a mount point"
    elif Path.cwd().is_relative_to(output.resolve()):
        reason = "the working directory, or holds it"
    if reason:
        raise UsageError(
            f"{output} is {reason}, which cannot be replaced",
            f"Write --output {output / 'encoder'}",
        )
    if not output.is_dir() or not any(output.iterdir()):
        return
    # From here on, the directory holds something: it must be an encoder, and nothing but an encoder.
    if not (output / DESCRIPTION).is_file():
        problem = f"{output} is not empty and holds no encoder written by mirrorbench; nothing was changed"
        raise UsageError(problem, "Name another --output.")
    foreign = _foreign_paths(output)
    if foreign:
        names = ", ".join(foreign[:_MOST_NAMED])
        if len(foreign) > _MOST_NAMED:
            names += f" and {len(foreign) - _MOST_NAMED} more"
        raise UsageError(
            f"{output} holds files that are not part of an encoder ({names}); it is left alone",
            "Move them elsewhere, or name another --output.",
        )
    if not force:
        raise UsageError(
            f"{output} already holds an encoder",
            "Replace it with --force, or name another --output.",
        )


def _foreign_paths(folder: Path) -> list[str]:
    """Return the paths in an encoder's directory that are not part of an encoder."""
    paths = []
    for parent, folders, files in os.walk(folder):
        is_top = parent == str(folder)
        foreign_folders = [name for name in folders if not is_top or not _matches(name, _FOLDERS)]
        is_scores = os.path.relpath(parent, folder) == EVAL_RESULTS
        patterns = (SCORES_FILE,) if is_scores else _FILES
        foreign_files = [name for name in files if not _matches(name, patterns)]
        for name in (*foreign_folders, *foreign_files):
            paths.append(os.path.relpath(Path(parent, name), folder))
        # ``os.walk`` does not enter the folders removed here: a foreign folder is named, but not what is in it.
        folders[:] = sorted(set(folders) - set(foreign_folders))
    return sorted(paths)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@contextmanager
def claiming(output: Path, force: bool) -> Iterator[Path]:
    """Open the hidden folder beside ``output`` in which one process at a time writes an encoder.

    If a killed process left files there, they are removed, and an encoder that it had put aside is put back first.
    """
    with beside(output) as workplace:
        try:
            _clean_up(workplace, output)
            check_output(output, force)
            yield workplace
        finally:
            _clean_up(workplace, output)


def _clean_up(workplace: Path, output: Path) -> None:
    """Put back an encoder that was put aside and not replaced; remove an unfinished one, or one that was replaced.

    Raises:
        StorageError: there is something else at ``output`` by now.
    """
    new = workplace / "new"
    old = workplace / PUT_ASIDE
    # Both exist if a process ended between the two renames of ``replacing``.
    if old.is_dir() and new.is_dir():
        try:
            os.replace(old, output)
        except OSError as error:
            problem = f"{old} is the former encoder of {output}, which now holds something else"
            raise StorageError(problem, "Move one of them elsewhere.") from error
    # What is left: an unfinished encoder, or one that was replaced.
    for folder in (old, new):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replacing(output: Path, workplace: Path, force: bool) -> Iterator[Path]:
    """Yield a new folder in the ``workplace`` of ``claiming``, which becomes ``output`` on success.

    Raises:
        UsageError: ``output`` must not be replaced (``check_output``).
        StorageError: a file or folder cannot be written.
    """
    from safetensors import SafetensorError

    new = workplace / "new"
    try:
        new.mkdir()
        yield new
        # Before the rename, so that a power cut leaves no empty files.
        sync_tree(new)
        # A folder that appeared meanwhile is not replaced.
        check_output(output, force)
        if output.is_dir():
            os.replace(output, workplace / PUT_ASIDE)
        os.replace(new, output)
        sync_folder(output.parent)
    except (OSError, SafetensorError) as error:
        raise unwritable(
            f"the encoder cannot be written to {output}", error, "name another --output"
        ) from error


def write_encoder(
    folder: Path,
    transformer: Transformer,
    pooling: Pooling,
    description: dict[str, Any],
    post: Affine | None = None,
    base: Path | None = None,
) -> None:
    """Write an encoder, without its model card, into an empty directory.

    Args:
        folder: the directory.
        transformer: the model and its tokenizer.
        pooling: how vectors are made of its states.
        description: what ``mirrorbench.json`` says of the origin.
        post: a transformation of the vectors, written as a ``Dense`` module.
        base: the folder of the backbone that an adapter names; by default the transformer's own.
    """
    from safetensors.torch import save_file

    transformer.save(folder)
    # JSON files by path: those of the transformer replace what ``save`` wrote.
    files = _transformer_files(folder, transformer, pooling, base or transformer.path)
    readout = pooling.to_json()
    if post:
        readout["post"] = STORED
    files[DESCRIPTION] = {"readout": readout, **description}
    files["config_sentence_transformers.json"] = {
        "prompts": {"text": prefix(pooling.prompt)} if pooling.prompt else {},
        "default_prompt_name": "text" if pooling.prompt else None,
        "similarity_fn_name": "cosine",
    }
    modules = [_module_entry(0, "Transformer", "")]
    for number, module in enumerate(_modules(transformer, pooling, post), start=1):
        module_folder = f"{number}_{module.name}"
        modules.append(_module_entry(number, module.name, module_folder))
        files[f"{module_folder}/config.json"] = module.settings
        (folder / module_folder).mkdir()
        if module.weights:
            save_file(module.weights, folder / module_folder / "model.safetensors")
    files["modules.json"] = modules
    for path, content in files.items():
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (folder / path).write_text(f"{text}\n", encoding="utf-8")


def _module_entry(number: int, name: str, path: str) -> dict[str, Any]:
    """Return the entry of a module in ``modules.json``."""
    # Every version of sentence-transformers resolves these type names.
    module_type = f"sentence_transformers.models.{name}"
    return {"idx": number, "name": str(number), "path": path, "type": module_type}


def _transformer_files(
    folder: Path, transformer: Transformer, pooling: Pooling, base: Path
) -> dict[str, Any]:
    """Return the JSON files of a saved transformer, changed so that other libraries read it as mirrorbench does."""
    config_name = ADAPTER if is_adapted(transformer.adaptable_model) else "config.json"
    config = json.loads((folder / config_name).read_bytes())
    tokenizer = json.loads((folder / "tokenizer_config.json").read_bytes())
    length = kept_length(transformer, pooling)
    settings: dict[str, Any] = {"max_seq_length": length, "do_lower_case": False}
    if transformer.needs_decoder:
        settings |= _ENCODER_OF_DECODER_MODEL
    # sentence-transformers averages lower layers only if the model returns them.
    layer_option = {"output_hidden_states": True} if pooling.layers != "-1:" else {}
    if config_name == ADAPTER:
        config |= base_reference(base)
        # The model's configuration is that of the backbone, so the option is passed when the model is opened.
        if layer_option:
            settings["config_args"] = layer_option
    else:
        # T5Gemma's encoder has a configuration of its own.
        for part in (config, config.get("encoder")):
            if isinstance(part, dict):
                part.pop("output_hidden_states", None)
                part |= layer_option
    return {
        config_name: config,
        "tokenizer_config.json": {**tokenizer, "model_max_length": length, "padding_side": "right"},
        "sentence_bert_config.json": settings,
    }


def kept_length(transformer: Transformer, pooling: Pooling) -> int:
    """Return the number of tokens that other libraries keep of a text and its prompt together."""
    if not pooling.prompt:
        return pooling.max_length
    n_prompt = prompt_tokens(transformer.tokenizer, prefix(pooling.prompt))
    length = pooling.max_length + n_prompt
    return min(length, transformer.positions or length)


def base_reference(base: Path) -> dict[str, Any]:
    """Return the entries by which an adapter names its backbone: hub id and commit if it has them, else its folder."""
    parts = base.parts[-3:]
    # In the hub's cache, the folder is models--OWNER--NAME/snapshots/COMMIT.
    if len(parts) == 3 and parts[0].startswith("models--") and parts[1] == "snapshots":
        hub_id = "/".join(parts[0].split("--")[1:])
        return {"base_model_name_or_path": hub_id, "revision": parts[2]}
    return {"base_model_name_or_path": str(base.resolve()), "revision": None}


class _Module(NamedTuple):
    """A module of sentence-transformers."""

    name: str
    """Name of its class."""
    settings: dict[str, Any]
    """Content of its ``config.json``."""
    weights: dict[str, torch.Tensor]


def _modules(transformer: Transformer, pooling: Pooling, post: Affine | None) -> Iterator[_Module]:
    """Yield the sentence-transformers modules that follow the transformer, in the order in which they run."""
    size = transformer.dimensions
    # "-1:" is the last layer alone, which is read without a module.
    if pooling.layers != "-1:":
        yield _layer_pooling(transformer, pooling)
    # A text without a target is all target, but for special tokens and white space.
    if pooling.of_target:
        yield _word_weights(transformer.tokenizer)
    # All modes are named; only that of the pooling is on.
    flags = {}
    for mode in ("max_tokens", "mean_sqrt_len_tokens", *_POOLING_MODES.values()):
        flags[f"pooling_mode_{mode}"] = mode == _POOLING_MODES[pooling.mode]
    yield _Module("Pooling", {"word_embedding_dimension": size, **flags}, {})
    if pooling.normalize:
        yield _Module("Normalize", {}, {})
    if post:
        settings = {
            "in_features": size,
            "out_features": len(post.bias),
            "bias": True,
            "activation_function": IDENTITY,
        }
        yield _Module("Dense", settings, post.dense())


def _layer_pooling(transformer: Transformer, pooling: Pooling) -> _Module:
    """Return the module that averages a slice of the layers: their weights are 1, and those of other layers 0."""
    import torch

    weights = torch.zeros(transformer.layers + 1)
    weights[parse_layers(pooling.layers)] = 1
    settings = {
        "word_embedding_dimension": transformer.dimensions,
        "layer_start": 0,
        "num_hidden_layers": transformer.layers,
    }
    return _Module("WeightedLayerPooling", settings, {"layer_weights": weights})


def _word_weights(tokenizer: Any) -> _Module:
    """Return the module that weights tokens: 0 for special tokens and tokens of white space, and 1 for all others."""
    import torch

    ignored = {
        tokenizer.cls_token_id,
        tokenizer.sep_token_id,
        tokenizer.bos_token_id,
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    }
    decoded = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    ignored |= {token for token, text in enumerate(decoded) if text.isspace()}
    # The id of a special token that the tokenizer lacks is None.
    ids = sorted(ignored - {None})
    vocabulary: list[str] = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    weights = torch.ones(len(tokenizer), 1)
    weights[ids] = 0
    settings = {
        "vocab": vocabulary,
        "word_weights": {vocabulary[token]: 0.0 for token in ids},
        "unknown_word_weight": 1.0,
    }
    return _Module("WordWeights", settings, {"emb_layer.weight": weights})
