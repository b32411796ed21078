"""Tuning, and runs that tune: one training for each seed, one pass for all poolings, and what is stored of it."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench import Bench
from harness.log import Log
from random_models import ARCHITECTURES, Models
from suites import few
from toys import CATS, DOGS
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.files import Leases
from mirrorbench.core.inputs import Array, TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import read_corpus
from mirrorbench.models.backbones import fingerprint, locate
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.runs.builtin import load_plugins
from mirrorbench.runs.cache import Cache
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.runs.encoding import WRITE_EVERY
from mirrorbench.runs.loading import open_for_tuning, tune_model
from mirrorbench.runs.results import ResultStore, read_results
from mirrorbench.runs.workspace import Workspace
from mirrorbench.session import Session
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.recipes import override

CPU = torch.device("cpu")
TEXTS = [f"sentence number {number} of twenty, more or less" for number in range(20)]
LINES = [f"line {n} of a small corpus, about {word}" for n in range(6) for word in ("cats", "dogs", "letters", "snow")]


def tunable(path: Path) -> ModelRef:
    recipe = replace(mirror_preset("sentence", "bert", "paper"), batch_size=10, lr=1e-3)
    corpus = CorpusRef("mine", 0, "0" * 64, len(TEXTS))
    return ModelRef(parse_spec("x+mirror"), fingerprint(path), path, "mirror", recipe, corpus, precision="fp32")


@pytest.fixture
def bert(random_model: Callable[[str], Path], toy: object) -> str:
    """A spec; the toy tasks are registered beside it."""
    return str(random_model("bert"))


@pytest.fixture
def workspace(plugins: Plugins, tmp_path: Path) -> Workspace:
    return Workspace.create(cache=tmp_path, device="cpu", plugins=plugins)


def stored(model: ModelRef, workspace: Workspace) -> Path:
    return workspace.cache.save_model(model.key, *tune_model(model, TEXTS, workspace))


POOLINGS = [Pooling(mode, layers, 40) for mode in ("mean", "cls", "mean-padded") for layers in ("-1", "0:")]
NOISES: list[dict[str, float]] = [
    {"dropout": 0.1}, {"drophead": 0.2, "dropout": 0.0}, {"controlled_dropout": 0.3, "dropout": 0.0},
]  # fmt: skip


@pytest.mark.parametrize("noise", few(NOISES, 0, 2), ids=str)
@pytest.mark.parametrize("architecture", few(ARCHITECTURES))
def test_a_tuned_model_gives_the_same_vectors_when_loaded_again(
    random_model: Callable[[str], Path], workspace: Workspace, architecture: str, noise: dict[str, float]
) -> None:
    """A run encodes with the model in memory, a later one with the one in the cache, as plain transformers opens it."""
    model = tunable(random_model(architecture))
    assert model.recipe is not None
    model = replace(model, recipe=replace(model.recipe, augment=tuple(noise.items())))
    tuned, description = tune_model(model, TEXTS, workspace)
    assert all(weight.grad is None for weight in tuned.model.parameters())
    in_memory = TransformerEncoder(tuned, Pooling()).encode_pooled([TextInput(text) for text in TEXTS], POOLINGS)
    path = workspace.cache.save_model(model.key, tuned, description)
    again = load_transformer(path, CPU)
    found = TransformerEncoder(again, Pooling()).encode_pooled([TextInput(text) for text in TEXTS], POOLINGS)
    np.testing.assert_array_equal(found, in_memory)
    loaded = TransformerEncoder(again, Pooling()).encode(TEXTS)
    before = TransformerEncoder(load_transformer(random_model(architecture), CPU), Pooling()).encode(TEXTS)
    assert np.abs(loaded - before).max() > 1e-3
    batch = AutoTokenizer.from_pretrained(path)(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        mean = AutoModel.from_pretrained(path).eval()(**batch).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(loaded[0], mean.numpy(), atol=1e-5)
    description = workspace.cache.describe_model(model.key)
    assert (description["spec"], description["recipe"]) == ("x+mirror", model.recipe.to_json())
    assert (description["tuning"]["steps"], description["tuning"]["seconds"] > 0) == (2, True)


@pytest.mark.parametrize(("lr", "harm"), [(1e-3, False), (1.0, True)])
def test_a_tuning_that_does_harm_says_so(workspace: Workspace, lr: float, harm: bool) -> None:
    model, reporter = tunable(locate(parse_spec("tiny"), "en", offline=True)), Log()
    assert model.recipe is not None
    model = replace(model, recipe=replace(model.recipe, lr=lr, batch_size=20, epochs=2))
    texts = read_corpus("quick-sentences", workspace.data, workspace.plugins.corpora.by_name(), size=40).texts
    _, description = tune_model(model, texts, replace(workspace, reporter=reporter))
    first, losses = description["tuning"]["first_loss"], description["tuning"]["losses"]
    assert (losses[-1] > first + 1) == harm
    expected = [f"the loss rose from {first:.2f} to {losses[-1]:.2f}"] * harm
    found = [note for note in reporter.lines if "lower lr" in note]
    assert [text in note for text, note in zip(expected, found, strict=True)] == [True] * harm


def test_under_released_a_cased_backbone_is_tuned_and_read_in_lower_case(
    random_model: Callable[[str], Path], workspace: Workspace, tmp_path: Path
) -> None:
    """The released code saves the tokenizer that it trained with (``save_model``), and evaluation opens that."""
    path = shutil.copytree(random_model("bert"), tmp_path / "cased")
    vocabulary = json.loads((path / "tokenizer.json").read_text())["model"]["vocab"]
    named = {token.replace(";", "A"): place for token, place in vocabulary.items()}  # two letters in two cases
    (path / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(named, key=named.__getitem__)))
    (path / "tokenizer.json").unlink()
    (path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    for protocol, alike in (("paper", False), ("released", True)):
        tuned = stored(replace(tunable(path), protocol=protocol), workspace)
        upper, lower = TransformerEncoder(load_transformer(tuned, CPU), Pooling()).encode(["AAA", "aaa"])
        assert np.array_equal(upper, lower) == alike


def test_two_specs_of_one_identity_have_a_row_each(bench: Bench, bert: str) -> None:
    for computed in (4, 0):
        outcome = bench.run(f"{bert}+base", f"{bert}+base:pooling=mean")
        assert [result.spec for result in outcome.results] == 2 * [f"{bert}+base"] + 2 * [f"{bert}+base:pooling=mean"]
        assert outcome.computed == computed


def test_a_ladder_trains_once_per_seed_and_reads_out_in_one_pass(bench: Bench, bert: str) -> None:
    log = Log()
    outcome = bench.run(bert, seeds=2, log=log)
    assert (len(outcome.results), outcome.failures) == (2 * (2 + 2), ())
    assert len(list((bench.cache.root / "models").iterdir())) == 2
    tuned = [stage for stage in log.stages if stage.startswith("tune")]
    assert [log.stages[stage] for stage in tuned] == [30, 30]
    for stage, total in log.stages.items():  # both seeds' encodings have one name
        assert log.done[stage] == total * (2 if stage.startswith("encode") and "mirror" in stage else 1)
    assert any("fewer than one batch of 200" in line for line in log.lines)
    scores = {(r.spec, r.task, r.seed): r.metrics for r in outcome.results}
    assert len({metrics["pearson"] for metrics in scores.values()}) == len(outcome.results)
    bench.results = ResultStore(bench.results.root.with_name("again"))  # from the cached models and vectors
    log = Log()
    again = bench.run(bert, seeds=2, log=log)
    assert log.stages == {}
    assert {(r.spec, r.task, r.seed): r.metrics for r in again.results} == scores
    texts = {text for pair in CATS + DOGS for text in (pair.left, pair.right)}
    for result, found in zip(outcome.results, again.results, strict=True):
        tuned_one = "mirror" in result.spec
        assert result.cost.keys() == {"encoding", *["tuning"] * tuned_one}
        assert result.cost["encoding"]["texts"] == len(texts)
        assert found.cost == ({"tuning": {**result.cost["tuning"], "from_cache": True}} if tuned_one else {})
        assert (result.by_kept_model, found.by_kept_model) == (False, tuned_one)


def test_a_tuning_that_fails_fails_its_cells_alone(bench: Bench, bert: str) -> None:
    bench.corpus.write_text("just one line\n")
    outcome = bench.run(f"{bert}+mirror", "toy")
    assert [result.spec for result in outcome.results] == ["toy", "toy"]
    assert {failure.reason for failure in outcome.failures} == {"a corpus of 1 distinct strings cannot be tuned on"}
    assert not (bench.cache.root / "models").exists()


def test_which_test_items_were_tuned_on_is_stored(bench: Bench, bert: str) -> None:
    specs = (f"{bert}+mirror", f"{bert}+base")
    before = {cell.id for cell in bench.plan(f"{bert}+base").cells}
    bench.corpus.write_text("The  CAT\na cat\n" + "".join(f"line number {n}\n" for n in range(30)))
    outcome = bench.run(*specs)
    stored = {(r.cell["method"], r.task): r for r in outcome.results}
    expected = {"cats": [2, 1, 1, 0], "dogs": [1, 0, 0]}  # how many of both texts of each pair
    for name, flags in expected.items():
        tuned, base = stored["mirror", name], stored["base", name]
        assert tuned.overlap is not None
        assert tuned.overlap["n_items"] == len(flags)
        assert tuned.overlap["any_text"] == pytest.approx(np.mean(np.array(flags) > 0))
        assert tuned.overlap["all_texts"] == pytest.approx(np.mean(np.array(flags) == 2))
        assert base.overlap is None
        paths = {cell.spec.method: bench.results.path(cell) for cell in bench.plan(*specs).cells if cell.task == name}
        with np.load(paths["mirror"].with_suffix(".npz")) as arrays:
            assert arrays["overlap"].tolist() == flags
        with np.load(paths["base"].with_suffix(".npz")) as arrays:
            assert "overlap" not in arrays
            if name == "dogs":  # two pairs hold "a dog"
                assert arrays["shared"].tolist() == [[0], [0], [-1]]
    assert {r.cell_id for r in outcome.results if r.overlap is None} == before
    assert {r.cell_id for r in outcome.results} == {cell.id for cell in bench.plan(*specs).cells}
    assert {cell.identity().get("overlap") for cell in bench.plan(f"{bert}+mirror").cells} == {None}
    bench.corpus.write_text("".join(f"left {n}||right {n}\n" for n in range(9)))
    pairs = bench.plan(f"{bert}+pairs").cells
    assert {cell.identity().get("overlap") for cell in pairs} == {"parts"}  # no result of before is taken


def test_a_result_names_the_corpus_that_was_asked_for_last(bench: Bench, bert: str) -> None:
    (first,) = bench.run(f"{bert}+mirror", tasks=["cats"]).results
    assert first.cell["corpus"]["name"] == str(bench.corpus)
    bench.corpus = bench.corpus.rename(bench.folder / "renamed.txt")
    outcome = bench.run(f"{bert}+mirror", tasks=["cats"])
    assert outcome.computed == 0
    for result in (*outcome.results, *read_results(bench.results.root)):
        assert result.cell["corpus"] == first.cell["corpus"] | {"name": str(bench.corpus)}


def test_lost_predictions_are_computed_again_from_what_is_kept(bench: Bench, bert: str) -> None:
    """By the tuned model and the vectors of the cache; with the same numbers."""
    first = bench.run(f"{bert}+mirror", tasks=["cats"], seeds=2)
    files = {path: path.read_bytes() for path in bench.results.root.rglob("seed-*.npz")}
    for path, spoil in zip(sorted(files), (Path.unlink, lambda path: path.write_bytes(b"PK cut")), strict=True):
        spoil(path)
    log = Log()
    again = bench.run(f"{bert}+mirror", tasks=["cats"], seeds=2, log=log)
    assert {path: path.read_bytes() for path in bench.results.root.rglob("seed-*.npz")} == files
    assert again.computed == 2
    assert [r.main_score for r in again.results] == [r.main_score for r in first.results]
    assert not [line for line in log.lines if line.startswith(("tune", "encode"))]
    assert bench.run(f"{bert}+mirror", tasks=["cats"], seeds=2).computed == 0


def test_a_model_is_stored_while_it_encodes_and_before_what_is_made_of_it(
    bench: Bench, bert: str, disk: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, encode, save = threading.Event(), TransformerEncoder.encode_pooled, Cache.save_model

    def encoded(self: TransformerEncoder, *rest: Any) -> list[Array]:
        begun.set()
        return encode(self, *rest)

    def saved(self: Cache, key: str, *rest: Any) -> Path:
        assert begun.wait(60)  # only once encoding with it has begun
        assert Leases(self.root / "leases").take(key) is None
        return save(self, key, *rest)

    monkeypatch.setattr(TransformerEncoder, "encode_pooled", encoded)
    monkeypatch.setattr(Cache, "save_model", saved)
    monkeypatch.setitem(WRITE_EVERY, "cpu", 3)
    assert bench.run(f"{bert}+mirror").failures == ()
    order = ["models", "embeddings", "results"]
    stored = [part for kind, at in disk if kind == "rename" for part in Path(at).parts if part in order]
    assert stored == sorted(stored, key=order.index)
    assert {*stored} == {*order}
    assert stored.count("embeddings") > 6  # more than one part of three texts
    taken = Leases(bench.cache.root / "leases").take(next(iter((bench.cache.root / "models").iterdir())).name)
    assert taken is not None  # the lease was given back


def test_a_model_that_cannot_be_stored_leaves_no_vectors_or_results(
    bench: Bench, bert: str, full_disk: Callable[[str], None]
) -> None:
    full_disk("models")
    outcome = bench.run(f"{bert}+mirror", "toy")
    assert [result.spec for result in outcome.results] == ["toy", "toy"]
    assert all("No space left on device" in failure.reason for failure in outcome.failures)
    assert (len(outcome.failures), len(list((bench.cache.root / "embeddings").iterdir()))) == (2, 1)  # of the toy


def with_adapter(path: Path, precision: str = "fp32") -> Transformer:
    """A model tuned with ``lora`` for three epochs."""
    registered = load_plugins(discover=False).augmentations.by_name()
    preset = mirror_preset("sentence", "bert", "paper")
    recipe = override(preset, {"lora": 4, "lr": 0.01, "epochs": 3, "batch_size": 8, "span_mask": 0}, registered)
    transformer = open_for_tuning(path, recipe, registered, CPU, seed=3, precision=precision)
    tune_backbone(transformer, LINES, recipe, 3, registered, precision=precision)
    return transformer


def learnt(transformer: Transformer) -> dict[str, torch.Tensor]:
    """The adapter."""
    return {name: weight.detach() for name, weight in transformer.model.named_parameters() if weight.requires_grad}


def test_the_adapter_alone_learns_and_a_tuning_repeats_bit_for_bit(random_model: Models) -> None:
    path = random_model("bert")
    bert = with_adapter(path)
    first, second = learnt(bert), learnt(with_adapter(path))
    plain = dict(load_transformer(path, CPU).model.named_parameters())
    after = dict(bert.model.named_parameters())
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    frozen = {name.replace(".base_layer", ""): weight for name, weight in after.items() if name not in first}
    assert {*frozen} == {*plain}
    assert all(torch.equal(weight, plain[name]) for name, weight in frozen.items())
    assert all(bool(weight.any()) for weight in first.values())  # the second matrices are zero before


def test_a_backbone_kept_in_bf16_is_tuned_as_one_in_float32(random_model: Models, tmp_path: Path) -> None:
    """Its matrices are those that autocast rounds to, so all numbers are the same, bit for bit."""
    opened = load_transformer(random_model("llama"), CPU)
    opened.model.to(torch.bfloat16)
    opened.save(tmp_path / "half")
    opened.model.float()
    opened.save(tmp_path / "single")
    half, single = (with_adapter(tmp_path / name, "bf16") for name in ("half", "single"))
    assert (half.kept, single.kept) == ("bf16", "fp32")
    assert {weight.dtype for weight in learnt(half).values()} == {torch.float32}
    assert all(torch.equal(weight, learnt(single)[name]) for name, weight in learnt(half).items())


def test_the_cache_stores_the_adapter_which_opens_with_the_same_vectors(random_model: Models, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(LINES))
    spec = f"{random_model('bert')}+mirror:lora=4,lr=0.01,corpus={tmp_path / 'lines.txt'}"
    made = Session(device="cpu").workspace.load(parse_spec(spec), "sentence")[0]
    before = made.encode(LINES)
    (folder,) = (Session(device="cpu").workspace.cache.root / "models").iterdir()
    assert not [*folder.glob("model*"), *folder.glob("config.json")]
    assert (folder / "adapter_model.safetensors").stat().st_size < 60_000
    again = Session(device="cpu").workspace.load(parse_spec(spec), "sentence")[0]
    assert isinstance(again, TransformerEncoder)
    assert again.transformer.path == folder
    np.testing.assert_array_equal(again.encode(LINES), before)
    plain = TransformerEncoder(load_transformer(random_model("bert"), CPU), Pooling("mean", "-1:", 64))
    assert np.abs(plain.encode(LINES) - before).max() > 1e-3


def test_recipes_without_an_adapter_are_as_they_were() -> None:
    preset = mirror_preset("sentence", "bert", "paper")
    assert "lora" not in preset.to_json()
    registered = load_plugins(discover=False).augmentations.by_name()
    assert override(preset, {"lora": 16}, registered).to_json() == {**preset.to_json(), "lora": 16}
