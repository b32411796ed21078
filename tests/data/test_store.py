from __future__ import annotations

import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.parsed_files import simple
from helpers.toy_cards import corpus_card, make_card, make_file, unverified_file

from mirrorbench.core.errors import (
    DataFormatError,
    DataIntegrityError,
    DataUnavailableError,
)
from mirrorbench.data.cards import Card, Converted, UrlSource
from mirrorbench.data.importing import import_folder
from mirrorbench.data.readers.files import sha256_of
from mirrorbench.data.store import DataStore, data_root

CONTENT = b"one\ttwo\n"


def put(store: DataStore, card: Card, content: bytes, name: str = "a.txt") -> Path:
    path = store.root / card.name / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_data_root_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MIRRORBENCH_DATA", str(tmp_path))
    assert DataStore().root == tmp_path
    monkeypatch.delenv("MIRRORBENCH_DATA")
    assert data_root().name == "data"
    assert "mirrorbench" in str(data_root())


class TestFetching:
    def test_file_is_fetched_once_then_reused(self, server: Any, tmp_path: Path) -> None:
        server.pages["/a.txt"] = CONTENT
        card = make_card(make_file(CONTENT, UrlSource(f"{server.url}/a.txt")))
        store = DataStore(tmp_path / "store")
        path = tmp_path / "store" / "toy" / "a.txt"
        assert store.fetch(card) == store.fetch(card) == {"a.txt": path}
        assert path.read_bytes() == CONTENT
        assert server.asked == ["/a.txt"]
        assert all(agent.startswith("mirrorbench") for agent in server.agents)
        assert [entry.name for entry in (tmp_path / "store").iterdir()] == ["toy"], (
            "the temporary folder stayed"
        )

    @pytest.mark.usefixtures("no_network")
    def test_offline_store_opens_no_socket(self, tmp_path: Path) -> None:
        card = make_card(make_file(CONTENT, UrlSource("http://127.0.0.1:1/a.txt")))
        store = DataStore(tmp_path, offline=True)
        for attempt in (store.resolve, store.fetch):
            with pytest.raises(DataUnavailableError) as caught:
                attempt(card)
            for part in ("offline=True", "http://127.0.0.1:1/a.txt", "mirrorbench data fetch toy"):
                assert part in str(caught.value)
        assert store.status(card) == {"a.txt": "missing"}
        assert store.checksums(card) == {"a.txt": card.files[0].sha256}


class TestIntegrity:
    @pytest.mark.parametrize("content", [CONTENT[:-1], b"ONE\tTWO\n", CONTENT + b"x"])
    def test_truncated_or_altered_file_is_refused_but_kept(
        self, tmp_path: Path, content: bytes
    ) -> None:
        card = make_card(make_file(CONTENT))
        store = DataStore(tmp_path)
        path = put(store, card, content)
        with pytest.raises(DataIntegrityError) as caught:
            store.fetch(card)
        text = str(caught.value)
        assert f"Expected: 8 bytes, sha256 {card.files[0].sha256}" in text
        assert (
            f"Found:    {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}" in text
        )
        assert "mirrorbench data fetch toy --force" in text
        assert store.status(card) == {"a.txt": "altered"}
        assert path.read_bytes() == content

    def test_forced_fetch_keeps_the_altered_file(self, server: Any, tmp_path: Path) -> None:
        server.pages["/a.txt"] = CONTENT
        card = make_card(make_file(CONTENT, UrlSource(f"{server.url}/a.txt")))
        store = DataStore(tmp_path)
        for number, old in ((0, b"old"), (1, b"older")):
            path = put(store, card, old)
            with pytest.raises(DataIntegrityError):
                store.fetch(card)
            assert len(server.asked) == number
            assert store.fetch(card, force=True)["a.txt"].read_bytes() == CONTENT
        assert path.with_name("a.txt.altered").read_bytes() == b"old"
        assert path.with_name("a.txt.altered2").read_bytes() == b"older"

    def test_file_is_hashed_once_until_it_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hashed: list[Path] = []

        def counted(path: Path) -> str:
            hashed.append(path)
            return sha256_of(path)

        monkeypatch.setattr("mirrorbench.data.store.sha256_of", counted)
        card = make_card(make_file(CONTENT))
        path = put(DataStore(tmp_path), card, CONTENT)
        for _ in range(3):
            DataStore(tmp_path).fetch(card)
        assert hashed == [path]
        assert DataStore(tmp_path).verify(card) == {"a.txt": "present"}
        assert hashed == [path] * 2
        newer = make_card(make_file(CONTENT.upper()))  # the record does not deceive it
        assert DataStore(tmp_path).status(newer) == {"a.txt": "altered"}
        path.write_bytes(CONTENT.upper())
        os.utime(path, ns=(1, 1))
        assert DataStore(tmp_path).status(card) == {"a.txt": "altered"}

    @pytest.mark.parametrize("record", ["", "[]", '{"a.txt": 1}', '{"a.txt": {"size": 8}}', "\x00"])
    def test_damaged_verification_record_is_rebuilt(self, tmp_path: Path, record: str) -> None:
        card = make_card(make_file(CONTENT))
        path = put(DataStore(tmp_path), card, CONTENT)
        path.with_name(".verified.json").write_text(record)
        assert DataStore(tmp_path).status(card) == {"a.txt": "present"}
        assert list(json.loads(path.with_name(".verified.json").read_text())) == ["a.txt"]


