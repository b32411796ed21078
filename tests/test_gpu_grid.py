"""The grid that docs/cluster.md says to run first on a GPU is planned for one, on a machine without."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pages import ROOT, own_commands
from reader import Machine, Shell

GRID = "mirrorbench run -e bert+mirror -e roberta+mirror -t sts --seeds 3 --workers 2 -o two"


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
