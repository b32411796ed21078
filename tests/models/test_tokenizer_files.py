"""Tokenizers are those that the files of a directory describe, whatever class transformers chooses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.random_further_models import build_further
from helpers.random_models import Models
from helpers.recording_reporter import Log
from helpers.tokenizer_directories import KINDS
from tokenizers import Tokenizer, normalizers
from transformers import PreTrainedTokenizerFast

import mirrorbench
from mirrorbench.models import tokenizer_files
from mirrorbench.models.opening import read_tokenizer, reads_tokenizer_file
from mirrorbench.models.tokenizer_files import PROBES

OLD = "4.57.6"
"""Version of transformers in which the class of a directory still reads ``tokenizer.json``."""

UNSEEN = ("a zyxq b", "g" * 70, "playing the guitar", "[ENT] <|im_end|>")
"""Texts with words by which tokenizers differ that give ``PROBES`` the same tokens."""


def ids_of(tokenizer: Tokenizer) -> list[list[int]]:
    return [tokenizer.encode(text).ids for text in (*PROBES, *UNSEEN)]


@pytest.mark.parametrize("name", KINDS)
def test_token_ids_are_those_of_the_files(name: str, tmp_path: Path) -> None:
    described = KINDS[name].write(tmp_path)
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer([*PROBES, *UNSEEN])["input_ids"] == ids_of(described)
    assert tokenizer("a <extra> b")["input_ids"] == described.encode("a <extra> b").ids
    long_text = "word " * 100
    assert len(tokenizer(long_text)["input_ids"]) == len(described.encode(long_text).ids)
    assert tokenizer.pad_token_id is not None


def test_comparison_is_remembered_across_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the content of the files; a damaged entry is made again."""
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / "cache"))
    KINDS["bert's class, unigram"].write(tmp_path / "model")
    compared = []

    def asked() -> bool:
        monkeypatch.setattr(tokenizer_files, "_remembered", {})  # as in a new process
        return tokenizer_files.remembered_comparison(
            tmp_path / "model", lambda: compared.append(1) or True
        )

    assert [asked(), asked(), len(compared)] == [True, True, 1]
    (entry,) = (tmp_path / "cache" / "traits").iterdir()
    entry.write_text(entry.read_text().replace("true", "false"))
    assert [asked(), len(compared)] == [True, 2]
    settings = tmp_path / "model" / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("}", ', "do_lower_case": true}'))
    assert [asked(), len(compared)] == [True, 3]


@pytest.fixture
def affected(random_model: Models, tmp_path: Path) -> Path:
    """BERT with the tokenizer of another model, and sentence-transformers' default pooling."""
    import shutil

    folder = tmp_path / "affected"
    shutil.copytree(random_model("bert"), folder)
    for file in folder.glob("*token*"):
        file.unlink()
    config = (folder / "config.json").read_text()
    KINDS["bert's class, unigram"].write(folder)
    (folder / "config.json").write_text(config)
    return folder


def expected_vectors(folder: Path, texts: list[str]) -> np.ndarray:
    """Means over the states of the tokens of the file, by transformers alone."""
    from transformers import AutoModel

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        rows = [torch.tensor([tokenizer.encode(text).ids]) for text in texts]
        return np.stack([model(input_ids=row).last_hidden_state[0].mean(0).numpy() for row in rows])


@pytest.mark.parametrize("spec", ["{}:pooling=mean", "sbert:path={}", "sbert:path={},pooling=mean"])
def test_vectors_are_those_of_the_files(spec: str, affected: Path, tmp_path: Path) -> None:
    texts = ["A man is playing the guitar.", "Москва", "你好，世界。", "UPPER lower"]
    vectors = mirrorbench.load(spec.format(affected), device="cpu").encode(texts)
    np.testing.assert_allclose(vectors, expected_vectors(affected, texts), atol=1e-5)
    session = mirrorbench.Session(tmp_path / "results", device="cpu", offline=True)
    encoder = spec.format(affected).replace(":pooling", "+base:pooling")
    board = session.run(encoder, "quick-sts", limit=20)
    assert any("tokenizer.json describes them" in note for note in board.results[0].notes)


