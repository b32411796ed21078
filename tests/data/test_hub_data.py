"""Corpora and tasks from data sets of the Hugging Face hub, against a server that answers as the hub does."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.runner_bench import Bench
from helpers.toy_plugin import ToyPlugin
from helpers.web_server import LocalServer

from mirrorbench.core.errors import (
    DataFormatError,
    DataIntegrityError,
    DataUnavailableError,
    UsageError,
)
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.card_files import load_card
from mirrorbench.data.cards import hub_card, hub_file, parse_hub_id
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.store import DataStore
from mirrorbench.runs.plan import Request
from mirrorbench.runs.run import execute_plan, make_plan

REVISION = "0123456789012345678901234567890123456789"
TOY = f"hf:owner/toy@{REVISION}"
CARD = f"""\
name: hub-pairs
kind: pair-similarity
level: sentence
metric: spearman
parser: table
options: {{format: jsonl, columns: {{left: one, right: two, gold: score}}, scale: [0, 5], corpus: quick-sentences}}
files: ["{TOY}/pairs/test"]
"""
README = """\
---
configs:
- config_name: lines
  data_files: [{split: train, path: lines/train.parquet}]
- config_name: pairs
  data_files: [{split: test, path: pairs/test.parquet}]
---
"""
PAIRS = [
    ("a cat", "a kitten", 4.5),
    ("a dog", "the dog", 5),
    ("a cat", "a bus", 0.5),
    ("a car", "a bus", 2.5),
]
LINES = ["a cat", None, "a dog", "a cat", "two\nlines", "  "]


def dataset_files() -> dict[str, bytes]:
    """A data set of two configurations as it lies on the hub."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    tables = {
        "lines/train.parquet": {
            "text": LINES,
            "n": list(range(len(LINES))),
            "bytes": [b"\0"] * len(LINES),
        },
        "pairs/test.parquet": dict(
            zip(("one", "two", "score"), zip(*PAIRS, strict=True), strict=True)
        ),
    }
    files = {"README.md": README.encode()}
    for name, columns in tables.items():
        parquet.write_table(arrow.table(columns), sink := io.BytesIO())
        files[name] = sink.getvalue()
    return files


