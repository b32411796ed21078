"""Files of others are opened in one module, and code beside them is never run."""

from __future__ import annotations

import ast
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from helpers.random_models import Models

import mirrorbench

PACKAGE = Path(mirrorbench.__file__).parent
LOADERS = {
    "from_pretrained",
    "from_config",
    "load_adapter",
    "SentenceTransformer",
    "CrossEncoder",
    "SparseEncoder",
}
"""Functions and methods that read a model, or make one of a configuration; of transformers' Auto classes any method."""


def loaders(tree: ast.AST) -> list[ast.Call]:
    """Return the calls that read a model or make one of a configuration."""
    calls = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name.split(".")[-1] in LOADERS or name.startswith("Auto"):
                calls.append(node)
    return calls


def test_loaders_are_called_safely_from_one_module() -> None:
    """Plugins of this repository are checked if they are present."""
    root = PACKAGE.parent
    files = [*PACKAGE.rglob("*.py"), *root.glob("plugins/*/*/**/*.py")]
    trees = {
        path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in files
    }
    assert [name for name, tree in trees.items() if "/tests/" not in name and loaders(tree)] == [
        "mirrorbench/models/opening.py"
    ]
    opening = trees["mirrorbench/models/opening.py"]
    functions = [node for node in ast.walk(opening) if isinstance(node, ast.FunctionDef)]
    assert sorted(function.name for function in functions if loaders(function)) == [
        "_tokenizer_of_class",
        "_tokenizer_of_file",
        "empty_model",
        "read_config",
        "read_cross_encoder",
        "read_sentence_transformer",
        "read_weights",
    ]
    for call in loaders(opening):
        written = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        unpacked = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None]
        assert "_SAFE_OPTIONS" in unpacked or written["trust_remote_code"] == "False"


@pytest.fixture
def armed(random_model: Models, tmp_path: Path) -> Path:
    """A model with code beside it that leaves ``proof``; transformers knows no other way to open it."""
    path = tmp_path / "armed"
    shutil.copytree(random_model("bert"), path)
    asks = {
        "AutoConfig": "evil.Config",
        "AutoModel": "evil.Model",
        "AutoTokenizer": ["evil.Tokenizer", None],
    }
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((path / name).read_text()) | {"auto_map": asks}
        (path / name).write_text(
            json.dumps(settings | {"model_type": "custom", "tokenizer_class": "Tokenizer"})
        )
    (path / "evil.py").write_text(f"open({str(tmp_path / 'proof')!r}, 'w')")
    return path


@pytest.mark.parametrize("folder", ["", "sbert:path="])
def test_code_beside_a_model_is_never_run(
    armed: Path, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The input is that of ``printf 'y\\nsome text\\n' | mirrorbench encode - -e ./armed``, and a dry run after it."""
    from mirrorbench.cli import main

    answered = tmp_path / "answers"
    answered.write_text("y\nsome text\n" * 9)
    run = ["run", "--offline", "--tasks", "quick-sts"]
    for command in (["encode", "-"], [*run, "--dry-run"], run):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(answered.read_bytes())))
        monkeypatch.setattr(sys, "argv", ["mirrorbench", *command, "-e", f"{folder}{armed}"])
        with pytest.raises(SystemExit):
            main()
        assert not (tmp_path / "proof").exists(), command
