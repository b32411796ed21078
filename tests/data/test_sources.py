"""Sources of data files: downloads and archives, and data sets of the Hugging Face hub.

A local server takes the place of each host, and answers as the hub does.
"""

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
from helpers.format_samples import archive
from helpers.hub_data_set import CARD, PAIRS, REVISION, TOY
from helpers.runner_bench import Bench
from helpers.toy_cards import corpus_card, make_card, make_file, unverified_file
from helpers.toy_plugin import ToyPlugin
from helpers.web_server import LocalServer

from mirrorbench.core.errors import DataIntegrityError, DataUnavailableError, StorageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.data import sources
from mirrorbench.data.cards import ArchiveSource, UrlSource
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.store import DataStore
from mirrorbench.runs.requests import Request
from mirrorbench.workspace_functions import execute_plan, make_plan

CONTENT = b"one\ttwo\n"
README = """\
---
configs:
- config_name: lines
  data_files: [{split: train, path: lines/train.parquet}]
- config_name: pairs
  data_files: [{split: test, path: pairs/test.parquet}]
---
"""


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


def test_hub_corpus_is_unavailable_offline_or_without_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    with pytest.raises(DataUnavailableError, match="offline=True") as caught:
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
    with pytest.raises(DataUnavailableError, match="there is a folder owner/toy here"):
        read_corpus(f"{TOY}/train#text", DataStore(tmp_path / "data"), {})


def test_sources_are_tried_until_the_checksum_matches(server: Any, tmp_path: Path) -> None:
    server.pages |= {
        "/wrong.txt": b"ONE\tTWO\n",
        "/long.txt": CONTENT * 9,
        "/right.txt": CONTENT,
    }
    names = ("none.txt", "wrong.txt", "long.txt", "right.txt")
    card = make_card(make_file(CONTENT, *(UrlSource(f"{server.url}/{name}") for name in names)))
    assert DataStore(tmp_path).fetch(card)["a.txt"].read_bytes() == CONTENT
    assert server.asked == [
        "/none.txt",
        "/none.txt",
        "/wrong.txt",
        "/wrong.txt",
        "/long.txt",
        "/right.txt",
    ]


def test_transient_download_failure_is_retried(server: Any, tmp_path: Path) -> None:
    server.pages["/a.txt"], server.failures["/a.txt"] = CONTENT, 1
    file = make_file(CONTENT, UrlSource(f"{server.url}/a.txt"))
    assert DataStore(tmp_path).fetch(make_card(file))["a.txt"].is_file()


def test_archive_is_downloaded_once_for_all_members(server: Any, tmp_path: Path) -> None:
    members = {"a.txt": CONTENT, "b.txt": b"b"}
    packed = server.pages["/x.tgz"] = archive(
        {f"x/{name}": content for name, content in members.items()}
    )
    known = hashlib.sha256(packed).hexdigest(), len(packed)
    files = [
        make_file(content, ArchiveSource(f"{server.url}/x.tgz", f"x/{name}", *known), path=name)
        for name, content in members.items()
    ]
    paths = DataStore(tmp_path).fetch(make_card(*files))
    assert {name: path.read_bytes() for name, path in paths.items()} == members
    assert server.asked == ["/x.tgz"]


def test_fetch_error_names_sources_licence_and_commands(server: Any, tmp_path: Path) -> None:
    server.pages["/wrong.txt"] = b"ONE\tTWO\n"
    gone, wrong, nobody = (
        f"{server.url}/gone.txt",
        f"{server.url}/wrong.txt",
        "http://127.0.0.1:9/a.txt",
    )
    file = make_file(CONTENT, *map(UrlSource, (gone, wrong, nobody)))
    with pytest.raises(DataUnavailableError) as caught:
        DataStore(tmp_path).fetch(make_card(file, notes="a note"))
    for part in (
        "missing: a.txt",
        f"{gone}: 404",
        "wrong.txt: ",
        file.sha256,
        f"{nobody}: 127.0.0.1:9 cannot be reached",
        "Licence: CC0 https://example.org/cc0",
        "a note",
        "mirrorbench data fetch toy",
        "mirrorbench data import DIR",
    ):
        assert part in str(caught.value)
    assert not (tmp_path / "toy" / "a.txt").exists()
    urls = [UrlSource(f"{nobody}{number}") for number in range(3)]
    with pytest.raises(DataUnavailableError, match="not asked again"):
        DataStore(tmp_path).fetch(make_card(make_file(CONTENT, *urls)))


def test_unwritable_store_is_a_storage_error(server: Any, tmp_path: Path) -> None:
    server.pages["/a.txt"] = CONTENT
    (tmp_path / "store").write_text("a file where the folder should be")
    card = make_card(make_file(CONTENT, UrlSource(f"{server.url}/a.txt")))
    with pytest.raises(StorageError, match="Cannot write"):
        DataStore(tmp_path / "store").fetch(card)


def test_download_of_unknown_size_is_limited(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wikipedia's million sentences are larger than what is taken out of an archive."""
    monkeypatch.setattr(sources, "MEMBER_LIMIT", 1)
    monkeypatch.setattr(sources, "_DOWNLOAD_LIMIT", 8)
    server.pages |= {"/a.txt": b"8 bytes\n", "/b.txt": b"9 bytes!\n"}
    fits, exceeds = (
        corpus_card(unverified_file(name, f"{server.url}/{name}")) for name in ("a.txt", "b.txt")
    )
    assert DataStore(tmp_path).resolve(fits).files["a.txt"].read_bytes() == b"8 bytes\n"
    with pytest.raises(DataUnavailableError, match="sends more than the 8 bytes"):
        DataStore(tmp_path).resolve(exceeds)