class Hub(LocalServer):
    """The part of the hub's interface that the library ``datasets`` uses to read a data set."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files = files

    def answer(self, path: str, agent: str) -> tuple[int, bytes, dict[str, str]]:
        info, raw = "/api/datasets/owner/toy", f"/datasets/owner/toy/resolve/{REVISION}/"
        if path == f"{info}/revision/{REVISION}":
            names = [{"rfilename": name} for name in self.files]
            return (
                200,
                json.dumps({"id": "owner/toy", "sha": REVISION, "siblings": names}).encode(),
                {},
            )
        if path.startswith(f"{info}/tree/{REVISION}"):
            return (
                200,
                json.dumps(
                    self._tree(path.removeprefix(f"{info}/tree/{REVISION}").strip("/"))
                ).encode(),
                {},
            )
        if path.removeprefix(raw) in self.files:
            content = self.files[path.removeprefix(raw)]
            return (
                200,
                content,
                {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": REVISION},
            )
        return (
            404,
            b"{}",
            {"X-Error-Code": "EntryNotFound" if "owner/toy" in path else "RepoNotFound"},
        )

    def _tree(self, folder: str) -> list[dict[str, Any]]:
        """What lies in one folder."""
        entries: dict[str, dict[str, Any]] = {}
        for path, content in self.files.items():
            if not folder or path.startswith(f"{folder}/"):
                first, _, rest = path.removeprefix(folder).strip("/").partition("/")
                name = f"{folder}/{first}".strip("/")
                known = {"path": name, "oid": hashlib.sha1(name.encode()).hexdigest()}
                entries[name] = known | (
                    {"type": "directory"} if rest else {"type": "file", "size": len(content)}
                )
        return list(entries.values())


SEVERAL = """
import contextlib, io, json, sys
from mirrorbench.cli import main
done = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["mirrorbench", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main()
        except SystemExit as stop:
            code = stop.code
    done.append([code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(done))
"""
MISSING = {
    f"{TOY}/train": "Config name is missing",
    f"{TOY}/lines/test": "Unknown split",
    f"hf:owner/none@{REVISION}/train": "doesn't exist on the Hub",
}


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, str, str]]]:
    """Where commands put what they fetched, and what each of them said: code, output, errors.

    One process of several commands: the hub's client takes its address when it is imported, which takes long.
    """
    pytest.importorskip("datasets")
    folder = tmp_path_factory.mktemp("hub")
    each = [
        ["data", "fetch", f"{TOY}/lines/train", f"{TOY}/pairs/test"],
        ["data", "path", f"{TOY}/lines/train"],
        *(["data", "fetch", identity] for identity in MISSING),
    ]
    program = [sys.executable, "-c", SEVERAL, json.dumps(each)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_HOME": str(folder / "hf"), "no_proxy": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    with Hub(dataset_files()) as hub:
        environment |= {"HF_ENDPOINT": hub.url, "MIRRORBENCH_DATA": str(folder / "data")}
        done = subprocess.run(
            program, cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
    return folder / "data", json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_task_and_corpus_are_read_from_hub(
    fetched: Any, bench: Bench, random_model: Callable[[str], Path]
) -> None:
    data = Path(shutil.copytree(fetched[0], bench.folder / "data"))
    card = bench.folder / "pairs.yaml"
    card.write_text(CARD)
    bench.plugins.add(ToyPlugin(tasks=[card]), "hub")  # type: ignore[list-item]
    request = Request(
        (parse_spec(f"{random_model('bert')}+mirror"),),
        ("hub-pairs",),
        (0,),
        f"{TOY}/lines/train#text",
    )
    (result,) = execute_plan(bench.workspace(), make_plan(bench.workspace(), request)).results
    assert result.n_items == len(PAIRS)
    strings = ("a cat", "a dog", "two lines")  # no null, no blank, no repetition
    assert (
        result.cell["corpus"]["sha256"] == hashlib.sha256("\n".join(strings).encode()).hexdigest()
    )
    ((name, checksum),) = result.data["files"].items()
    assert name == f"owner/toy/{REVISION}/pairs/test.jsonl"
    stored = data / "hub" / name
    assert checksum == f"unverified:{hashlib.sha256(stored.read_bytes()).hexdigest()}"
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    assert [(row["one"], row["two"], row["score"]) for row in rows] == PAIRS


@pytest.mark.slow
def test_hub_fetch_stores_splits_and_reports_errors(fetched: Any, tmp_path: Path) -> None:
    data, (fetch, path, *failed) = fetched
    assert fetch[0] == 0, fetch[2]
    (stored,) = (data / "hub").rglob("lines/*.jsonl")
    assert set(json.loads(stored.read_text().splitlines()[0])) == {"text", "n"}  # bytes are no text
    assert path[1].strip() == str(stored)
    for (code, _, err), (identity, message) in zip(failed, MISSING.items(), strict=True):
        assert code == 1
        assert message in " ".join(err.split())
        assert f"mirrorbench data fetch {identity}" in err
        assert "Traceback" not in err
    changed = DataStore(Path(shutil.copytree(data, tmp_path / "data")), offline=True)
    (copy,) = (changed.root / "hub").rglob("lines/*.jsonl")
    copy.write_text(copy.read_text().replace("a dog", "a fox"))
    with pytest.raises(DataIntegrityError, match="is not the file"):
        read_corpus(f"{TOY}/lines/train#text", changed, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hf:owner/toy", "names no split"),
        ("hf:owner/toy@main/train", "'main', which is no commit"),
        (f"{TOY}", "names no split"),
        (f"{TOY}/../train", "names no split"),
        (f"{TOY}/{'x' * 101}/train", "more than 100 characters"),
    ],
)
def test_unpinned_hub_ids_are_rejected(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        read_corpus(f"{text}#text", DataStore(tmp_path), {})
    (tmp_path / "card.yaml").write_text(CARD.replace(f"{TOY}/pairs/test", text))
    with pytest.raises(DataFormatError, match=message):
        load_card(tmp_path / "card.yaml")


def test_hub_card_and_corpus_share_stored_files(tmp_path: Path) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(CARD)
    card, other = load_card(path), hub_card(f"{TOY}/pairs/test#one")
    assert (card.folder, card.files) == (other.folder, other.files)
    assert card.folder == "hub"
    path.write_text(CARD.replace("pairs/test", "pairs/test#one"))
    with pytest.raises(DataFormatError, match="names the column among its options"):
        load_card(path)


@pytest.fixture
def stored(tmp_path: Path) -> DataStore:
    """A store into which a split was fetched before."""
    source, _ = parse_hub_id(f"{TOY}/train")
    path = tmp_path / "hub" / hub_file(source).path
    path.parent.mkdir(parents=True)
    path.write_text('{"text": "a cat", "n": 1}\n{"text": "a dog", "n": 2}\n')
    return DataStore(tmp_path, offline=True)


def test_hub_corpus_column_must_exist_and_hold_text(stored: DataStore) -> None:
    assert read_corpus(f"{TOY}/train#text", stored, {}).texts == ("a cat", "a dog")
    with pytest.raises(DataFormatError, match=r"line 1: there is no column 'txt'") as caught:
        read_corpus(f"{TOY}/train#txt", stored, {})
    assert caught.value.hint == "It has: text, n"
    with pytest.raises(DataFormatError, match=r"column 'n' holds '1', which is no text"):
        read_corpus(f"{TOY}/train#n", stored, {})
    with pytest.raises(UsageError, match="names no column") as usage:
        read_corpus(f"{TOY}/train", stored, {})
    assert f"{TOY}/train#text" in usage.value.hint


def test_hub_corpus_is_unavailable_offline_or_without_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    with pytest.raises(DataUnavailableError, match="--offline") as caught:
        read_corpus(f"{TOY}/train#text", DataStore(tmp_path, offline=True), {})
    assert f"huggingface.co/datasets/owner/toy/tree/{REVISION}" in caught.value.message
    assert f"mirrorbench data fetch {TOY}/train\n" in caught.value.hint
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataUnavailableError, match=r"pip install 'mirrorbench\[hub\]'"):
        read_corpus(f"{TOY}/train#text", DataStore(tmp_path), {})


@pytest.mark.slow
def test_local_folder_does_not_replace_hub_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "owner" / "toy").mkdir(parents=True)
    (tmp_path / "owner" / "toy" / "train.jsonl").write_text('{"text": "another"}\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataUnavailableError, match="a folder owner/toy lies here"):
        read_corpus(f"{TOY}/train#text", DataStore(tmp_path / "data"), {})
