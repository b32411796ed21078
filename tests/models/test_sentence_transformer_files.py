"""Directories of sentence-transformers: read and tuned as their files say, or refused with an alternative."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.random_models import Models
from helpers.runner_bench import Bench
from helpers.sentence_transformer_directories import as_sentence_transformers
from helpers.suite_marks import few
from helpers.workspace_parts import parts
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tokenizers import Tokenizer

import mirrorbench
from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import backbones
from mirrorbench.models.model_files import directory_checksum
from mirrorbench.models.sentence_transformer_files import NoPoolingError, window
from mirrorbench.runs.ladder import expand_ladder
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace

TEXTS = ["A man is playing a guitar.", "two WORDS", "x", "a rather long text of many words, " * 9]
LINES = [f"line {number} of {word}" for number in range(12) for word in ("cats", "dogs")]
SIZE = 32
Built = SentenceTransformer
Layout = tuple[Callable[[Path], Built], dict[str, Any] | None]
"""How a model is made of a transformer's folder, and the keys under which a pooling of ours reads it, if one does."""


def pooled(
    mode: str,
    prompt: str = "",
    length: int = 40,
    lower: bool = False,
    normalize: bool = False,
    **pooling: Any,
) -> Any:
    """Return a builder of a transformer with a pooling of some modes and further modules."""

    def build(path: Path, *after: torch.nn.Module) -> Built:
        transformer = modules.Transformer(str(path), do_lower_case=lower)
        transformer.tokenizer.pad_token = (
            transformer.tokenizer.pad_token or transformer.tokenizer.eos_token
        )
        scaled = [modules.Normalize()] if normalize else []
        parts = [transformer, modules.Pooling(SIZE, mode, **pooling), *scaled, *after]
        prompts = {"prompts": {"about": prompt}, "default_prompt_name": "about"} if prompt else {}
        model = SentenceTransformer(modules=parts, **prompts)
        if length:
            model.max_seq_length = length
        return model

    return build


def followed(module: Callable[[], torch.nn.Module]) -> Callable[[Path], Built]:
    """Return a builder with a random module after the pooling."""

    def build(path: Path) -> Built:
        torch.manual_seed(3)
        made = module()
        for weight in made.parameters():
            torch.nn.init.normal_(weight)
        return pooled("mean")(path, made)  # type: ignore[no-any-return]

    return build


def static(path: Path) -> Built:
    """Vectors of tokens, in half precision."""
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    torch.manual_seed(4)
    table = torch.randn(tokenizer.get_vocab_size(), 24).half()
    return SentenceTransformer(
        modules=[modules.StaticEmbedding(tokenizer, embedding_weights=table)]
    )


def cut(path: Path) -> Built:
    model = pooled("cls")(path)
    model.truncate_dim = 7
    return model  # type: ignore[no-any-return]


def routed(path: Path) -> Built:
    sides = [
        [modules.Transformer(str(path)), modules.Pooling(SIZE, mode)] for mode in ("mean", "cls")
    ]
    return SentenceTransformer(modules=[modules.Router.for_query_document(*sides)])


def as_before(folder: Path, lower_case: bool = False) -> None:
    """Convert a directory to the names and flags of sentence-transformers before version 6."""
    own = folder / "0_Transformer"
    own.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).rename(own / name)
    (folder / "sentence_bert_config.json").unlink()
    settings = {"max_seq_length": 30, "do_lower_case": lower_case}
    (own / "sentence_bert_config.json").write_text(json.dumps(settings))
    flags = {f"pooling_mode_{name}": False for name in ("cls_token", "mean_tokens", "max_tokens")}
    flags |= {"pooling_mode_lasttoken": True}
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": SIZE, **flags})
    )
    listed = [
        {
            "idx": n,
            "name": str(n),
            "path": f"{n}_{name}",
            "type": f"sentence_transformers.models.{name}",
        }
        for n, name in enumerate(["Transformer", "Pooling"])
    ]
    (folder / "modules.json").write_text(json.dumps(listed))