def test_resolve_needs_only_the_scored_split(tmp_path: Path) -> None:
    files = [make_file(name.encode(), path=f"{name}.txt", split=name) for name in ("train", "test")]
    card = make_card(*files, options={"split": "test"})
    store = DataStore(tmp_path, offline=True)
    put(store, card, b"test", "test.txt")
    assert list(store.resolve(card).files) == list(store.checksums(card)) == ["test.txt"]
    assert list(store.fetch(card, "test")) == ["test.txt"]
    with pytest.raises(DataUnavailableError, match=r"missing: train\.txt"):
        store.fetch(card)


class TestUnverified:
    def test_first_download_pins_the_checksum(self, server: Any, tmp_path: Path) -> None:
        server.pages["/a.txt"] = CONTENT
        card = corpus_card(unverified_file("a.txt", f"{server.url}/a.txt"))
        store = DataStore(tmp_path)
        assert store.checksums(card) == {"a.txt": "unverified"}
        data = store.resolve(card)
        sha256 = hashlib.sha256(CONTENT).hexdigest()
        assert data.checksums == {"a.txt": f"unverified:{sha256}"}
        data.files["a.txt"].write_bytes(b"something else")
        with pytest.raises(DataIntegrityError, match=sha256):
            DataStore(tmp_path).resolve(card)

    def test_error_page_is_not_stored_as_data(self, server: Any, tmp_path: Path) -> None:
        files = [
            unverified_file(f"de/{name}", f"{server.url}/{name}")
            for name in ("dev.tsv", "test.tsv")
        ]
        card = make_card(
            *files, parser="am2ico", kind="word-in-context", options={"language": "de"}
        )
        good = b"context1\tcontext2\tlabel\n<word>a</word>\t<word>b</word>\tT\n"
        server.pages |= {"/dev.tsv": b"<html>Not found</html>\n", "/test.tsv": good}
        store = DataStore(tmp_path)
        with pytest.raises(
            DataUnavailableError, match=r"not the data of 'toy' .*/dev\.tsv: the header is not"
        ):
            store.fetch(card)
        assert set(store.status(card).values()) == {"missing"}
        server.pages["/dev.tsv"] = good
        assert set(store.fetch(card)) == {"de/dev.tsv", "de/test.tsv"}


