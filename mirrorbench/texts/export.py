"""Writes an encoder as a directory from which sentence-transformers and mirrorbench compute the same vectors.

``modules.json`` lists a transformer, ``WeightedLayerPooling`` where layers are averaged, ``WordWeights`` where special
tokens are left out, ``Pooling``, ``Normalize`` where vectors have length 1, and ``Dense`` for a transformation.
``mirrorbench.json`` holds pooling and origin. For plain transformers, the model card shows the code for all that.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

# What tune, and sentence-transformers where it saves there, write of an encoder and its modules.
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
_FOLDERS = "[0-9]*_*"
_NAMED = 3  # the most of a user's files that a message names

# The flags of sentence-transformers' Pooling, of all versions.
_FLAGS = {
    "cls": "cls_token",
    "mean": "mean_tokens",
    "last": "lasttoken",
    "weighted-mean": "weightedmean_tokens",
    "target": "mean_tokens",
    "target-marked": "mean_tokens",
}

# How sentence-transformers reads the encoder of a model with a decoder.
_OF_ENCODER = {
    "modality_config": {
        "text": {"method": "forward", "method_output_name": "encoder_last_hidden_state"}
    },
    "module_output_name": "token_embeddings",
}


def check_exportable(
    spec: EncoderSpec, pooling: Pooling, *, half: bool, cuts_at_left: bool
) -> None:
    """Raise ``UsageError`` where other libraries do not have this pooling.

    ``half``: the model is saved with its decoder. ``cuts_at_left``: its tokenizer keeps the end of a long text.
    """
    if half and pooling.layers != "-1:":
        problem = "of a model with a decoder sentence-transformers reads the last layer only"
        problem = f"{problem}, so layers={pooling.layers} cannot be exported"
        raise UsageError(problem, f"Write {spec.with_params(layers='-1:')}")
    if prefix(pooling.prompt) and pooling.of_target:
        problem = f"prompt={pooling.prompt} and pooling={pooling.mode} cannot be exported together"
        raise UsageError(problem, "Leave one of them out.")
    if pooling.prompt and cuts_at_left:
        raise UsageError(
            f"{spec}: the tokenizer cuts long texts at the left, and other libraries would cut the prompt "
            f"{prefix(pooling.prompt)!r} with them",
            "Leave the prompt out (prompt=).",
        )
    if pooling.mode not in _FLAGS:
        why = (
            "averages over padding too"
            if pooling.mode == "mean-padded"
            else "is none of sentence-transformers'"
        )
        problem = f"pooling={pooling.mode} {why}, so it cannot be exported"
        raise UsageError(problem, f"Write {spec.with_params(pooling='mean')}")


def check_output(output: Path, force: bool) -> None:
    """Raise ``UsageError`` where ``output`` must not be replaced: it is no encoder, or ``force`` is not given."""
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise UsageError(
            f"{output} is a file, link or device; an encoder is a directory",
            "Name another --output.",
        )
    if not is_text(os.path.abspath(output)):
        problem = f"{os.path.abspath(output)} is no {sys.getfilesystemencoding()}, and models have no such names"
        raise UsageError(
            problem, "Name an --output whose path is text, or set PYTHONUTF8=1 where it is UTF-8."
        )
    mounted = os.path.ismount(output)
    if mounted or Path.cwd().is_relative_to(output.resolve()):
        reason = "a mount point" if mounted else "the working directory, or holds it"
        raise UsageError(
            f"{output} is {reason}, which cannot be replaced",
            f"Write --output {output / 'encoder'}",
        )
    if not output.is_dir() or not any(output.iterdir()):
        return
    if not (output / DESCRIPTION).is_file():
        problem = f"{output} is not empty and holds no encoder written by mirrorbench; nothing was changed"
        raise UsageError(problem, "Name another --output.")
    if foreign := _foreign(output):
        names = ", ".join(foreign[:_NAMED]) + (
            f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
        )
        raise UsageError(
            f"{output} holds files that are not part of an encoder ({names}); it is left alone",
            "Move that elsewhere, or name another --output.",
        )
    if not force:
        raise UsageError(
            f"{output} already holds an encoder",
            "Replace it with --force, or name another --output.",
        )


def _foreign(folder: Path) -> list[str]:
    """Paths in an encoder's directory that no encoder has."""
    foreign = []
    for parent, folders, files in os.walk(folder):
        unknown = [
            name for name in folders if parent != str(folder) or not fnmatchcase(name, _FOLDERS)
        ]
        folders[:] = sorted({*folders} - {*unknown})  # an unknown one is named, not what is in it
        unknown += [name for name in files if not any(fnmatchcase(name, known) for known in _FILES)]
        foreign += [os.path.relpath(Path(parent, name), folder) for name in unknown]
    return sorted(foreign)


@contextmanager
def claiming(output: Path, force: bool) -> Iterator[Path]:
    """Open the hidden folder beside ``output`` in which one process at a time writes an encoder.

    Files that a killed process left there are removed, after the encoder that it had put aside is back in its place.
    """
    with beside(output) as workplace:
        try:
            _settle(workplace, output)
            check_output(output, force)
            yield workplace
        finally:
            _settle(workplace, output)


