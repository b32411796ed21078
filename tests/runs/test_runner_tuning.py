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
from random_models import ARCHITECTURES
from suites import few
from toys import CATS, ToyPlugin
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.errors import StorageError, TuningError
from mirrorbench.core.files import Leases
from mirrorbench.core.inputs import Array, TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import DEFAULT_CORPORA, read_corpus
from mirrorbench.data.items import Pair
from mirrorbench.models.backbones import fingerprint, locate
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.runs.cache import Cache, EmbeddingCache
from mirrorbench.runs.cells import CorpusRef, ModelRef, Reporter
from mirrorbench.runs.encoding import WRITE_EVERY
from mirrorbench.runs.loading import tune_model
from mirrorbench.runs.plan import Request
from mirrorbench.runs.results import ResultStore, read_results
from mirrorbench.runs.workspace import Workspace
from mirrorbench.tasks import PairSimilarity
from mirrorbench.training.methods import mirror_preset

CPU = torch.device("cpu")
TEXTS = [f"sentence number {number} of twenty, more or less" for number in range(20)]


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
    """A run encodes with the model in memory, a later one with the one in the cache."""
    model = tunable(random_model(architecture))
    assert model.recipe is not None
    model = replace(model, recipe=replace(model.recipe, augment=tuple(noise.items())))
    tuned, description = tune_model(model, TEXTS, workspace)
    seconds = description["tuning"]["seconds"]
    assert all(weight.grad is None for weight in tuned.model.parameters())
    in_memory = TransformerEncoder(tuned, Pooling()).encode_pooled([TextInput(text) for text in TEXTS], POOLINGS)
    again = load_transformer(workspace.cache.save_model(model.key, tuned, description), CPU)
    found = TransformerEncoder(again, Pooling()).encode_pooled([TextInput(text) for text in TEXTS], POOLINGS)
    np.testing.assert_array_equal(found, in_memory)
    loaded = TransformerEncoder(again, Pooling()).encode(TEXTS)
    before = TransformerEncoder(load_transformer(random_model(architecture), CPU), Pooling()).encode(TEXTS)
    assert np.abs(loaded - before).max() > 1e-3
    assert seconds > 0


