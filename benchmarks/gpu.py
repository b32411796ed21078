"""Checks of mirrorbench on this GPU, and measurements beside their aims, as a table in Markdown.

    python benchmarks/gpu.py [--device cuda:0] [--sentences FILE] [--only PART]... | tee table.md

Needs the source tree with torch, transformers, numpy, scipy and pluggy, 20 GB of memory and no network. The model is
a BERT-base with random weights; texts are the lines of a file, or of the built-in corpus, numbered where they repeat.
Run it alone on the machine. ``--mini`` takes a small model and few texts, to try the script on any machine.

A part that fails is a row of the table, its traceback goes to the error output, and the others run. The exit code is 1
if something failed or is wrong; an aim that is missed changes nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # nothing need be installed

import torch  # noqa: E402
from gpu_bench import GIB, WRONG, Bench, Row  # noqa: E402
from gpu_parts import PARTS  # noqa: E402
from measuring import machine  # noqa: E402

from mirrorbench.core.devices import on_gpu, pick_device  # noqa: E402
from mirrorbench.models.opening import quiet_transformers  # noqa: E402


def described(device: torch.device) -> str:
    """Describe the machine, its GPU, and torch's settings in one line."""
    if not on_gpu(device):
        return f"{machine()}; no GPU: nothing is asked of speed and memory"
    found = torch.cuda.get_device_properties(device)
    versions = f"CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
    tf32 = torch.backends.cuda.matmul.allow_tf32
    return f"{found.name}, {found.total_memory / GIB:.0f} GiB, {versions}, TF32 {tf32}; {machine()}"


def save_model(folder: Path, mini: bool) -> Path:
    """Write a BERT-base with random weights and the built-in tokenizer."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    small = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "intermediate_size": 128,
    }
    torch.manual_seed(0)
    with quiet_transformers():
        BertModel(BertConfig(**(small if mini else {}))).save_pretrained(folder)
        AutoTokenizer.from_pretrained(
            ROOT / "mirrorbench/embedded/tiny", local_files_only=True
        ).save_pretrained(folder)
    return folder


def main() -> int:
    """Run the parts and print their rows as they come; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    corpus = ROOT / "mirrorbench/embedded/data/corpora/sentences.txt"
    parser.add_argument(
        "--sentences", type=Path, default=corpus, help="a file with one sentence a line"
    )
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="a part; may be given several times"
    )
    parser.add_argument("--mini", action="store_true", help="a small model and few texts")
    options = parser.parse_args()
    lines = [line.strip() for line in options.sentences.read_text(encoding="utf-8").splitlines()]
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        path, device = save_model(Path(folder), options.mini), pick_device(options.device)
        bench = Bench(device, options.mini, path, list(dict.fromkeys(filter(None, lines))))
        print(f"{described(device)}\n\n| what | aim | measured | |\n|---|---|---|---|", flush=True)
        for name in options.only or PARTS:
            try:
                for row in PARTS[name](bench):
                    print(row, flush=True)
                    wrong |= row.verdict == WRONG
            except Exception as error:  # one broken part must not hide the others
                traceback.print_exc()
                message = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                print(Row(name, "runs", message, WRONG), flush=True)
                wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