PLAIN = {"pooling": "mean", "max_length": 40}
LAYOUTS: dict[str, Layout] = {
    "mean": (pooled("mean"), PLAIN),
    "cls": (pooled("cls"), {**PLAIN, "pooling": "cls"}),
    "last": (pooled("lasttoken"), {**PLAIN, "pooling": "last"}),
    "weighted mean": (pooled("weightedmean"), {**PLAIN, "pooling": "weighted-mean"}),
    "max": (pooled("max"), None),
    "first dimensions": (cut, None),
    "no length": (pooled("mean", length=0), {**PLAIN, "max_length": 80}),
    "prompt": (
        pooled("mean", "about: ", normalize=True),
        {**PLAIN, "max_length": 34, "normalize": True, "prompt": "about: {text}"},
    ),
    "prompt with a place": (pooled("mean", prompt="about {text}: "), None),
    "prompt that is left out": (pooled("mean", prompt="about: ", include_prompt=False), None),
    "lower case": (pooled("mean", lower=True), PLAIN),
    "lower case of before": (pooled("mean"), None),
    "files of before": (pooled("mean"), {"pooling": "last", "max_length": 30}),
    "Normalize": (pooled("cls", normalize=True), {**PLAIN, "pooling": "cls", "normalize": True}),
    "Dense": (followed(lambda: modules.Dense(SIZE, 12, activation_function=torch.nn.Tanh())), None),
    # The library keeps its half precision.
    "half Dense": (lambda path: LAYOUTS["Dense"][0](path).to(torch.bfloat16), None),
    "linear Dense": (
        followed(lambda: modules.Dense(SIZE, 12, activation_function=torch.nn.Identity())),
        None,
    ),
    "static": (static, None),
    "Router": (routed, None),
    "half precision": (lambda path: pooled("mean")(path).to(torch.bfloat16), PLAIN),
}
ARCHITECTURE = {
    "lower case": "roberta",
    "lower case of before": "roberta",
    "last": "gpt2",
    "prompt": "mpnet",
}
Made = Callable[[str], Path]


@pytest.fixture
def made(random_model: Models, tmp_path: Path) -> Made:
    def write(layout: str) -> Path:
        folder = tmp_path / "model"
        LAYOUTS[layout][0](random_model(ARCHITECTURE.get(layout, "bert"))).save(str(folder))
        if layout.endswith("of before"):
            as_before(folder, lower_case="lower" in layout)
        return folder

    return write


@pytest.fixture
def maker(tmp_path: Path, plugins: Plugins) -> PlanMaker:
    return PlanMaker(*parts(Workspace(Settings(cache=tmp_path / "cache", offline=True), plugins)))


def ladder(spec: EncoderSpec, level: str, maker: PlanMaker) -> tuple[EncoderSpec, ...]:
    return expand_ladder(spec, level, maker.plugins, files=maker.examiner.files)


def planned(spec: EncoderSpec, maker: PlanMaker) -> Any:
    return maker.models(Request((spec,), (), corpus="quick-words"), spec, Purpose("sentence"))[0]


@pytest.mark.parametrize(
    ("of_modules", "of_tokenizer", "positions", "expected"),
    [
        (40, 30, 80, 40),
        (700, 30, 80, 80),
        (None, 30, 80, 30),
        (None, 10**30, 80, 80),
        (None, 8192, 2048, 512),
        (8192, 512, 10_000, 8192),
        (None, None, 0, 512),
    ],
)
def test_window_is_what_the_files_state(
    of_modules: int | None, of_tokenizer: int | None, positions: int, expected: int, tmp_path: Path
) -> None:
    config = {"model_type": "bert", "max_position_embeddings": positions}
    for name, settings in (
        ("config.json", config if positions else {"model_type": "unheard-of"}),
        ("sentence_bert_config.json", {"max_seq_length": of_modules}),
        ("tokenizer_config.json", {"model_max_length": of_tokenizer}),
    ):
        (tmp_path / name).write_text(json.dumps(settings))
    assert window(tmp_path) == expected