def test_tuned_encoder_keeps_the_tokens_of_the_file(affected: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer

    described = Tokenizer.from_file(str(affected / "tokenizer.json"))
    lines = [f"line {n} about {word}" for n in range(8) for word in ("cats", "dogs")]
    spec = f"{affected}+mirror:pooling=mean,epochs=1,batch_size=8"
    mirrorbench.tune(lines, spec, tmp_path / "tuned", held_out=4, device="cpu")
    texts = ["A man is playing the guitar.", "Москва 你好", "UPPER lower"]
    opened = AutoTokenizer.from_pretrained(tmp_path / "tuned")
    in_sbert = SentenceTransformer(str(tmp_path / "tuned"), device="cpu")
    for text in texts:
        ids = described.encode(text).ids
        assert opened(text)["input_ids"] == ids
        assert in_sbert.tokenizer(text)["input_ids"] == ids
    np.testing.assert_allclose(
        in_sbert.encode(texts),
        mirrorbench.load(tmp_path / "tuned", device="cpu").encode(texts),
        atol=1e-5,
    )
    assert not reads_tokenizer_file(tmp_path / "tuned")


IDS = """
import json, sys
from pathlib import Path
from transformers import AutoTokenizer
probes = json.loads(Path(sys.argv[1]).read_text())
folders = sys.argv[2:]
print(json.dumps([AutoTokenizer.from_pretrained(folder)(probes)["input_ids"] for folder in folders]))
"""


def test_tokens_that_other_libraries_misread_are_said(tmp_path: Path) -> None:
    """transformers 5 takes its own class for the type Qwen2, whatever the files say."""
    build_further("qwen2", tmp_path / "qwen2")
    file = tmp_path / "qwen2" / "tokenizer.json"
    described = Tokenizer.from_file(str(file))
    described.normalizer = normalizers.Lowercase()
    described.save(str(file))
    log = Log()
    lines = [f"Line {n} about {word}" for n in range(8) for word in ("Cats", "Dogs")]
    session = mirrorbench.Session(device="cpu", offline=True, reporter=log)
    spec = f"{tmp_path / 'qwen2'}+mirror:pooling=mean,epochs=1,batch_size=8"
    session.tune(lines, spec, tmp_path / "tuned", held_out=4)
    assert any("PreTrainedTokenizerFast.from_pretrained" in line for line in log.lines)
    (row,) = PreTrainedTokenizerFast.from_pretrained(tmp_path / "tuned")(["A Cat"])["input_ids"]
    assert row == described.encode("A Cat").ids


@pytest.fixture(scope="module")
def old_transformers(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list]:
    """A function that returns the ids of ``PROBES`` by an earlier version of transformers, by folder."""
    import venv

    folder = tmp_path_factory.mktemp("old")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", f"transformers=={OLD}", "sentencepiece"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"transformers {OLD} cannot be installed: {done.stderr[-200:]}")
    (folder / "probes.json").write_text(json.dumps([*PROBES, *UNSEEN]))

    def ids(*folders: Path) -> list:
        command = [python, "-c", IDS, folder / "probes.json", *folders]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return json.loads(printed.splitlines()[-1])

    return ids


@pytest.mark.full
def test_ids_equal_those_of_transformers_4(
    old_transformers: Callable[..., list], tmp_path: Path
) -> None:
    """But for dropout of merges, which draws other tokens at each call there, and for what it cannot open."""
    apart = ("roberta with dropout of merges", "bert's class, unigram without special tokens")
    kinds = [name for name in KINDS if name not in apart]
    folders = {name: tmp_path / str(index) for index, name in enumerate(kinds)}
    for name, folder in folders.items():
        KINDS[name].write(folder)
    old = dict(zip(kinds, old_transformers(*folders.values()), strict=True))
    different = [
        name
        for name, folder in folders.items()
        if read_tokenizer(folder)([*PROBES, *UNSEEN])["input_ids"] != old[name]
    ]
    assert different == []
