from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from web_server import LocalServer

import mirrorbench as package
from mirrorbench.core.errors import UsageError
from mirrorbench.data.cardfile import builtin_suites
from mirrorbench.runs import environment

ROOT = Path(__file__).resolve().parents[2]


def test_offline(mirrorbench: Callable, tmp_path: Path) -> None:
    found = json.loads(mirrorbench("doctor", "--json", "--offline").assert_works().out)
    assert found["versions"]["mirrorbench"] == package.__version__
    assert found["versions"]["torch"]
    assert found["hub"] == "not asked (--offline)"
    assert found["folders"]["cache"]["path"] == str(tmp_path / "default-cache")
    assert found["folders"]["data"]["path"] == str(tmp_path / "default-data")
    assert found["missing"]["quick"] == []  # inside the package
    assert "stsb" in found["missing"]["sts"]
    assert found["environment"]["MIRRORBENCH_CACHE"] == str(tmp_path / "default-cache")
    assert any(line.startswith("cpu") for line in found["devices"])
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    brought = {name: re.split("[^a-z0-9-]", packages[0])[0] for name, packages in declared.items()}
    assert {name: package for name, (package, _) in environment.EXTRAS.items()} == {
        name: package for name, package in brought.items() if name not in ("test", "dev")
    }
    assert set(found["extras"]) == set(environment.EXTRAS)


def test_the_page(mirrorbench: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = mirrorbench("doctor", "--offline", "--data-dir", str(tmp_path / "elsewhere")).assert_works()
    for part in ("Versions", "Folders", "Hub", "Data", "Environment", str(tmp_path / "elsewhere"), "complete"):
        assert part in said.out
    for name in environment.VARIABLES:
        assert name in said.out
    suites = len(builtin_suites())
    assert said.out.endswith("mirrorbench data import DIR.\n")
    assert f"Data of {suites - 1} of {suites} suites are not here" in said.out  # quick is inside the package
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "CANNOT BE WRITTEN" in mirrorbench("doctor", "--offline").assert_fails(1).out


def test_the_hub_is_asked(mirrorbench: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small server in the hub's place; then nothing in it."""
    asked: list[str] = []

    class Hub(LocalServer):
        def answer(self, path: str, agent: str) -> tuple[int, bytes, dict[str, str]]:
            asked.append(path)
            body = json.dumps({"id": "bert-base-uncased", "sha": "0", "siblings": []}).encode()
            return 200, body, {"Content-Type": "application/json", "Connection": "close"}

    with Hub() as server:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", server.url)
        assert environment.hub(False) == f"{server.url} reachable"
        assert [path for path in asked if "models" in path] == ["/api/models/bert-base-uncased"]
    assert "not reachable" in environment.hub(False)
    assert environment.hub(True).startswith("not asked")


def test_no_password_of_an_address_is_shown(mirrorbench: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://me:s3cr3t@127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for name in ("constants", "hf_api.constants"):
        monkeypatch.setattr(f"huggingface_hub.{name}.ENDPOINT", "http://me:s3cr3t@127.0.0.1:9")
    for arguments in ((), ("--json",)):
        said = mirrorbench("doctor", *arguments).assert_works()
        assert "s3cr3t" not in said.out + said.err
        assert "http://127.0.0.1:9 not reachable" in said.out
    said = mirrorbench("encode", "-", "-e", "nobody/nothing").assert_fails(1)
    assert "could not be had" in said.err
    assert "s3cr3t" not in said.out + said.err
    for text, shown in (
        ("https://me:pass@host.org/a", "https://host.org/a"),
        ("from https://token@host.org: no", "from https://host.org: no"),
        ("https://me:p@ss@host.org", "https://host.org"),
        ("https://host.org/a@revision and b@c", "https://host.org/a@revision and b@c"),
        ("mail me@host.org", "mail me@host.org"),
    ):
        assert str(UsageError(text, text)) == f"{shown}\n{shown}"


def test_every_variable_that_the_code_reads_is_listed() -> None:
    source = Path(package.__file__).parent
    read = {
        name
        for file in source.rglob("*.py")
        for name in re.findall(r"\"(MIRRORBENCH_[A-Z_]+)\"", file.read_text(encoding="utf-8"))
    }
    assert read
    assert read <= set(environment.VARIABLES)