class TestConverted:
    ROWS = (
        {"sentence1": "a", "sentence2": "b", "score": 2.5},
        {"sentence1": "c", "sentence2": "d", "score": 5},
    )

    @pytest.fixture
    def card(self, server: Any, monkeypatch: pytest.MonkeyPatch) -> Card:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        content = gzip.compress("".join(json.dumps(row) + "\n" for row in self.ROWS).encode())
        server.pages[f"/datasets/o/r/resolve/{'a' * 40}/test.jsonl.gz"] = content
        columns = {"left": "sentence1", "right": "sentence2", "gold": "score"}
        copy = Converted("o/r", "a" * 40, "test.jsonl.gz", 2, "jsonl", columns, [0, 5])
        files = [
            make_file(content, UrlSource(f"{server.url}/{name}"), path=name)
            for name, content in (("STS.input.X.txt", b"a\tb\n"), ("STS.gs.X.txt", b"1\n"))
        ]
        return make_card(*files, converted=copy)

    def test_converted_copy_is_used_as_last_resort(
        self,
        card: Card,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        request: pytest.FixtureRequest,
    ) -> None:
        store = DataStore(tmp_path)
        data = store.resolve(card)
        assert list(data.checksums) == [f"hf:o/r@{'a' * 40}/test.jsonl.gz"]
        assert data.checksums == store.checksums(card)
        assert next(iter(data.checksums.values())).startswith("unverified:")
        assert "converted copy" in caplog.text
        assert simple(store.items(card)) == [
            ("test/1", "a", "b", 2.5, ""),
            ("test/2", "c", "d", 5.0, ""),
        ]
        assert card.converted is not None
        other = msgspec.structs.replace(
            card, converted=msgspec.structs.replace(card.converted, rows=3)
        )
        with pytest.raises(DataFormatError, match="2 rows instead of 3"):
            store.items(other)
        (path,) = data.files.values()
        path.write_bytes(gzip.compress(b"{}"))
        with pytest.raises(DataIntegrityError):
            DataStore(tmp_path).resolve(card)
        request.getfixturevalue("no_network")  # only now: the server needed a socket
        with pytest.raises(DataUnavailableError, match="offline=True"):
            DataStore(tmp_path / "other", offline=True).resolve(card)

    def test_originals_take_precedence_over_converted_copy(
        self, card: Card, server: Any, tmp_path: Path
    ) -> None:
        store = DataStore(tmp_path)
        store.resolve(card)
        server.pages |= {"/STS.input.X.txt": b"a\tb\n", "/STS.gs.X.txt": b"1\n"}
        store.fetch(card)
        data = store.resolve(card)
        assert list(data.checksums) == ["STS.input.X.txt", "STS.gs.X.txt"]
        assert [pair.id for pair in store.items(card)] == ["X/1"]
        server.pages.clear()
        with pytest.raises(
            DataUnavailableError, match="The converted copy is not available either"
        ):
            DataStore(tmp_path / "other").resolve(card)


def test_missing_optional_file_is_not_an_error(server: Any, tmp_path: Path) -> None:
    server.pages["/data"] = b"data"
    gold = unverified_file("gold.txt", f"{server.url}/gold", optional=True)
    card, store = (
        corpus_card(make_file(b"data", UrlSource(f"{server.url}/data")), gold),
        DataStore(tmp_path),
    )
    for _ in range(3):
        resolved = store.resolve(card)
        assert set(resolved.files) == set(resolved.checksums) == {"a.txt"}
    assert store.status(card) == {"a.txt": "present", "gold.txt": "missing"}
    assert server.asked.count("/gold") == 2  # pooch tries twice
    offline, empty = (DataStore(folder, offline=True) for folder in (tmp_path, tmp_path / "empty"))
    assert set(offline.resolve(card).files) == {"a.txt"}
    with pytest.raises(DataUnavailableError, match=r"missing: a\.txt\."):
        empty.resolve(card)  # the others are needed as ever
    before = store.checksums(card)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "gold.txt").write_bytes(b"gold")
    assert import_folder(tmp_path / "folder", store, {"toy": card}).cards["toy"].imported == (
        "gold.txt",
    )
    assert store.checksums(card).keys() - before.keys() == {"gold.txt"}
    server.pages["/gold"] = b"gold"
    assert set(DataStore(tmp_path / "new").resolve(card).files) == {
        "a.txt",
        "gold.txt",
    }  # fetched where it can be