@pytest.mark.parametrize("classes", [(), ("Transformer", "Pooling")])
def test_relative_positions_are_read_as_far_as_stated(
    random_model: Models, tmp_path: Path, classes: tuple[str, ...]
) -> None:
    """DeBERTa could read more than the 80 tokens of its files, and sentence-transformers stops there."""
    folder = as_sentence_transformers(random_model("deberta-v2"), tmp_path / "model", *classes)
    if not classes:
        (folder / "modules.json").unlink()
    texts = ["quick zebras and lazy dogs " * 30, "two dogs"]
    encoder = mirrorbench.load(f"{folder}:pooling=mean", device="cpu")
    expected = SentenceTransformer(str(folder), device="cpu")
    assert encoder.encoder.pooling.max_length == expected.max_seq_length == 80
    np.testing.assert_allclose(encoder.encode(texts), expected.encode(texts), atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_directory_vectors_equal_sentence_transformers(layout: str, made: Made) -> None:
    """The identity of what sentence-transformers reads is that of the files."""
    folder = made(layout)
    _, keys = LAYOUTS[layout]
    encoder = mirrorbench.load(str(folder))
    there = SentenceTransformer(str(folder), model_kwargs={"dtype": "float32"}).float()
    np.testing.assert_allclose(
        encoder.encode(TEXTS), there.encode(TEXTS), atol=2e-5 if keys else 1e-6, rtol=1e-5
    )
    if keys:
        spec = EncoderSpec(str(folder), "", "base").with_params(**keys)
    else:
        spec = EncoderSpec("sbert", params=(("path", str(folder)),))
    assert encoder.name == str(spec)
    assert len({tuple(vector) for vector in encoder.encode(TEXTS)}) == len(TEXTS)
    if not keys:
        assert encoder.fingerprint == directory_checksum(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tuning_keeps_directory_pooling_or_is_refused(
    layout: str, made: Made, maker: PlanMaker
) -> None:
    folder = made(layout)
    _, keys = LAYOUTS[layout]
    spec = EncoderSpec(str(folder), "", "mirror", (("dropout", 0.0), ("span_mask", 0.0)))
    if keys is None:
        with pytest.raises((NoPoolingError, ModelUnavailableError)) as refused:
            planned(spec, maker)
        assert f"Write sbert:path={folder}" in refused.value.hint
        if layout not in ("static", "Router"):
            way = refused.value.hint.rpartition("name: ")[2]
            _, pooling = planned(parse_spec(way), maker)
            stated = {"max_length": 30 if layout == "lower case of before" else 40}
            assert pooling.to_json() == {"pooling": "mean", "layers": "-1:"} | stated
        return
    model, pooling = planned(spec, maker)
    assert pooling.to_json() == {"layers": "-1:", **keys}
    assert model.recipe.readout(keys["max_length"]) == pooling
    _, chosen = planned(spec.with_params(pooling="last", max_length=20), maker)
    assert chosen.to_json() == {"layers": "-1:", **keys, "pooling": "last", "max_length": 20}


def test_prompt_with_trailing_space_survives_tuning(made: Made, tmp_path: Path) -> None:
    """The tokenizer makes the space and the letter after it one token; length and modules stay what they were."""
    tuned = mirrorbench.tune(
        LINES, f"{made('prompt')}+mirror:epochs=1", tmp_path / "tuned", held_out=4, device="cpu"
    )
    before, there = (SentenceTransformer(str(tmp_path / name)) for name in ("model", "tuned"))
    vectors = mirrorbench.load(str(tmp_path / "tuned")).encode(TEXTS)
    np.testing.assert_allclose(vectors, there.encode(TEXTS), atol=2e-5)
    assert np.abs(vectors - mirrorbench.load(str(tmp_path / "model")).encode(TEXTS)).max() > 1e-4
    assert there.max_seq_length == before.max_seq_length == 40
    assert [type(module) for module in there] == [type(module) for module in before]
    assert there.prompts["text"] == before.prompts["about"]
    assert tuned.pooling.to_json() == {"layers": "-1:", **(LAYOUTS["prompt"][1] or {})}


def resaved(folder: Path, change: str) -> None:
    """Change a directory in sentence-transformers, which keeps the files that it does not know."""
    model = SentenceTransformer(str(folder))
    if change == "Dense":
        model = followed(lambda: modules.Dense(SIZE, 12))(folder)
    elif change == "Normalize":
        model.append(modules.Normalize())
    elif change == "cls":
        model = SentenceTransformer(modules=[model[0], modules.Pooling(SIZE, "cls")])
    else:
        model.truncate_dim = 7
    model.save(str(folder))


@pytest.mark.parametrize("change", few(["Dense", "Normalize", "cls", "first dimensions"], "cls"))
@pytest.mark.parametrize(
    "keys", few(["", ",prompt=about:%20", ",layers=-2:", ",post=center"], 1, 3)
)
def test_modules_changed_after_tuning_override_the_readout(
    random_model: Models, tmp_path: Path, change: str, keys: str
) -> None:
    """The readout of ``mirrorbench tune`` is used only while the modules agree with it."""
    spec = f"{random_model('bert')}+mirror:epochs=1,pooling=mean{keys}"
    folder = tmp_path / "tuned"
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu")
    before = mirrorbench.load(str(folder)).encode(TEXTS)
    resaved(folder, change)
    there = SentenceTransformer(str(folder)).encode(TEXTS)
    vectors = mirrorbench.load(str(folder)).encode(TEXTS)
    np.testing.assert_allclose(vectors, there, atol=2e-5)
    assert before.shape != vectors.shape or np.abs(before - vectors).max() > 1e-3


@pytest.mark.parametrize("read", ["", "sbert:path="])
@pytest.mark.parametrize("setting", ["int8", "quantization_config"])
def test_quantised_weights_are_refused(made: Made, setting: str, read: str) -> None:
    """``transformers`` converts integers to floating-point numbers without their scales."""
    folder = made("mean")
    weights = load_file(folder / "model.safetensors")
    settings = json.loads((folder / "config.json").read_text())
    weights["embeddings.position_ids"] = torch.arange(80)[None]  # integers that are no parameter
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    mirrorbench.load(f"{read}{folder}").encode(TEXTS)
    if setting == "int8":
        name = "encoder.layer.0.attention.output.dense.weight"
        scale = weights[name].abs().amax(1, keepdim=True) / 127
        weights |= {name: (weights[name] / scale).round().to(torch.int8), f"{name}_scale": scale}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
    else:
        (folder / "config.json").write_text(
            json.dumps(settings | {setting: {"quant_method": "unheard of"}})
        )
    with pytest.raises(
        ModelUnavailableError, match="only weights in floating-point numbers are read"
    ) as refused:
        mirrorbench.load(f"{read}{folder}").encode(TEXTS)
    assert refused.value.hint


def test_unknown_dense_activation_is_refused(made: Made) -> None:
    """sentence-transformers computes Tanh instead."""
    folder = made("Dense")
    file = folder / "2_Dense" / "config.json"
    file.write_text(
        file.read_text().replace("torch.nn.modules.activation.Tanh", "somebody.else.Swish")
    )
    with pytest.raises(ModelUnavailableError, match=r"somebody\.else\.Swish") as refused:
        mirrorbench.load(str(folder)).encode(TEXTS)
    assert "torch.nn" in refused.value.hint


def test_ladder_row_names_the_effective_spec(made: Made, maker: PlanMaker) -> None:
    folder = made("Dense")
    for spec, row in (
        (f"{folder}", f"sbert:path={folder}"),
        (f"{folder}:prompt=query:%20", f"sbert:path={folder},prompt=query:%20"),
        (f"{folder}:pooling=cls", f"{folder}+base:pooling=cls"),
    ):
        for level in ("word", "wic"):
            assert [str(spec_) for spec_ in ladder(parse_spec(spec), level, maker)] == [row]


def test_hub_model_readout_follows_its_files(
    made: Made, maker: PlanMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made("Normalize")
    monkeypatch.setattr(backbones, "_from_hub", lambda name, revision, offline: folder)
    (row,) = ladder(parse_spec("owner/name"), "sentence", maker)
    assert str(row) == "owner/name+base:max_length=40,normalize=true,pooling=cls"
    assert len(ladder(parse_spec("minilm"), "sentence", maker)) == 2  # a short name keeps its rows
    (folder / "modules.json").write_text(
        (folder / "modules.json").read_text().replace("Normalize", "Other")
    )
    (row,) = ladder(parse_spec("owner/name@v1"), "sentence", maker)
    assert str(row) == "sbert@v1:model=owner/name"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("modules.json", "[", "cannot be read"),
        ("modules.json", '[{"type": "a.B", "path": "../x"}]', "not inside"),
        ("1_Pooling/config.json", "[]", "not a JSON object"),
        ("tokenizer.json", "{", "cannot be opened"),
    ],
)
def test_damaged_files_raise_model_unavailable_error(
    made: Made, file: str, content: str, message: str
) -> None:
    folder = made("no length")
    (folder / file).write_text(content)
    with pytest.raises(ModelUnavailableError, match=message):
        mirrorbench.load(str(folder)).encode(TEXTS)


@pytest.mark.parametrize("read", ["sbert", "stored"])
def test_nan_weights_fail_and_store_no_result(made: Made, bench: Bench, read: str) -> None:
    """``stored``: the ``Dense`` of a directory of ``mirrorbench tune``, which mirrorbench multiplies itself."""
    folder = made("linear Dense")
    file = folder / "2_Dense" / "model.safetensors"
    save_file({name: weight.mul(np.nan) for name, weight in load_file(file).items()}, file)
    if read == "stored":
        (folder / "mirrorbench.json").write_text(
            json.dumps({"readout": {**PLAIN, "post": "stored"}})
        )
    outcome = bench.run(str(folder), tasks=("quick-sts",))
    assert [failure.task for failure in outcome.failures] == ["quick-sts"]
    assert "NaN or infinite vectors" in outcome.failures[0].reason
    assert outcome.results == ()
    assert not list(bench.results.root.rglob("seed-*.json"))
