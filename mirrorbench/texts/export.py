"""An encoder as a directory that sentence-transformers, transformers and mirrorbench open, with the same vectors.

The layout is that of sentence-transformers: ``modules.json`` lists a transformer, then, where several layers are
averaged, ``WeightedLayerPooling``, where special tokens do not count, ``WordWeights``, and last ``Pooling``.
transformers reads the directory as it is; the few lines that make vectors of its hidden states stand in the card.
``mirrorbench.json`` says how mirrorbench reads it, and what made it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import UsageError
from mirrorbench.core.files import building, sync_folder, sync_tree
from mirrorbench.models.backbones import DESCRIPTION
from mirrorbench.models.pooling import Pooling, parse_layers

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer

_MODELS = "sentence_transformers.models"  # the modules' names that every version of sentence-transformers resolves


def check_pooling(pooling: Pooling) -> None:
    """Whether other libraries can read as this pooling does.

    Raises:
        UsageError: they cannot.
    """
    if pooling.mode == "mean-padded":
        raise UsageError(
            "pooling=mean-padded averages over padding too, which no other library does, so it cannot be exported",
            "Use pooling=mean.",
        )


def check_output(output: Path, force: bool) -> None:
    """Whether a directory may be written.

    Raises:
        UsageError: something is there that must not, or not yet, be replaced.
    """
    if output.is_file() or output.is_symlink():
        raise UsageError(f"{output} is a file or a link, and the encoder is a directory", "Name another --output.")
    if not output.is_dir() or not any(output.iterdir()):
        return
    if not (output / DESCRIPTION).is_file():
        raise UsageError(
            f"{output} is not empty, and what it holds is no encoder of mirrorbench's; it is left alone",
            "Name another --output.",
        )
    if not force:
        raise UsageError(f"{output} already holds an encoder", "Replace it with --force, or name another --output.")


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """An empty directory beside ``output`` that takes its place when all is written, and goes if anything fails.

    Raises:
        StorageError: it cannot be written.
    """
    problem, hint = f"the encoder cannot be written to {output}", "Free some space, or name another --output."
    old = None
    try:
        with building(output, f".{output.name}-", problem, hint) as folder:
            yield folder
            folder.chmod(0o755)
            for file in folder.rglob("model*.safetensors"):
                file.chmod(0o644)  # safetensors lets nobody else read what it writes
            sync_tree(folder)  # or a power cut could leave the new name with no content
            if output.is_dir():
                old = folder.with_name(f"{folder.name}-old")
                os.replace(output, old)
            os.replace(folder, output)
            sync_folder(output.parent)
    finally:
        if old and not output.is_dir():
            os.replace(old, output)
        elif old:
            shutil.rmtree(old, ignore_errors=True)


def write_encoder(folder: Path, transformer: Transformer, pooling: Pooling, description: dict[str, Any]) -> None:
    """Write everything but the card.

    Args:
        folder: an empty directory.
        transformer: the tuned model.
        pooling: how its vectors are read.
        description: goes into ``mirrorbench.json``, beside the pooling.
    """
    from mirrorbench.models.transformer import quiet_transformers

    with quiet_transformers():
        transformer.model.save_pretrained(folder)
        transformer.tokenizer.save_pretrained(folder)
    several = pooling.layers != "-1:"
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config.pop("output_hidden_states", None)
    if several:
        config["output_hidden_states"] = True  # or sentence-transformers would not see the lower layers
    _write(folder / "config.json", config)
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    _write(folder / "tokenizer_config.json", {**settings, "model_max_length": pooling.max_length})
    _write(folder / "sentence_bert_config.json", {"max_seq_length": pooling.max_length, "do_lower_case": False})
    _write(
        folder / "config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None,
                                                       "similarity_fn_name": "cosine"},
    )  # fmt: skip
    modules = [("", "Transformer")]
    if several:
        modules.append((_layers(folder, len(modules), transformer, pooling.layers), "WeightedLayerPooling"))
    if pooling.mode == "target":
        modules.append((_words(folder, len(modules), transformer), "WordWeights"))
    modules.append((_pooling(folder, len(modules), transformer, pooling.mode), "Pooling"))
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"{_MODELS}.{kind}"}
        for number, (path, kind) in enumerate(modules)
    ]
    _write(folder / "modules.json", listed)
    own = {"pooling": pooling.mode, "layers": pooling.layers, "max_length": pooling.max_length}
    _write(folder / DESCRIPTION, {"readout": own, **description})


def _layers(folder: Path, number: int, transformer: Transformer, layers: str) -> str:
    """The mean over a slice of the layers, as weights of 1 and 0."""
    import torch
    from safetensors.torch import save_file

    n = int(transformer.model.config.num_hidden_layers)
    chosen = torch.zeros(n + 1)
    chosen[parse_layers(layers)] = 1
    name = f"{number}_WeightedLayerPooling"
    _write(folder / name / "config.json", {
        "word_embedding_dimension": int(transformer.model.config.hidden_size), "layer_start": 0,
        "num_hidden_layers": n,
    })  # fmt: skip
    save_file({"layer_weights": chosen}, folder / name / "model.safetensors")
    return name


def _words(folder: Path, number: int, transformer: Transformer) -> str:
    """Weights of 0 for the tokens that the tokenizer puts around a text: ``target`` leaves them out."""
    import torch
    from safetensors.torch import save_file

    tokenizer = transformer.tokenizer
    around = [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id]
    ids = sorted({token for token in (*around, tokenizer.pad_token_id) if token is not None})
    vocabulary: list[str] = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    weights = torch.ones(len(tokenizer), 1)
    weights[ids] = 0
    name = f"{number}_WordWeights"
    left_out = {vocabulary[token]: 0.0 for token in ids}
    config = {"vocab": vocabulary, "word_weights": left_out, "unknown_word_weight": 1.0}
    _write(folder / name / "config.json", config)
    save_file({"emb_layer.weight": weights}, folder / name / "model.safetensors")
    return name


def _pooling(folder: Path, number: int, transformer: Transformer, pooling: str) -> str:
    name = f"{number}_Pooling"
    _write(folder / name / "config.json", {
        "word_embedding_dimension": int(transformer.model.config.hidden_size),
        "pooling_mode_cls_token": pooling == "cls", "pooling_mode_mean_tokens": pooling != "cls",
        "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False,
    })  # fmt: skip
    return name


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
