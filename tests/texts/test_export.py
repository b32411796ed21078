"""An encoder directory gives the same vectors in sentence-transformers, transformers and mirrorbench."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from suites import few

import mirrorbench
from mirrorbench.core.errors import ModelUnavailableError, ReadBackError, StorageError, UsageError
from mirrorbench.core.files import beside
from mirrorbench.models.pooling import Pooling
from mirrorbench.runs.loading import tune_model
from mirrorbench.texts.export import check_output, claiming, replacing, write_encoder

TEXTS = ["a cat sat on the mat", "two dogs", "quick zebras jump over many lazy letters " * 6, "x", "1 + 1 = 2!"]
LINES = [f"line {n} of a small corpus, about {word}" for n in range(6) for word in ("cats", "dogs", "letters", "snow")]


def names(folder: Path) -> set[str]:
    """What is in a folder, the cache of the tests aside."""
    return {path.name for path in folder.iterdir()} - {"default-cache"}


def by_the_card(folder: Path, texts: list[str]) -> dict[str, np.ndarray]:
    """Runs each code block of the model card."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, re.S)
    found = {}
    for block in blocks:
        names = {"folder": str(folder), "texts": texts}
        exec(block, names)
        library = re.search(r"(?:from|import) (sentence_transformers|mirrorbench|transformers)", block)[1]
        found[library] = np.asarray(names["vectors"])
    return found


@pytest.mark.parametrize(
    ("architecture", "spec"),
    few([
        ("bert", "+mirror:layers=:,pooling=mean"),
        ("bert", "+mirror:pooling=cls,max_length=20"),
        ("roberta", "+mirror:pooling=mean,layers=-2"),
        ("roberta", "+mirror:pooling=last"),
        ("bert", "+mirror:pooling=weighted-mean,layers=-2:"),
        ("xlm-r", "+mirror:pooling=cls,layers=1:3"),
        ("deberta", "+mirror:layers=-2:"),
        ("bert", "+mirrorwic"),
        ("roberta", "+mirrorwic"),  # its tokens of spaces are no part of a text
        ("bert", "+mirror:post=whiten,whiten=9"),
        ("bert", "+mirrorwic:post=abtt"),
        ("bert", "+mirror:pooling=mean,prompt=query:%20"),
        ("roberta", "+mirror:prompt=find%2C it: {text},max_length=12"),
    ], 2, 8, 9, 12),
)  # fmt: skip
def test_three_libraries_give_the_same_vectors(
    random_model: Callable[[str], Path], tmp_path: Path, architecture: str, spec: str
) -> None:
    folder = tmp_path / "enc"
    tuned = mirrorbench.tune(LINES, f"{random_model(architecture)}{spec}", folder, held_out=4, device="cpu")
    found = by_the_card(folder, TEXTS)
    assert set(found) == {"sentence_transformers", "mirrorbench", "transformers"}
    ours = found.pop("mirrorbench")
    assert ours.shape == (len(TEXTS), 9 if "whiten" in spec else 32)
    assert np.abs(ours - ours[0]).max() > 0.01
    for library, vectors in found.items():
        # Whitened vectors of a random model are long: all its texts have nearly the same vector.
        assert np.abs(vectors - ours).max() < 1e-5 * max(1, np.abs(ours).max() if "whiten" in spec else 1), library
    own = json.loads((folder / "mirrorbench.json").read_text())["readout"]
    assert own == {"pooling": tuned.pooling.mode, "layers": tuned.pooling.layers,
                   "max_length": tuned.pooling.max_length,
                   **({"prompt": tuned.pooling.prompt} if "prompt" in spec else {}),
                   **({"post": "stored"} if "post" in spec else {})}  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "spec"),
    few([
        ("bert", "+mirror:lora=4,lr=0.01,layers=:,pooling=mean"),
        ("bert", "+mirrorwic:lora=4,lr=0.01"),
        ("bert", "+mirror:lora=4,lr=0.01,post=center"),
        ("llama", "+mirror:lora=4,lr=0.01"),
        ("qwen3", "+mirror:lora=4,lr=0.01,layers=-2:,pooling=last"),
        ("t5", "+mirror:lora=4,lr=0.01"),
        ("bart", "+mirror:lora=4,lr=0.01"),
        ("gemma3-vision", "+mirror:lora=4,lr=0.01"),
    ], 0, 6),
)  # fmt: skip
@pytest.mark.parametrize("merge", [False, True])
def test_an_adapter_gives_them_too_alone_or_merged(
    random_model: Callable[[str], Path], tmp_path: Path, architecture: str, spec: str, merge: bool
) -> None:
    folder, path = tmp_path / "enc", random_model(architecture)
    mirrorbench.tune(LINES, f"{path}{spec}", folder, held_out=4, device="cpu", merge=merge)
    assert [file.name for file in folder.glob("*model.safetensors")] == [
        "model.safetensors" if merge else "adapter_model.safetensors"
    ]
    assert ("LoRA of rank 4" in (folder / "README.md").read_text()) is not merge
    found = by_the_card(folder, TEXTS)
    ours = found.pop("mirrorbench")
    assert np.abs(ours - mirrorbench.load(f"{path}+base", device="cpu").encode(TEXTS)).max() > 1e-3
    for library, vectors in found.items():
        assert np.abs(vectors - ours).max() < 1e-5, library


