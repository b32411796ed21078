"""The machine of somebody who reads the pages: models in the hub's cache, data fetched before, files of his own.

There is no network on it. The models are tiny and random, the data small; mirrorbench is what it is.
"""

from __future__ import annotations

import gzip
import importlib
import io
import json
import os
import re
import shlex
import shutil
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import numpy as np
import pytest

from helpers import small_data_sets
from helpers.documentation_pages import ROOT, parsed
from mirrorbench.cli import COMMANDS, commands_of_plugins, main
from mirrorbench.data import card_files
from mirrorbench.data.cards import EMBEDDED_DATA
from mirrorbench.models import backbones
from mirrorbench.runs import registry as plugin_manager

SUITES = ("sts", "simlex", "bel", "tsv")
LANGUAGES = ("en", "fr", "et", "ar", "zh", "ru", "es", "pl")
CARDS = (
    "stsb-dev",
    "simlex999",
    "qnli",
    "wic",
    "usim",
    "wsd",
    "qnli-sentences",
    "sts-sentences",
    "wic-sentences",
    "umls-names",
    *(f"words-{language}" for language in LANGUAGES),
)
GRID = "encoders: tiny+base\ntasks: quick-sts\n"


@dataclass(frozen=True)
class Said:
    """What a command left."""

    command: str
    code: int
    out: str
    err: str


class Machine:
    """A home with folders for data, models and cache.

    Args:
        root: where all of it lies.
        cache: mirrorbench's.
        model: the directory of a random model, by architecture.
    """

    def __init__(self, root: Path, cache: Path, model: Callable[[str], Path]) -> None:
        self.root = root
        self.cache = cache
        self.model = model
        self.made = small_data_sets.make(
            [*CARDS, *(task for suite in SUITES for task in card_files.builtin_suites()[suite])]
        )
        small_data_sets.write(self.made, root / "data")
        small_data_sets.write(
            {key: text for key, text in self.made.items() if key[0] == "stsb"},
            root / "home" / "Downloads",
        )
        models = ("bert", "roberta", "sbert", "mirror-bert-", "mirror-roberta-")
        known = [
            b
            for b in backbones.BACKBONES.values()
            if b.name in models or b.name.startswith(models[3:])
        ]
        for hub_id in {hub_id for b in known for hub_id in (b.hub_id, *b.by_language.values())}:
            self._download(hub_id, model("roberta" if "roberta-base" in hub_id else "bert"))

    def _download(self, hub_id: str, model: Path) -> None:
        """A model as the hub's client keeps it."""
        folder = self.root / "hub" / f"models--{hub_id.replace('/', '--')}"
        commit = "0" * 40
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(commit)
        (folder / "snapshots").mkdir()
        (folder / "snapshots" / commit).symlink_to(model)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say where things are."""
        return {
            "HOME": str(self.root / "home"),
            "MIRRORBENCH_DATA": str(self.root / "data"),
            "MIRRORBENCH_CACHE": str(self.cache),
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Cards that know the small files, the hub's cache, and no network."""
        load = card_files.load_cards
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                card_files,
                "load_cards",
                lambda path: tuple(small_data_sets.as_here(card, self.made) for card in load(path)),
            )
            patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
            patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(self.root / "hub"))
            patch.setattr(socket, "getaddrinfo", _no_network)
            _forget()
            yield
        _forget()

    def desk(self, folder: Path, grid: str = GRID) -> None:
        """A working directory with what the pages speak of: texts, a grid, models and vectors, parts of a checkout."""
        folder.mkdir(parents=True)
        texts = "".join(f"{text}\n" for text in small_data_sets.SENTENCES)
        for name in ("my_texts.txt", "texts.txt", "wikipedia.txt"):
            (folder / name).write_text(texts)
        (folder / "corpus.txt.gz").write_bytes(gzip.compress(texts.encode(), mtime=0))
        rows = [
            json.dumps({"question": f"Who? {text}", "answer": text}) + "\n"
            for text in small_data_sets.SENTENCES
        ]
        (folder / "pairs.jsonl.gz").write_bytes(gzip.compress("".join(rows).encode(), mtime=0))
        topics = [f"{text},{text.split()[1]}\n" for text in small_data_sets.SENTENCES]
        (folder / "topics.csv").write_text("text,label\n" + "".join(topics))
        multisimlex = EMBEDDED_DATA / "multisimlex" / "english.tsv"
        shutil.copy(multisimlex, folder / "words.tsv")  # as a page has it copied
        (folder / "grid.yaml").write_text(grid)
        (folder / "my-model").symlink_to(self.model("bert"))
        pieces = len(
            json.loads((backbones.embedded_directory() / "tokenizer.json").read_text())["model"][
                "vocab"
            ]
        )
        (folder / "static").mkdir()
        rng = np.random.default_rng(0)
        np.save(
            folder / "static" / "vectors.npy", rng.normal(size=(pieces, 256)).astype(np.float32)
        )
        np.save(folder / "static" / "counts.npy", rng.integers(1, 1000, pieces))
        shutil.copy(ROOT / "README.md", folder)
        for name in ("pretraining", "leaderboards"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )


class Shell:
    """Runs commands in a working directory of a machine, in this process.

    Args:
        folder: the working directory.
        patch: undone after the test.
        capture: gives what was printed since it was asked last.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: Callable[[], Any]) -> None:
        self.folder = folder
        self.patch = patch
        self.capture = capture
        patch.chdir(folder)

    def __call__(self, command: str) -> Said:
        """Run ``mirrorbench ...``, or ``echo TEXT | mirrorbench ...``."""
        piped = re.match(r"echo (.*) \| (.*)", command)
        text, command = (
            (" ".join(shlex.split(piped[1])) + "\n", piped[2]) if piped else ("", command)
        )
        _forget()
        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        self.patch.setattr(sys, "argv", [os.path.expanduser(word) for word in shlex.split(command)])
        self.capture()
        code = 0
        with patch.dict(COMMANDS):  # without what plugins add
            try:
                main()
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        said = self.capture()
        return Said(command, code, said.out, said.err)

    def check(self, command: str) -> None:
        """Have the command line read a command, with those of plugins, and run nothing.

        Raises:
            click.UsageError: it would refuse the command.
        """
        with patch.dict(COMMANDS):  # without what plugins add
            parsed(command)


def install(project: Path, site: Path) -> list[Path]:
    """What ``pip install -e`` leaves of a plugin's package: its entry point; the folders belong on the path."""
    described = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = site / f"{described['name'].replace('-', '_')}-{described['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {described['name']}\nVersion: {described['version']}\n"
    )
    groups = described["entry-points"].items()
    lines = [
        line
        for group, points in groups
        for line in (f"[{group}]", *(f"{k} = {v}" for k, v in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    importlib.invalidate_caches()
    return [project, site]


def _no_network(host: object, *args: object, **kwargs: object) -> NoReturn:
    raise OSError(f"no network: {host}")


def _forget() -> None:
    """What a process knows that has just started."""
    plugin_manager.plugins.cache_clear()
    commands_of_plugins.cache_clear()
    card_files.builtin_cards.cache_clear()
    card_files.builtin_suites.cache_clear()
    backbones._from_hub.cache_clear()
