"""Turn a checkpoint into the folder that ships: half-precision safetensors, config and tokenizer.

    python -m pretraining.export --checkpoint CHECKPOINT --tokenizer FOLDER --output FOLDER

What is tied is stored once, and nothing is pickled. The pooler of BERT's next-sentence task is absent: it was
never trained.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoTokenizer

from pretraining.pretrain import LARGEST, model_config
from pretraining.tokenizer import MAX_LENGTH

TIED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}


def half_precision(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights to store, each once, in float16."""
    stored = {
        name: tensor.half().contiguous() for name, tensor in state.items() if name not in TIED
    }
    overflown = [name for name, tensor in stored.items() if not torch.isfinite(tensor).all()]
    if overflown:
        raise ValueError(f"too large for float16: {', '.join(overflown)}")
    return stored


def export(checkpoint: Path, tokenizer_folder: Path, output: Path) -> None:
    """Write weights, config and tokenizer."""
    output.mkdir(parents=True, exist_ok=True)
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    weights = save(half_precision(state["model"]), metadata={"format": "pt"})
    (output / "model.safetensors").write_bytes(weights)  # not save_file: readable by its owner only
    width = state["model"]["bert.embeddings.word_embeddings.weight"].shape[1]
    layers, feed_forward = (state["settings"][key] for key in ("layers", "feed_forward"))
    config = model_config(
        width, layers, feed_forward, dropout=0.1
    )  # BERT's rates: +mirror's two views need them
    config.architectures = ["BertForMaskedLM"]
    config.dtype = "float32"  # float16 is for storage only: compute on a CPU wants float32
    config.save_pretrained(output)
    AutoTokenizer.from_pretrained(tokenizer_folder).save_pretrained(output)


def check(folder: Path) -> None:
    """Load the folder as a user would, and fail on anything missing, unexpected, double or too large."""
    model, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    problems = {kind: names for kind, names in report.items() if names}
    if problems:
        raise ValueError(f"does not load cleanly: {problems}")
    if model.dtype != torch.float32:
        raise ValueError(f"loads as {model.dtype}")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if tokenizer.mask_token != "[MASK]" or tokenizer.model_max_length != MAX_LENGTH:
        raise ValueError("the tokenizer lost its settings")
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    for name, size in sizes.items():
        print(f"{size:10,d}  {name}")
    print(f"{sum(sizes.values()):10,d}  bytes in all; {model.num_parameters():,d} parameters")
    if sum(sizes.values()) > LARGEST:
        raise ValueError(f"more than {LARGEST:,d} bytes")


def main() -> None:
    """Export and check."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    export(args.checkpoint, args.tokenizer, args.output)
    check(args.output)


if __name__ == "__main__":
    main()