def _settle(workplace: Path, output: Path) -> None:
    """Put back an encoder that was put aside and not replaced, and remove incomplete ones."""
    new, old = workplace / "new", workplace / PUT_ASIDE
    if old.is_dir() and new.is_dir():  # ended between the two renames
        try:
            os.replace(old, output)
        except OSError as error:
            problem = f"{old} is the former encoder of {output}, which now holds something else"
            raise StorageError(problem, "Move one of them elsewhere.") from error
    for folder in (old, new):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replacing(output: Path, workplace: Path, force: bool) -> Iterator[Path]:
    """Make a new folder in the ``workplace`` of ``claiming`` that becomes ``output`` on success."""
    from safetensors import SafetensorError

    new = workplace / "new"
    try:
        new.mkdir()
        yield new
        sync_tree(new)  # before the rename: a power cut must not leave empty files
        check_output(output, force)  # again: what appeared meanwhile is not replaced unasked
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
    """Write all but the model card into an empty directory; an adapter names ``base``, the folder of its backbone."""
    from safetensors.torch import save_file

    transformer.save(folder)
    files = _transformer_files(folder, transformer, pooling, base or transformer.path)
    files |= {
        "config_sentence_transformers.json": {
            "prompts": {"text": prefix(pooling.prompt)} if pooling.prompt else {},
            "default_prompt_name": "text" if pooling.prompt else None,
            "similarity_fn_name": "cosine",
        },
        "modules.json": [
            # These type names are resolved by every version of sentence-transformers.
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
        ],
        DESCRIPTION: {
            "readout": {**pooling.to_json(), **({"post": STORED} if post else {})},
            **description,
        },
    }
    for number, (name, settings, weights) in enumerate(
        _modules(transformer, pooling, post), start=1
    ):
        path = f"{number}_{name}"
        module = {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        files["modules.json"].append(module)
        files[f"{path}/config.json"] = settings
        (folder / path).mkdir()
        if weights:
            save_file(weights, folder / path / "model.safetensors")
    for file, content in files.items():
        text = json.dumps(content, indent=2, ensure_ascii=False)
        (folder / file).write_text(f"{text}\n", encoding="utf-8")


def _transformer_files(
    folder: Path, transformer: Transformer, pooling: Pooling, base: Path
) -> dict[str, Any]:
    """The saved settings of the transformer, with those that sentence-transformers reads, by file."""
    name = ADAPTER if is_adapted(transformer.adapted) else "config.json"
    config, tokenizer = (
        json.loads((folder / file).read_bytes()) for file in (name, "tokenizer_config.json")
    )
    lower = (
        {"output_hidden_states": True} if pooling.layers != "-1:" else {}
    )  # layers that sentence-transformers needs
    own: dict[str, Any] = _OF_ENCODER if transformer.half else {}
    if name == ADAPTER:
        config |= named_base(base)
        own = {**own, "config_args": lower} if lower else own  # the configuration is the backbone's
    else:
        for part in (
            config,
            config.get("encoder"),
        ):  # T5Gemma's encoder has a configuration of its own
            if isinstance(part, dict):
                part.pop("output_hidden_states", None)
                part |= lower
    length = kept_length(transformer, pooling)
    return {
        name: config,
        "tokenizer_config.json": {**tokenizer, "model_max_length": length, "padding_side": "right"},
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False, **own},
    }


def kept_length(transformer: Transformer, pooling: Pooling) -> int:
    """Return the number of tokens that other libraries keep of a text and its prompt together."""
    if not pooling.prompt:
        return pooling.max_length
    both = pooling.max_length + prompt_tokens(transformer.tokenizer, prefix(pooling.prompt))
    return min(both, transformer.positions or both)


def named_base(base: Path) -> dict[str, Any]:
    """Return an adapter's name of its backbone: hub id and commit where it came from the hub, else its folder."""
    cached = base.parts[-3:]  # models--OWNER--NAME/snapshots/COMMIT
    if len(cached) == 3 and cached[0].startswith("models--") and cached[1] == "snapshots":
        return {
            "base_model_name_or_path": "/".join(cached[0].split("--")[1:]),
            "revision": cached[2],
        }
    return {"base_model_name_or_path": str(base.resolve()), "revision": None}


def _modules(
    transformer: Transformer, pooling: Pooling, post: Affine | None
) -> Iterator[tuple[str, dict[str, Any], dict[str, torch.Tensor]]]:
    """The modules of sentence-transformers after the transformer: name, settings and weights."""
    import torch

    tokenizer = transformer.tokenizer
    n, size = transformer.layers, transformer.dimensions
    if pooling.layers != "-1:":  # the mean over a slice of the layers, as weights of 1 and 0
        chosen = torch.zeros(n + 1)
        chosen[parse_layers(pooling.layers)] = 1
        settings = {"word_embedding_dimension": size, "layer_start": 0, "num_hidden_layers": n}
        yield "WeightedLayerPooling", settings, {"layer_weights": chosen}
    if pooling.of_target:  # special tokens have weight 0, and so have tokens of nothing but spaces
        around = [
            tokenizer.cls_token_id,
            tokenizer.sep_token_id,
            tokenizer.bos_token_id,
            tokenizer.eos_token_id,
        ]
        decoded = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
        blank = (token for token, text in enumerate(decoded) if text.isspace())
        ids = sorted(
            {token for token in (*around, tokenizer.pad_token_id, *blank) if token is not None}
        )
        vocabulary: list[str] = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        ones = torch.ones(len(tokenizer), 1)
        ones[ids] = 0
        left_out = {vocabulary[token]: 0.0 for token in ids}
        words = {"vocab": vocabulary, "word_weights": left_out, "unknown_word_weight": 1.0}
        yield "WordWeights", words, {"emb_layer.weight": ones}
    modes = ("max_tokens", "mean_sqrt_len_tokens", *_FLAGS.values())
    flags = {f"pooling_mode_{mode}": mode == _FLAGS[pooling.mode] for mode in modes}
    yield "Pooling", {"word_embedding_dimension": size, **flags}, {}
    if pooling.normalize:
        yield "Normalize", {}, {}
    if post:
        linear = {"activation_function": IDENTITY}
        yield (
            "Dense",
            {"in_features": size, "out_features": len(post.bias), "bias": True, **linear},
            post.dense(),
        )
