"""The report of ``mirrorbench doctor``: versions, folders, missing data, and the hub."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.shell import folder, mirrorbench

import mirrorbench as package
from mirrorbench.runs import installation

__all__ = ["folder", "mirrorbench"]
ROOT = Path(__file__).resolve().parents[2]


def test_offline_json_report_describes_the_installation(
    mirrorbench: Callable, tmp_path: Path
) -> None:
    report = json.loads(mirrorbench("doctor", "--json", "--offline").assert_works().out)
    assert (
        report["versions"].items()
        >= {"mirrorbench": package.__version__, "torch": version("torch")}.items()
    )
    assert report["hub"] == "not asked (--offline)"
    for name in ("cache", "data"):
        assert report["folders"][name]["path"] == str(tmp_path / f"default-{name}")
    assert report["missing"]["quick"] == []  # inside the package
    assert "stsb" in report["missing"]["sts"]
    assert report["environment"]["MIRRORBENCH_CACHE"] == str(tmp_path / "default-cache")
    assert any(line.startswith("cpu") for line in report["devices"])
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    brought = {name: re.split("[^a-z0-9-]", packages[0])[0] for name, packages in declared.items()}
    listed = {name: package for name, (package, _) in installation.EXTRAS.items()}
    assert listed == {name: brought[name] for name in brought.keys() - {"test", "site", "dev"}}
    assert set(report["extras"]) == set(installation.EXTRAS)


def test_hub_reachability_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Mock()
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", ask)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", "https://hub.example")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert installation.hub_status(False) == "https://hub.example reachable"
    ask.assert_called_once_with("bert-base-uncased", timeout=installation.HUB_TIMEOUT)


def test_passwords_in_addresses_are_not_printed(
    mirrorbench: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://me:s3cr3t@127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for name in ("constants", "hf_api.constants"):
        monkeypatch.setattr(f"huggingface_hub.{name}.ENDPOINT", "http://me:s3cr3t@127.0.0.1:9")
    for arguments in ((), ("--json",)):
        printed = mirrorbench("doctor", *arguments).assert_works()
        assert "s3cr3t" not in printed.out + printed.err
        assert "http://127.0.0.1:9 not reachable" in printed.out