class Notes(Reporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.mark.parametrize(("lr", "harm"), [(1e-3, False), (1e-9, False), (1.0, True)])
def test_a_tuning_that_does_harm_says_so(workspace: Workspace, lr: float, harm: bool) -> None:
    model, reporter = tunable(locate(parse_spec("tiny"), "en", offline=True)), Notes()
    assert model.recipe is not None
    model = replace(model, recipe=replace(model.recipe, lr=lr, batch_size=20, epochs=2))
    texts = read_corpus("quick-sentences", workspace.data, workspace.plugins.corpora.by_name(), size=40).texts
    _, description = tune_model(model, texts, replace(workspace, reporter=reporter))
    first, losses = description["tuning"]["first_loss"], description["tuning"]["losses"]
    assert (losses[-1] > first + 1) == harm
    expected = [f"the loss rose from {first:.2f} to {losses[-1]:.2f}"] * harm
    found = [note for note in reporter.notes if "lower lr" in note]
    assert [text in note for text, note in zip(expected, found, strict=True)] == [True] * harm


def test_it_opens_in_plain_transformers_and_says_what_it_is(
    random_model: Callable[[str], Path], workspace: Workspace
) -> None:
    cache, model = workspace.cache, tunable(random_model("bert"))
    path = stored(model, workspace)
    batch = AutoTokenizer.from_pretrained(path)(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        mean = AutoModel.from_pretrained(path).eval()(**batch).last_hidden_state[0].mean(0)
    ours = TransformerEncoder(load_transformer(path, CPU), Pooling()).encode(TEXTS[:1])
    np.testing.assert_allclose(ours[0], mean.numpy(), atol=1e-5)
    assert cache.model(model.key) == path
    description = cache.describe_model(model.key)
    assert description["spec"] == "x+mirror"
    assert description["recipe"] == model.recipe.to_json()  # type: ignore[union-attr]
    assert description["tuning"]["seconds"] > 0
    assert description["tuning"]["steps"] == 2


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


def test_what_needs_no_tuning_is_refused(random_model: Callable[[str], Path], workspace: Workspace) -> None:
    model = replace(tunable(random_model("bert")), recipe=None, corpus=None)
    with pytest.raises(TuningError, match="nothing to tune"):
        tune_model(model, TEXTS, workspace)


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


def test_a_result_names_the_corpus_that_was_asked_for_last(bench: Bench, bert: str) -> None:
    (first,) = bench.run(f"{bert}+mirror", tasks=["cats"]).results
    assert first.cell["corpus"]["name"] == str(bench.corpus)
    bench.corpus = bench.corpus.rename(bench.folder / "renamed.txt")
    outcome = bench.run(f"{bert}+mirror", tasks=["cats"])
    assert outcome.computed == 0
    for result in (*outcome.results, *read_results(bench.results.root)):
        assert result.cell["corpus"] == first.cell["corpus"] | {"name": str(bench.corpus)}


def test_each_side_of_a_line_is_looked_for(bench: Bench, bert: str) -> None:
    """The same texts as lines alone, as pairs, and as two names with an id."""
    filler = [f"line number {n}" for n in range(30)]
    alone = ["The  CAT", "a cat", *filler]
    pairs = list(zip(alone[::2], alone[1::2], strict=True))
    shares, ids = {}, {}
    for method, lines in (
        ("mirror", alone),
        ("pairs", ["||".join(pair) for pair in pairs]),
        ("sap", [f"C{n}||{'||'.join(pair)}" for n, pair in enumerate(pairs)]),
    ):
        bench.corpus.write_text("\n".join(lines))
        results = bench.run(f"{bert}+{method}").results
        shares[method] = [result.overlap for result in results]
        ids[method] = [cell.identity().get("overlap") for cell in bench.plan(f"{bert}+{method}").cells]
    assert shares["pairs"] == shares["sap"] == shares["mirror"]
    assert [overlap["any_text"] for overlap in shares["mirror"] if overlap] == [0.75, pytest.approx(1 / 3)]
    assert ids == {"mirror": [None] * 2, "pairs": ["parts"] * 2, "sap": ["parts"] * 2}  # no result of before is taken


def test_a_joint_corpus_is_looked_through_in_every_language(
    bench: Bench, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code, words in (("en", ("cat", "dog", "sun")), ("fr", ("chat", "chien", "lune"))):
        (bench.folder / f"{code}.txt").write_text("\n".join(words))
        monkeypatch.setitem(DEFAULT_CORPORA, ("word", code), str(bench.folder / f"{code}.txt"))
    pairs = [Pair("both", "cat", "chat", 3), Pair("right", "moon", "lune", 2), Pair("none", "sea", "mer", 1)]
    task = PairSimilarity("words", pairs, level="word", languages=("en", "fr"))
    bench.plugins.add(ToyPlugin(tasks=[task]), "words")
    workspace = bench.workspace()
    (result,) = workspace.execute(workspace.plan(Request((parse_spec(f"{bert}+mirror"),), ("words",)))).results
    assert result.overlap is not None
    assert (result.overlap["any_text"], result.overlap["all_texts"]) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert result.cell["corpus"]["name"] == f"{bench.folder}/en.txt+{bench.folder}/fr.txt"


def test_a_damaged_cache_costs_only_time(bench: Bench, bert: str, caplog: pytest.LogCaptureFixture) -> None:
    spec = f"{bert}+mirror"
    first = bench.run(spec)
    for pattern in ("models/*/model.safetensors", "embeddings/*/*.npy"):
        for path in bench.cache.root.glob(pattern):
            path.write_bytes(path.read_bytes()[:-1] + b"?")
    bench.results = ResultStore(bench.results.root.with_name("again"))
    bench.cache = Cache(bench.cache.root)
    second = bench.run(spec)
    assert [(r.cell_id, r.metrics) for r in second.results] == [(r.cell_id, r.metrics) for r in first.results]
    assert "is damaged (model.safetensors); it is tuned again" in caplog.text
    assert "are damaged" in caplog.text


def test_what_was_found_in_the_cache_cost_nothing_now(bench: Bench, bert: str) -> None:
    spec = f"{bert}+mirror"
    (first,) = bench.run(spec, tasks=["cats"]).results
    bench.results = ResultStore(bench.results.root.with_name("again"))
    (second,) = bench.run(spec, tasks=["cats"]).results
    assert first.cost["encoding"]["texts"] == len({text for p in CATS for text in (p.left, p.right)})
    assert first.cost.keys() == {"encoding", "tuning"}
    assert second.cost == {"tuning": {**first.cost["tuning"], "from_cache": True}}
    assert (first.by_kept_model, second.by_kept_model) == (False, True)


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


def watched(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is stored, in order; a tuned model only once encoding with it has begun."""
    begun, seen = threading.Event(), []
    encode, save, put, write = (
        TransformerEncoder.encode_pooled, Cache.save_model, EmbeddingCache.put, ResultStore.write,
    )  # fmt: skip

    def encoded(self: TransformerEncoder, *rest: Any) -> list[Array]:
        begun.set()
        return encode(self, *rest)

    def saved(self: Cache, key: str, *rest: Any) -> Path:
        assert begun.wait(60)
        assert Leases(self.root / "leases").take(key) is None
        path = save(self, key, *rest)
        seen.append("model")
        return path

    def noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            returned = method(*arguments)
            seen.append(name)
            return returned

        return call

    monkeypatch.setattr(TransformerEncoder, "encode_pooled", encoded)
    monkeypatch.setattr(Cache, "save_model", saved)
    monkeypatch.setattr(EmbeddingCache, "put", noted("vectors", put))
    monkeypatch.setattr(ResultStore, "write", noted("result", write))
    return seen


def test_a_model_is_stored_while_it_encodes_and_before_what_is_made_of_it(
    bench: Bench, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watched(bench, monkeypatch)
    monkeypatch.setitem(WRITE_EVERY, "cpu", 3)
    outcome = bench.run(f"{bert}+mirror")
    assert outcome.failures == ()
    assert seen == ["model", *["vectors"] * (len(seen) - 3), "result", "result"]
    assert len(seen) > 5
    taken = Leases(bench.cache.root / "leases").take(next(iter((bench.cache.root / "models").iterdir())).name)
    assert taken is not None  # the lease was given back


def test_a_model_that_cannot_be_stored_leaves_no_vectors_or_results(
    bench: Bench, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Path:
        raise StorageError("the disk is full")

    monkeypatch.setattr(Cache, "save_model", full)
    outcome = bench.run(f"{bert}+mirror", "toy")
    assert [result.spec for result in outcome.results] == ["toy", "toy"]
    assert [failure.reason for failure in outcome.failures] == 2 * ["the disk is full"]
    assert len(list((bench.cache.root / "embeddings").iterdir())) == 1  # of the toy
