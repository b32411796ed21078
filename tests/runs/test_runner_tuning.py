"""Tuning, and runs that tune: one training for each seed, one pass for all poolings, and what is stored of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.random_models import ARCHITECTURES, Models
from helpers.recording_reporter import Log
from helpers.runner_bench import Bench
from helpers.suite_marks import few
from helpers.toy_plugin import CATS, DOGS
from helpers.workspace_parts import parts
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import Corpus, read_corpus
from mirrorbench.models.backbones import locate
from mirrorbench.models.fingerprints import fingerprint
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.runs.cells import CorpusRef, ModelRef
from mirrorbench.runs.embedding import WRITE_EVERY
from mirrorbench.runs.encoder_loading import open_for_tuning, tune_model
from mirrorbench.runs.registry import load_plugins
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.leases import Leases
from mirrorbench.storage.results import ResultStore, read_results
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.methods import mirror_preset
from mirrorbench.training.recipes import override

CPU = torch.device("cpu")
TEXTS = [f"sentence number {number} of twenty, more or less" for number in range(20)]
LINES = [
    f"line {n} of a small corpus, about {word}"
    for n in range(6)
    for word in ("cats", "dogs", "letters", "snow")
]


def tunable(path: Path) -> ModelRef:
    recipe = replace(mirror_preset("sentence", "bert", "paper"), batch_size=10, lr=1e-3)
    corpus = CorpusRef("mine", 0, "0" * 64, len(TEXTS))
    return ModelRef(
        parse_spec("x+mirror"), fingerprint(path), path, "mirror", recipe, corpus, precision="fp32"
    )


@pytest.fixture
def bert(random_model: Callable[[str], Path], toy: object) -> str:
    """A spec; the toy tasks are registered beside it."""
    return str(random_model("bert"))


@pytest.fixture
def workspace(plugins: Plugins, tmp_path: Path) -> Workspace:
    return Workspace(Settings(cache=tmp_path, device="cpu"), plugins)


def tuned_on(
    texts: Sequence[str], model: ModelRef, workspace: Workspace
) -> tuple[Transformer, dict[str, Any]]:
    """``tune_model`` on texts, with its checkpoints in the cache."""
    corpus = Corpus("texts", tuple(texts), "", "", len(texts), 0)
    plugins, folders, compute, reporter = parts(workspace)
    folder = folders.cache.root / "checkpoint"
    return tune_model(model, corpus, folder, plugins, folders.cache, compute, reporter)


POOLINGS = [
    Pooling(mode, layers, 40) for mode in ("mean", "cls", "mean-padded") for layers in ("-1", "0:")
]
ITEMS = [TextInput(text) for text in TEXTS]


@pytest.mark.parametrize(
    ("architecture", "augment", "lora"),
    few(
        [
            ("bert", {"controlled_dropout": 0.3, "dropout": 0.0}, 0),
            ("bert", {"dropout": 0.1}, 4),
            *(
                (architecture, {"dropout": 0.1}, 0) for architecture in ARCHITECTURES
            ),  # the first one is bert
        ],
        0,
        1,
        2,
    ),
)
def test_reloaded_tuned_model_gives_identical_vectors(
    random_model: Models,
    workspace: Workspace,
    architecture: str,
    augment: dict[str, float],
    lora: int,
) -> None:
    """A run encodes with the model in memory, a later one with the one in the cache, as plain transformers opens it."""
    model = tunable(random_model(architecture))
    assert model.recipe is not None
    model = replace(model, recipe=replace(model.recipe, augment=tuple(augment.items()), lora=lora))
    tuned, description = tuned_on(TEXTS, model, workspace)
    assert all(weight.grad is None for weight in tuned.model.parameters())
    in_memory = TransformerEncoder(tuned, Pooling()).encode_pooled(ITEMS, POOLINGS)
    path = workspace.cache.save_model(model.key, tuned, description)
    assert (path / "model.safetensors").exists() == (not lora)
    again = TransformerEncoder(load_transformer(path, CPU), Pooling())
    np.testing.assert_array_equal(again.encode_pooled(ITEMS, POOLINGS), in_memory)
    loaded = again.encode(TEXTS)
    before = TransformerEncoder(
        load_transformer(random_model(architecture), CPU), Pooling()
    ).encode(TEXTS)
    assert np.abs(loaded - before).max() > 1e-3
    batch = AutoTokenizer.from_pretrained(path)(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        mean = AutoModel.from_pretrained(path).eval()(**batch).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(loaded[0], mean.numpy(), atol=1e-5)
    description = workspace.cache.describe_model(model.key)
    assert (description["spec"], description["recipe"]) == ("x+mirror", model.recipe.to_json())
    assert (description["tuning"]["steps"], description["tuning"]["seconds"] > 0) == (2, True)


@pytest.mark.parametrize(("lr", "harm"), [(1e-3, False), (1.0, True)])
def test_rising_tuning_loss_is_reported(workspace: Workspace, lr: float, harm: bool) -> None:
    model = tunable(locate(parse_spec("tiny"), "en", offline=True))
    reporter = Log()
    assert model.recipe is not None
    model = replace(model, recipe=replace(model.recipe, lr=lr, batch_size=20, epochs=2))
    texts = read_corpus(
        "quick-sentences", workspace.data, workspace.plugins.corpora.by_name(), size=40
    ).texts
    workspace.reporter = reporter
    _, description = tuned_on(texts, model, workspace)
    first = description["tuning"]["first_loss"]
    losses = description["tuning"]["losses"]
    found = [note for note in reporter.lines if "lower lr" in note]
    assert (losses[-1] > first + 1, len(found)) == (harm, harm)
    assert all(f"the loss rose from {first:.2f} to {losses[-1]:.2f}" in note for note in found)


def test_released_protocol_lowercases_cased_backbones(
    random_model: Callable[[str], Path], workspace: Workspace, tmp_path: Path
) -> None:
    """The released code saves the tokenizer that it trained with (``save_model``), and evaluation opens that."""
    path = shutil.copytree(random_model("bert"), tmp_path / "cased")
    vocabulary = json.loads((path / "tokenizer.json").read_text())["model"]["vocab"]
    named = {
        token.replace(";", "A"): place for token, place in vocabulary.items()
    }  # two letters in two cases
    (path / "vocab.txt").write_text(
        "".join(f"{token}\n" for token in sorted(named, key=named.__getitem__))
    )
    (path / "tokenizer.json").unlink()
    (path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    for protocol, alike in (("paper", False), ("released", True)):
        model = replace(tunable(path), protocol=protocol)
        tuned = workspace.cache.save_model(model.key, *tuned_on(TEXTS, model, workspace))
        upper, lower = TransformerEncoder(load_transformer(tuned, CPU), Pooling()).encode(
            ["AAA", "aaa"]
        )
        assert np.array_equal(upper, lower) == alike


def test_equivalent_specs_have_separate_rows(bench: Bench, bert: str) -> None:
    for computed in (4, 0):
        outcome = bench.run(f"{bert}+base", f"{bert}+base:pooling=mean")
        assert [result.spec for result in outcome.results] == 2 * [f"{bert}+base"] + 2 * [
            f"{bert}+base:pooling=mean"
        ]
        assert outcome.computed == computed


def test_ladder_tunes_and_encodes_once_per_seed(bench: Bench, bert: str) -> None:
    log = Log()
    outcome = bench.run(bert, seeds=2, log=log)
    assert (len(outcome.results), outcome.failures) == (2 * (2 + 2), ())
    assert len(list((bench.cache.root / "models").iterdir())) == 2
    tuned = [stage for stage in log.stages if stage.startswith("tuning")]
    assert [log.stages[stage] for stage in tuned] == [30, 30]
    for stage, total in log.stages.items():  # both seeds' encodings have one name
        assert log.done[stage] == total * (
            2 if stage.startswith("encoding") and "mirror" in stage else 1
        )
    assert any("fewer than one batch of 200" in line for line in log.lines)
    assert len({result.metrics["pearson"] for result in outcome.results}) == len(outcome.results)
    bench.results = ResultStore(
        bench.results.root.with_name("again")
    )  # from the cached models and vectors
    log = Log()
    again = bench.run(bert, seeds=2, log=log)
    assert log.stages == {}
    texts = {text for pair in CATS + DOGS for text in (pair.left, pair.right)}
    for result, found in zip(outcome.results, again.results, strict=True):
        assert (found.cell_id, found.metrics) == (result.cell_id, result.metrics)
        tuned_one = "mirror" in result.spec
        assert result.cost.keys() == {"encoding", *["tuning"] * tuned_one}
        assert result.cost["encoding"]["texts"] == len(texts)
        assert found.cost == (
            {"tuning": {**result.cost["tuning"], "from_cache": True}} if tuned_one else {}
        )
        assert (result.by_kept_model, found.by_kept_model) == (False, tuned_one)


def test_failed_tuning_fails_only_its_cells(
    bench: Bench, bert: str, full_disk: Callable[[str], None]
) -> None:
    lines = bench.corpus.read_text()
    for corpus, reason in (
        ("just one line\n", "a corpus of 1 distinct strings"),
        (lines, "No space left on device"),
    ):
        bench.corpus.write_text(corpus)
        outcome = bench.run(f"{bert}+mirror", "toy")
        assert [result.spec for result in outcome.results] == ["toy", "toy"]
        assert [reason in failure.reason for failure in outcome.failures] == [True, True]
        assert not list((bench.cache.root / "models").glob("*"))
        assert len(list((bench.cache.root / "embeddings").iterdir())) == 1  # of the toy
        full_disk("models")


def test_overlap_with_tuning_texts_is_stored(bench: Bench, bert: str) -> None:
    specs = (f"{bert}+mirror", f"{bert}+base")
    before = {cell.id for cell in bench.plan(f"{bert}+base").cells}
    bench.corpus.write_text("The  CAT\na cat\n" + "".join(f"line number {n}\n" for n in range(30)))
    outcome = bench.run(*specs)
    cells = bench.plan(*specs).cells
    stored = {(r.cell["method"], r.task): r for r in outcome.results}
    arrays = {
        (c.spec.method, c.task): np.load(bench.results.path(c).with_suffix(".npz")) for c in cells
    }
    for task, flags in {
        "cats": [2, 1, 1, 0],
        "dogs": [1, 0, 0],
    }.items():  # how many of both texts of each pair
        overlap = stored["mirror", task].overlap or {}
        hits = np.array(flags)
        assert overlap["n_items"] == len(flags)
        assert [overlap["any_text"], overlap["all_texts"]] == pytest.approx(
            [np.mean(hits > 0), np.mean(hits == 2)]
        )
        assert arrays["mirror", task]["overlap"].tolist() == flags
        assert stored["base", task].overlap is None
        assert "overlap" not in arrays["base", task]
    assert arrays["base", "dogs"]["shared"].tolist() == [[0], [0], [-1]]  # two pairs hold "a dog"
    assert {r.cell_id for r in outcome.results if r.overlap is None} == before
    assert {r.cell_id for r in outcome.results} == {cell.id for cell in cells}
    assert {cell.identity().get("overlap") for cell in bench.plan(f"{bert}+mirror").cells} == {None}
    bench.corpus.write_text("".join(f"left {n}||right {n}\n" for n in range(9)))
    pairs = bench.plan(f"{bert}+pairs").cells
    assert {cell.identity().get("overlap") for cell in pairs} == {
        "parts"
    }  # no result of before is taken


def test_reused_result_names_the_renamed_corpus(bench: Bench, bert: str) -> None:
    (first,) = bench.run(f"{bert}+mirror", tasks=["cats"]).results
    assert first.cell["corpus"]["name"] == str(bench.corpus)
    bench.corpus = bench.corpus.rename(bench.folder / "renamed.txt")
    outcome = bench.run(f"{bert}+mirror", tasks=["cats"])
    assert outcome.computed == 0
    for result in (*outcome.results, *read_results(bench.results.root)):
        assert result.cell["corpus"] == first.cell["corpus"] | {"name": str(bench.corpus)}


def test_model_is_stored_before_vectors_and_results(
    bench: Bench, bert: str, disk: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Cache.save_model

    def saved(self: Cache, key: str, *rest: Any) -> Path:
        assert Leases(self.root / "leases").take(key) is None
        return save(self, key, *rest)

    monkeypatch.setattr(Cache, "save_model", saved)
    monkeypatch.setitem(WRITE_EVERY, "cpu", 3)
    assert bench.run(f"{bert}+mirror").failures == ()
    order = ["models", "embeddings", "results"]
    stored = [
        part for kind, at in disk if kind == "rename" for part in Path(at).parts if part in order
    ]
    assert stored == sorted(stored, key=order.index)
    assert {*stored} == {*order}
    assert stored.count("embeddings") > 6  # more than one part of three texts
    taken = Leases(bench.cache.root / "leases").take(
        next(iter((bench.cache.root / "models").iterdir())).name
    )
    assert taken is not None  # the lease was given back


def test_lora_tuning_is_reproducible_and_freezes_backbone(
    random_model: Models, tmp_path: Path
) -> None:
    """Also on a backbone kept in bf16: its matrices are those that autocast rounds to."""
    opened = load_transformer(random_model("llama"), CPU)
    opened.model.to(torch.bfloat16)
    opened.save(tmp_path / "half")
    opened.model.float()
    opened.save(tmp_path / "single")
    registered = load_plugins(discover=False).augmentations.by_name()
    keys: dict[str, Any] = {"lora": 4, "lr": 0.01, "epochs": 3, "batch_size": 8, "span_mask": 0}
    recipe = override(mirror_preset("sentence", "bert", "paper"), keys, registered)
    learnt = []
    for name, kept in (("half", "bf16"), ("single", "fp32"), ("single", "fp32")):
        tuned = open_for_tuning(tmp_path / name, recipe, registered, CPU, seed=3, precision="bf16")
        tune_backbone(tuned, LINES, recipe, 3, registered, precision="bf16")
        assert tuned.matrix_precision == kept
        learnt.append(
            {
                name: weight
                for name, weight in tuned.model.named_parameters()
                if weight.requires_grad
            }
        )
    for name, weight in learnt[0].items():
        assert weight.dtype == torch.float32
        assert bool(weight.any())  # the second matrices are zero before
        assert torch.equal(weight, learnt[1][name])
        assert torch.equal(weight, learnt[2][name])
    plain = dict(load_transformer(tmp_path / "single", CPU).model.named_parameters())
    after = tuned.model.named_parameters()
    frozen = {
        name.replace(".base_layer", ""): weight for name, weight in after if name not in learnt[0]
    }
    assert {*frozen} == {*plain}
    assert all(torch.equal(weight, plain[name]) for name, weight in frozen.items())
