"""An encoder directory gives the same vectors in sentence-transformers, transformers and mirrorbench."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.random_models import Models
from helpers.suite_marks import few
from helpers.tuning_lines import LINES
from safetensors.numpy import load_file

import mirrorbench
from mirrorbench.core.errors import ModelUnavailableError

TEXTS = [
    "a cat sat on the mat",
    "two dogs",
    "quick zebras jump over many lazy letters " * 6,
    "  x ",
    "1 + 1 = 2!",
]


def by_the_card(folder: Path, texts: list[str]) -> dict[str, np.ndarray]:
    """Runs each code block of the model card."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, re.S)
    found = {}
    for block in blocks:
        names = {"folder": str(folder), "texts": texts}
        exec(block, names)
        library = re.search(
            r"(?:from|import) (sentence_transformers|mirrorbench|transformers)", block
        )[1]
        found[library] = np.asarray(names["vectors"])
    return found


@pytest.mark.parametrize(
    ("architecture", "spec"),
    few(
        [
            ("bert", "+mirror:post=whiten,whiten=9"),
            ("roberta", "+mirrorwic"),  # its tokens of spaces are no part of a text
            ("roberta", "+mirror:prompt=find%2C it: {text},max_length=12,layers=-2,pooling=mean"),
            ("roberta", "+mirror:pooling=last"),
            ("bert", "+mirror:pooling=weighted-mean,layers=-2:"),
            ("xlm-r", "+mirror:pooling=cls,layers=1:3"),
            ("bert", "+mirrorwic:post=abtt"),
        ],
        0,
        1,
        2,
    ),
)
def test_exported_vectors_agree_in_three_libraries(
    random_model: Models, tmp_path: Path, architecture: str, spec: str
) -> None:
    folder = tmp_path / "enc"
    tuned = mirrorbench.tune(
        LINES, f"{random_model(architecture)}{spec}", folder, held_out=4, device="cpu"
    )
    found = by_the_card(folder, TEXTS)
    assert set(found) == {"sentence_transformers", "mirrorbench", "transformers"}
    ours = found.pop("mirrorbench")
    assert ours.shape == (len(TEXTS), 9 if "whiten" in spec else 32)
    assert np.abs(ours - ours[0]).max() > 0.01
    for library, vectors in found.items():
        # Whitened vectors of a random model are long: all its texts have nearly the same vector.
        assert np.abs(vectors - ours).max() < 1e-5 * max(
            1, np.abs(ours).max() if "whiten" in spec else 1
        ), library
    readout = json.loads((folder / "mirrorbench.json").read_text())["readout"]
    assert readout.pop("post", "") == ("stored" if "post" in spec else "")
    assert readout == tuned.pooling.to_json()


@pytest.mark.parametrize(
    ("architecture", "spec"),
    few(
        [
            ("bert", "+mirror:lora=4,lr=0.01,layers=:,pooling=mean"),
            ("bert", "+mirrorwic:lora=4,lr=0.01,post=center"),
            ("qwen3", "+mirror:lora=4,lr=0.01,layers=-2:,pooling=last"),
            ("t5", "+mirror:lora=4,lr=0.01"),
            ("gemma3-vision", "+mirror:lora=4,lr=0.01"),
        ]
    ),
)
def test_adapter_vectors_agree_alone_and_merged(
    random_model: Models, tmp_path: Path, architecture: str, spec: str
) -> None:
    path, seen = random_model(architecture), []
    for merge in (False, True):  # the second one comes from the cache
        folder = tmp_path / f"enc-{merge}"
        mirrorbench.tune(LINES, f"{path}{spec}", folder, held_out=4, device="cpu", merge=merge)
        assert [file.name for file in folder.glob("*model.safetensors")] == [
            "model.safetensors" if merge else "adapter_model.safetensors"
        ]
        assert ("LoRA of rank 4" in (folder / "README.md").read_text()) is not merge
        found = by_the_card(folder, TEXTS)
        seen.append(found.pop("mirrorbench"))
        for library, vectors in found.items():
            assert np.abs(vectors - seen[-1]).max() < 1e-5, library
    assert (
        np.abs(seen[0] - mirrorbench.load(f"{path}+base", device="cpu").encode(TEXTS)).max() > 1e-3
    )
    assert np.abs(seen[0] - seen[1]).max() < 1e-5
    if architecture == "bert":
        assert (
            load_file(folder / "model.safetensors").keys()
            == load_file(path / "model.safetensors").keys()
        )


def test_transformation_applies_only_with_its_readout(random_model: Models, tmp_path: Path) -> None:
    spec, folder = f"{random_model('bert')}+mirror", tmp_path / "enc"
    mirrorbench.tune(LINES, f"{spec}:post=center", folder, held_out=0, device="cpu")
    mirrorbench.tune(LINES, spec, tmp_path / "plain", held_out=0, device="cpu")
    plain, centred = (
        mirrorbench.load(tmp_path / name, device="cpu").encode(LINES) for name in ("plain", "enc")
    )
    assert np.abs(centred - (plain - plain.mean(0))).max() < 1e-5
    card = (folder / "README.md").read_text()
    assert (
        "| maximum length | 80 tokens |\n| after pooling | post=center, fitted on the corpus |\n"
        in card
    )
    cls, expected = (
        mirrorbench.load(f"{tmp_path}/{name}:pooling=cls", device="cpu")
        for name in ("enc", "plain")
    )
    assert np.abs(cls.encode(LINES) - expected.encode(LINES)).max() < 1e-5
    corpus = tmp_path / "lines.txt"
    corpus.write_text("\n".join(LINES))
    other = mirrorbench.load(f"{folder}:post=zscore,corpus={corpus}", device="cpu").encode(LINES)
    assert np.abs(other - (plain - plain.mean(0)) / plain.std(0)).max() < 1e-3
    shutil.rmtree(next(folder.glob("*_Dense")))
    with pytest.raises(ModelUnavailableError, match="holds none"):
        mirrorbench.load(folder, device="cpu")