def test_what_an_adapter_cannot_be(random_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder, path = tmp_path / "enc", random_model("llama")
    for spec, merge, told in (
        ("+mirror", True, "no adapter that --merge"), ("+mirror:lora=4,attention=bidirectional", False, "Add --merge"),
        ("+mirror:lora=-1", False, "out of range"), ("+mirror:lora=0.5", False, "not of type int"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=told):
            mirrorbench.tune(LINES, f"{path}{spec}", folder, held_out=0, device="cpu", merge=merge)
    mirrorbench.tune(LINES, f"{path}+mirror:lora=4", folder, held_out=0, device="cpu", force=True)
    with pytest.raises(UsageError, match="an adapter itself"):
        mirrorbench.tune(LINES, f"{folder}+mirror:lora=4", tmp_path / "next", held_out=0, device="cpu")
    mirrorbench.tune(LINES, f"{folder}+mirror", tmp_path / "next", held_out=0, device="cpu")  # merged first
    assert (tmp_path / "next" / "model.safetensors").is_file()


def test_a_transformation_is_read_with_the_readout_that_it_was_fitted_for(
    random_model: Callable[[str], Path], tmp_path: Path
) -> None:
    spec, folder = f"{random_model('bert')}+mirror", tmp_path / "enc"
    mirrorbench.tune(LINES, f"{spec}:post=center", folder, held_out=0, device="cpu")
    mirrorbench.tune(LINES, spec, tmp_path / "plain", held_out=0, device="cpu")
    plain, centred = (mirrorbench.load(tmp_path / name, device="cpu").encode(LINES) for name in ("plain", "enc"))
    assert np.abs(centred - (plain - plain.mean(0))).max() < 1e-5
    card = (folder / "README.md").read_text()
    assert "| maximum length | 64 tokens |\n| after pooling | post=center, fitted on the corpus |\n" in card
    cls, expected = (mirrorbench.load(f"{tmp_path}/{name}:pooling=cls", device="cpu") for name in ("enc", "plain"))
    assert np.abs(cls.encode(LINES) - expected.encode(LINES)).max() < 1e-5
    corpus = tmp_path / "lines.txt"
    corpus.write_text("\n".join(LINES))
    other = mirrorbench.load(f"{folder}:post=zscore,corpus={corpus}", device="cpu").encode(LINES)
    assert np.abs(other - (plain - plain.mean(0)) / plain.std(0)).max() < 1e-3
    shutil.rmtree(next(folder.glob("*_Dense")))
    with pytest.raises(ModelUnavailableError, match="holds none"):
        mirrorbench.load(folder, device="cpu")


@pytest.mark.real
def test_the_embedded_model_too(tmp_path: Path) -> None:
    tuned = mirrorbench.tune(LINES, "tiny", tmp_path / "enc", device="cpu")
    assert tuned.pooling == Pooling("mean", ":", 64)
    found = by_the_card(tmp_path / "enc", TEXTS)
    for vectors in found.values():
        assert np.abs(vectors - found["mirrorbench"]).max() < 1e-5
    data = yaml.safe_load((tmp_path / "enc" / "README.md").read_text().split("---")[1])
    assert data["license"] == "cc-by-sa-4.0"  # of the backbone's own card
    assert "base_model" not in data


def test_what_is_read_out_is_the_tuned_model_and_not_the_backbone(
    random_model: Callable[[str], Path], tmp_path: Path
) -> None:
    path = random_model("bert")
    mirrorbench.tune(LINES, f"{path}+mirror:lr=0.01", tmp_path / "enc", held_out=0, device="cpu")
    before = mirrorbench.load(f"{path}+base:pooling=mean", device="cpu").encode(TEXTS)
    after = mirrorbench.load(tmp_path / "enc", device="cpu").encode(TEXTS)
    assert np.abs(before - after).max() > 0.01


def test_the_card(random_model: Callable[[str], Path], tmp_path: Path) -> None:
    backbone = tmp_path / "backbone"
    shutil.copytree(random_model("bert"), backbone)
    (backbone / "README.md").write_text("---\nlicense: mit\n---\nA model.\n")
    folder = tmp_path / "my-encoder"
    tuned = mirrorbench.tune(LINES, str(backbone), folder, held_out=6, device="cpu")
    text = (folder / "README.md").read_text(encoding="utf-8")
    data = yaml.safe_load(text.split("---")[1])
    assert data["library_name"] == "sentence-transformers"
    assert data["pipeline_tag"] == "sentence-similarity"
    assert data["license"] == "mit"
    assert {"sentence-transformers", "mirrorbench", "mirror"} <= set(data["tags"])
    (model,) = data["model-index"]
    metrics = {m["type"]: m["value"] for r in model["results"] for m in r["metrics"]}
    assert model["name"] == "my-encoder"
    assert metrics["uniformity"] == pytest.approx(tuned.held_out.after["uniformity"], abs=1e-4)
    assert tuned.corpus["sha256"] in text
    assert str(tmp_path) not in text.replace(f"`{backbone}`", "").replace(f"{backbone}+mirror", "")
    assert not any(line in text for line in LINES)  # the user's texts are nobody else's business


def test_mean_padded_cannot_be_exported(random_model: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mean-padded"):
        mirrorbench.tune(LINES, f"{random_model('bert')}+mirror:pooling=mean-padded", tmp_path / "enc", device="cpu")
    assert not (tmp_path / "enc").exists()


def test_what_is_there_is_not_overwritten(random_model: Callable[[str], Path], tmp_path: Path) -> None:
    spec, folder = str(random_model("bert")), tmp_path / "enc"
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu")
    first = (folder / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="already holds an encoder") as caught:
        mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", seed=1)
    assert "--force" in caught.value.hint
    assert (folder / "model.safetensors").read_bytes() == first
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", seed=1, force=True)
    assert (folder / "model.safetensors").read_bytes() != first
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path, force: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="left alone"):
        check_output(tmp_path, force)
    with pytest.raises(UsageError, match="a file"):
        check_output(tmp_path / "thesis.tex", force)
    check_output(tmp_path / "new", force)


def test_a_users_files_beside_an_encoder_are_never_removed(random_model: Callable[[str], Path], tmp_path: Path) -> None:
    spec, folder = f"{random_model('bert')}+mirror:layers=:", tmp_path / "enc"
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu")
    SentenceTransformer(str(folder), device="cpu").save(str(folder))
    check_output(folder, force=True)
    files = [".git/HEAD", "1_WeightedLayerPooling/notes.txt", "results/a.json", "train.py"]
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("years of work")
    with pytest.raises(UsageError, match=r"\(\.git, 1_WeightedLayerPooling/notes.txt, results and 1 more\)"):
        mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", seed=1, force=True)
    assert {(folder / name).read_text() for name in files} == {"years of work"}
    for name in (".git", "results"):
        shutil.rmtree(folder / name)
    for name in ("train.py", files[1]):
        (folder / name).unlink()
    check_output(folder, force=True)


def test_what_cannot_be_replaced_or_has_a_name_that_models_cannot_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for output in (".", "..", str(tmp_path)):
        with pytest.raises(UsageError, match="working directory"):
            check_output(Path(output), force=True)
    check_output(Path("enc"), force=True)
    with pytest.raises(UsageError, match="is no utf-8"):
        mirrorbench.tune(LINES, "tiny", os.fsdecode(b"n\xff"), device="cpu")
    assert names(tmp_path) == set()


def test_texts_in_a_file_whose_name_is_not_utf8(random_model: Callable[[str], Path], tmp_path: Path) -> None:
    texts, model = tmp_path / os.fsdecode(b"t\xff.txt"), random_model("bert")
    texts.write_text("\n".join(LINES))
    mirrorbench.tune(texts, model, tmp_path / "enc", held_out=4, device="cpu")
    assert json.loads((tmp_path / "enc" / "mirrorbench.json").read_text())["corpus"]["name"] == "./t\\udcff.txt"
    ran = mirrorbench.run([f"{model}+mirror"], ["quick-sts"], corpus=str(texts), output=tmp_path, device="cpu")
    assert not ran.failures


def test_a_failure_leaves_the_old_and_nothing_half(tmp_path: Path) -> None:
    output = tmp_path / "enc"
    output.mkdir()
    (output / "mirrorbench.json").touch()

    def write(error: BaseException) -> None:
        with claiming(output, force=True) as workplace, replacing(output, workplace, force=True) as folder:
            (folder / "half").touch()
            raise error

    with pytest.raises(KeyboardInterrupt):
        write(KeyboardInterrupt())
    with pytest.raises(StorageError, match="No space left"):
        write(OSError(28, "No space left on device"))
    assert [p.name for p in tmp_path.iterdir()] == ["enc"]
    assert [p.name for p in output.iterdir()] == ["mirrorbench.json"]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before", "between", "after"])
def test_after_a_kill_the_next_start_finds_an_encoder_and_leaves_nothing_else(
    random_model: Callable[[str], Path], tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import killable

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # of the fork server
    model, folder = random_model("bert"), tmp_path / "enc"
    mirrorbench.tune(LINES, model, folder, held_out=0, device="cpu")
    first = (folder / "model.safetensors").read_bytes()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killable"])
    process = context.Process(target=killable.tune, args=(tmp_path, model, point))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert folder.exists() == (point != "between")
    assert names(tmp_path) - {"enc"} == {".enc.mirrorbench"}
    with pytest.raises(UsageError, match="already holds an encoder"):
        mirrorbench.tune(LINES, model, folder, held_out=0, device="cpu")
    assert names(tmp_path) == {"enc"}
    assert ((folder / "model.safetensors").read_bytes() == first) == (point != "after")
    mirrorbench.load(folder, device="cpu").encode(TEXTS)


def test_what_was_put_aside_is_kept_where_something_else_is_by_now(tmp_path: Path) -> None:
    output = tmp_path / "enc"
    with beside(output) as workplace:  # as a process left it that was killed between the two renames
        for name in ("new", "old"):
            (workplace / name).mkdir()
            (workplace / name / "mirrorbench.json").write_text(name)
    output.mkdir()
    (output / "thesis.tex").touch()
    with pytest.raises(StorageError, match="something else is by now"), claiming(output, force=True):
        pytest.fail("it is not known which of the two is wanted")
    assert (workplace / "old" / "mirrorbench.json").read_text() == "old"
    shutil.rmtree(output)
    with claiming(output, force=True):
        assert (output / "mirrorbench.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def break_weights(folder: Path) -> None:
    """Let one of the tensors be another."""
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.1.output.dense.weight"] *= 1.1
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def lose_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def break_pooling(folder: Path) -> None:
    """In the files that sentence-transformers alone reads."""
    settings = json.loads((folder / "1_Pooling" / "config.json").read_text())
    settings |= {"pooling_mode_cls_token": False, "pooling_mode_max_tokens": True}
    settings |= {"pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))


def break_length(folder: Path) -> None:
    settings = json.loads((folder / "sentence_bert_config.json").read_text())
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings | {"max_seq_length": 63}))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"model_max_length": 63}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_weights, "transformers .* reads other vectors from it"),
        (lose_a_tensor, "transformers .* cannot read it .*lack 1 tensors"),
        (break_pooling, "sentence-transformers .* reads other vectors from it"),
        (break_length, "sentence-transformers .* reads other vectors from it"),
    ],
)
def test_what_is_read_back_otherwise_is_not_written_and_the_model_is_kept(
    random_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None], message: str,
) -> None:  # fmt: skip
    spec, folder = f"{random_model('bert')}+mirror:layers=-1:", tmp_path / "enc"
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", seed=1)
    before = (folder / "model.safetensors").read_bytes()

    def write(target: Path, *rest: object) -> None:
        write_encoder(target, *rest)  # type: ignore[arg-type]
        damage(target)

    with monkeypatch.context() as patch:
        patch.setattr("mirrorbench.texts.tune.write_encoder", write)
        with pytest.raises(ReadBackError, match=message) as caught:
            mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", force=True)
    assert "in the cache" in caught.value.hint
    assert names(tmp_path) == {"enc"}
    assert (folder / "model.safetensors").read_bytes() == before
    monkeypatch.setattr("mirrorbench.runs.loading.tune_model", lambda *rest: pytest.fail("it is in the cache"))
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", force=True)
    assert (folder / "model.safetensors").read_bytes() != before


