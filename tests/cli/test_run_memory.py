"""What a dry run says of memory, from a configuration alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

# What is published of Llama 2 7B.
LLAMA_7B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096,
    "torch_dtype": "float16",
}  # fmt: skip


@pytest.mark.slow
def test_a_plan_says_what_fits_and_what_would(mirrorbench: Callable, folder: Path) -> None:
    (folder / "llama").mkdir()
    (folder / "llama" / "config.json").write_text(json.dumps(LLAMA_7B))
    plan = ("run", "-e", "./llama+mirror", "-t", "quick-sts", "--device", "cpu")

    def told(memory: str, *more: str) -> list[str]:
        said = mirrorbench(*plan, "--dry-run", "--memory", memory, *more).assert_works()
        return [line for line in said.out.splitlines() if line.startswith("memory: ")]

    tuning, encoding = told("24")
    assert "tuning with ./llama+mirror takes 106.9 GB (weights 26.4, gradients 26.4, Adam 52.9, " in tuning
    assert "24.0 GB: does not fit; ./llama+mirror:lora=16 --precision bf16 fits: 14." in tuning
    assert "24.0 GB: does not fit; ./llama+mirror:lora=16 --eval-precision bf16 fits: 13.2 GB" in encoding
    tuning, encoding = told("14", "--precision", "bf16", "--eval-precision", "bf16")
    assert "14.0 GB: does not fit; ./llama+mirror:gradient_checkpointing=true,lora=16 fits: 13.9 GB" in tuning
    assert "14.0 GB: does not fit; ./llama+mirror:lora=16 fits: 13.2 GB" in encoding
    assert told("13.5", "--precision", "bf16")[0].endswith("13.5 GB: does not fit; nor does less")
    plan = ("run", "-e", "./llama+mirror:lora=16,train_max_length=512", *plan[3:])
    other = "./llama+mirror:gradient_checkpointing=true,lora=16,train_max_length=512"
    assert f"24.0 GB: does not fit; {other} fits: 14.9 GB" in told("24", "--precision", "bf16")[0]
    mirrorbench(*plan, "--memory", "24").assert_fails(2, "--memory 24 belongs to the plan")
