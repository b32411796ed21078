"""``mirrorbench doctor``: versions, folders, missing data, and the hub."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest

import mirrorbench as package
from mirrorbench.core.errors import UsageError
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.runs import installation

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
    assert listed == {name: brought[name] for name in brought.keys() - {"test", "dev"}}
    assert set(report["extras"]) == set(installation.EXTRAS)


def test_doctor_prints_all_sections_and_variables(
    mirrorbench: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = mirrorbench(
        "doctor", "--offline", "--data-dir", str(tmp_path / "elsewhere")
    ).assert_works()
    parts = (
        "Versions",
        "Folders",
        "Hub",
        "Data",
        "Environment",
        str(tmp_path / "elsewhere"),
        "complete",
    )
    assert [part for part in (*parts, *installation.VARIABLES) if part not in printed.out] == []
    sources = "".join(
        file.read_text(encoding="utf-8") for file in Path(package.__file__).parent.rglob("*.py")
    )
    read = set(re.findall(r"\"(MIRRORBENCH_[A-Z_]+)\"", sources))  # by the code
    assert set() < read <= set(installation.VARIABLES)
    suites = len(builtin_suites())
    assert printed.out.endswith("mirrorbench data import DIR.\n")
    assert (
        f"Data of {suites - 1} of {suites} suites are not available yet" in printed.out
    )  # quick is inside the package
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "CANNOT BE WRITTEN" in mirrorbench("doctor", "--offline").assert_fails(1).out


def test_hub_reachability_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Mock()
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", ask)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", "https://hub.example")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert installation.hub(False) == "https://hub.example reachable"
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
    for text, shown in (
        ("https://me:pass@host.org/a", "https://host.org/a"),
        ("https://me:p@ss@host.org", "https://host.org"),
        ("https://host.org/a@revision and b@c", "https://host.org/a@revision and b@c"),
        ("mail me@host.org", "mail me@host.org"),
    ):
        assert str(UsageError(text, text)) == f"{shown}\n{shown}"
