"""The commands of docs/cluster.md for GPUs are planned for them, on a machine without."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pages import ROOT, own_commands
from reader import Machine, Shell, install

GRID = "mirrorbench run -e bert+mirror -e roberta+mirror -t sts --seeds 3 --workers 2 -o two"


@pytest.mark.full
def test_the_first_grid_is_planned_for_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    random_model: Callable[[str], Path],
) -> None:  # fmt: skip
    """Its cells are those of a run on the CPU in the precision that a GPU has by default: two encoders, seven sets."""
    assert GRID in own_commands((ROOT / "docs" / "cluster.md").read_text(encoding="utf-8"))
    machine = Machine(tmp_path / "reader", tmp_path / "cache", random_model)
    machine.desk(tmp_path / "desk")
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)

    def cells(options: str) -> list[str]:
        said = Shell(tmp_path / "desk", monkeypatch, capsys.readouterr)(f"{GRID} --dry-run {options}")
        assert said.code == 0, said.err
        assert "0 impossible" in said.out
        return re.findall(r"^  to do .*", said.out, re.M)

    with machine.running():
        plain, in_bf16 = (cells(f"--device cpu --precision {precision}") for precision in ("fp32", "bf16"))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
        on_the_gpu = cells("")
    assert len(on_the_gpu) == 2 * 7 * 3
    assert on_the_gpu == in_bf16
    assert not set(on_the_gpu) & set(plain)  # tuned in another precision: no result of the one is the other's


OF_WORKERS = {
    "mirrorbench run grid.yaml --device cuda": "device: cuda; tuned in bf16; evaluated in fp32",
    "mirrorbench run grid.yaml --executor slurm:partition=gpu,gpus=1,cpus=8,groups=4 --workers 8":
        "device: cuda; tuned in bf16; evaluated in fp32",
    "mirrorbench run grid.yaml --executor slurm:partition=turing,gpus=1 --precision fp16":
        "device: cuda; tuned in fp16; evaluated in fp32",
    "mirrorbench run grid.yaml --executor ray:gpus=1,cpus=4 --address auto --deterministic":
        "device: cuda; tuned in bf16; evaluated in fp32",
    "mirrorbench run grid.yaml --executor ray:gpus=0.5 --address auto":
        "device: cuda; tuned in bf16; evaluated in fp32",
}  # fmt: skip
"""The commands of the page, and what ``--dry-run`` says of them."""


def test_the_page_has_these_commands() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8").partition("## GPUs of workers")[2]
    assert own_commands(page.partition("\n## ")[0]) == list(OF_WORKERS)


@pytest.mark.parametrize("command", OF_WORKERS)
def test_the_gpus_of_workers_are_planned_for(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On this machine, which has no GPU; where the command is for GPUs of its own, it says that there is none."""
    for name in re.findall("--executor (ray|slurm)", command):
        pytest.importorskip({"ray": "ray", "slurm": "submitit"}[name])
        for folder in install(ROOT / "plugins" / f"mirrorbench-{name}", tmp_path / "site"):
            monkeypatch.syspath_prepend(folder)
    (tmp_path / "grid.yaml").write_text("encoders: tiny+mirror\ntasks: quick-sts\n")
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / "cache"))
    run = Shell(tmp_path, monkeypatch, capsys.readouterr)
    if "--executor" not in command:
        assert "--device cuda: " in run(f"{command} --dry-run").err
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    said = run(f"{command} --dry-run")
    assert said.code == 0, said.err
    assert OF_WORKERS[command] in said.out.splitlines()
