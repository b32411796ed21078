"""A tuned encoder on the disk."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.random_models import Models
from helpers.tuning_lines import LINES

import mirrorbench


@dataclass
class Exported:
    tuned: Any
    folder: Path
    backbone: Path

    def copy(self, folder: Path) -> bytes:
        """A copy that a test may change; its weights as bytes."""
        shutil.copytree(self.folder, folder)
        return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="session")
def exported(random_model: Models, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A tuned encoder, of a backbone with a card; no test may change it."""
    place = tmp_path_factory.mktemp("exported")
    shutil.copytree(random_model("bert"), place / "backbone")
    (place / "backbone" / "README.md").write_text("---\nlicense: mit\n---\nA model.\n")
    spec = f"{place / 'backbone'}+mirror:layers=:,pooling=mean,max_length=33,lr=0.01"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRRORBENCH_CACHE", str(place / "cache"))
        tuned = mirrorbench.tune(LINES, spec, place / "my-encoder", held_out=6, device="cpu")
    return Exported(tuned, place / "my-encoder", place / "backbone")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Starts a function of ``killable``, given by its name, in a process of its own, with one thread."""
    from helpers import killable_runs

    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # before the fork server starts
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["helpers.killable_runs"])

    def start(name: str, *args: object) -> Any:
        process = context.Process(target=getattr(killable_runs, name), args=args, daemon=True)
        process.start()
        return process

    return start