def test_a_merged_adapter_has_the_names_of_its_backbone_also_from_the_cache(
    random_model: Callable[[str], Path], tmp_path: Path
) -> None:
    path, folder = random_model("bert"), tmp_path / "adapter"
    spec = f"{path}+mirror:lora=4,lr=0.01"
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu")
    mirrorbench.tune(LINES, spec, tmp_path / "merged", held_out=0, device="cpu", merge=True)  # from the cache
    mirrorbench.tune(LINES, f"{folder}+mirror", tmp_path / "again", held_out=0, device="cpu")
    for name in ("merged", "again"):
        assert load_file(tmp_path / name / "model.safetensors").keys() == load_file(path / "model.safetensors").keys()
        vectors = by_the_card(tmp_path / name, TEXTS)
        assert np.abs(vectors["sentence_transformers"] - vectors["mirrorbench"]).max() < 1e-5
    alone, merged = (mirrorbench.load(f, device="cpu").encode(TEXTS) for f in (folder, tmp_path / "merged"))
    assert np.abs(alone - merged).max() < 1e-5


def test_an_output_that_cannot_be_written_is_an_error_before_the_tuning(
    random_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorbench.runs.loading.tune_model", lambda *rest: pytest.fail("it is too early"))
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Not a directory|File exists") as caught:
        mirrorbench.tune(LINES, random_model("bert"), tmp_path / "file" / "enc", held_out=0, device="cpu")
    assert caught.value.hint == "A file is where a folder must be: name another output."
    with pytest.raises(UsageError, match="/dev/full is a file or a link"):
        mirrorbench.tune(LINES, random_model("bert"), "/dev/full", held_out=0, device="cpu")
    with beside(tmp_path / "enc"), pytest.raises(UsageError, match="being written by process"):
        mirrorbench.tune(LINES, random_model("bert"), tmp_path / "enc", held_out=0, device="cpu")
    with pytest.raises(UsageError, match="mount point"):
        mirrorbench.tune(LINES, random_model("bert"), "/", held_out=0, device="cpu", force=True)


@pytest.mark.parametrize("force", [False, True])
def test_what_appears_while_it_computes_is_not_replaced_and_the_model_is_kept(
    random_model: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    spec, folder = f"{random_model('bert')}+mirror", tmp_path / "enc"

    def meanwhile(*rest: Any) -> Any:
        folder.mkdir()
        (folder / ("thesis.tex" if force else "mirrorbench.json")).write_text("years of work")
        return tune_model(*rest)

    with monkeypatch.context() as patch:
        patch.setattr("mirrorbench.runs.loading.tune_model", meanwhile)
        with pytest.raises(UsageError, match="left alone" if force else "already holds an encoder") as caught:
            mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", force=force)
    assert "in the cache" in caught.value.hint
    assert [path.read_text() for path in folder.iterdir()] == ["years of work"]
    assert names(tmp_path) == {"enc"}
    monkeypatch.setattr("mirrorbench.runs.loading.tune_model", lambda *rest: pytest.fail("it is in the cache"))
    mirrorbench.tune(LINES, spec, tmp_path / "enc2", held_out=0, device="cpu")


def test_all_of_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, disk: list[tuple[str, str]]) -> None:
    output = tmp_path / "enc"
    with claiming(output, force=False) as workplace, replacing(output, workplace, force=False) as folder:
        (folder / "1_Pooling").mkdir()
        for name in ("model.safetensors", "1_Pooling/config.json"):
            (folder / name).write_text("x")
    renamed = disk.index(("rename", str(output)))
    flushed = {name for kind, name in disk[:renamed] if kind == "flush"}
    assert {str(folder / name) for name in ("", "1_Pooling", "model.safetensors", "1_Pooling/config.json")} <= flushed
    assert disk[renamed + 1 :] == [("flush", str(tmp_path))]


def test_the_directory_is_one_row_that_is_read_as_it_says(random_model: Callable[[str], Path], tmp_path: Path) -> None:
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.runs.builtin import plugins
    from mirrorbench.runs.plan import Planner
    from mirrorbench.runs.workspace import Workspace

    folder, planner = tmp_path / "enc", Planner(Workspace.create(cache=tmp_path, offline=True, plugins=plugins()))
    mirrorbench.tune(LINES, f"{random_model('bert')}+mirror:layers=:,max_length=33", folder, held_out=0, device="cpu")
    (row,) = planner.ladder(EncoderSpec(str(folder)), "sentence")
    assert row.method == "base"
    assert dict(row.params) == {"pooling": "mean", "layers": ":", "max_length": 33}
    (row,) = planner.ladder(EncoderSpec(str(folder), params=(("pooling", "cls"),)), "sentence")
    assert dict(row.params) == {"pooling": "cls", "layers": ":", "max_length": 33}
    assert len(planner.ladder(EncoderSpec(str(random_model("bert"))), "sentence")) == 3
