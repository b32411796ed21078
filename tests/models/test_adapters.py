"""LoRA: its product, its stored files, and weights kept in half precision."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.lora_adapters import adapted, half, learnt
from helpers.random_models import Models, encoder
from helpers.suite_marks import few
from peft import (
    LoraConfig,
    PeftConfig,
    PeftModel,
    PrefixTuningConfig,
    TrainableTokensConfig,
    get_peft_model,
)
from safetensors.torch import load_file
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers.pytorch_utils import Conv1D

import mirrorbench
from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.models.adapters import add_adapter, is_adapted, merge_adapter
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.models.transformer_encoder import TransformerEncoder

CPU = torch.device("cpu")
TEXTS = ["a house by the river", "it holds my money, and more", "x"]
MEAN = Pooling("mean", "-1:", 32)
LINEAR = (torch.nn.Linear, Conv1D)


def vectors(transformer: Transformer, precision: str = "fp32") -> np.ndarray:
    return TransformerEncoder(transformer, MEAN, precision).encode(TEXTS)


def by_peft(model: torch.nn.Module, transformer: Transformer) -> np.ndarray:
    """Return the vectors of a plain model for the tokens of ``transformer``."""
    read = [torch.from_numpy(row)[None] for row in transformer.tokenize(TEXTS, 32)]
    with torch.no_grad():
        return np.array([model(input_ids=ids).last_hidden_state[0].mean(0).numpy() for ids in read])


@pytest.mark.parametrize("family", few(["llama", "gpt2", "bert", "t5"], 0, 1))
def test_lora_adds_scaled_product_of_stored_matrices(
    random_model: Models, tmp_path: Path, family: str
) -> None:
    """W + 2 B A, by hand from the files ("LoRA", section 4.1: h = W x + B A x, scaled by alpha / r)."""
    transformer = adapted(random_model(family))
    by_hand = load_transformer(random_model(family), CPU)
    transformer.save(tmp_path)
    assert not [*tmp_path.glob("model*"), *tmp_path.glob("config.json")]
    stored = load_file(tmp_path / "adapter_model.safetensors")
    firsts = [key for key in stored if key.endswith("lora_A.weight")]
    for key in firsts:
        weight = by_hand.model.get_parameter(
            key.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
        )
        product = stored[key.replace("lora_A", "lora_B")] @ stored[key]
        weight.data += 2 * (product.T if family == "gpt2" else product)
    linear = [
        m for n, m in by_hand.model.named_modules() if isinstance(m, LINEAR) and "pooler" not in n
    ]
    assert len(firsts) == len(linear)
    before = vectors(transformer)
    np.testing.assert_allclose(before, vectors(by_hand), atol=1e-5)
    np.testing.assert_array_equal(vectors(load_transformer(tmp_path, CPU)), before)
    assert is_adapted(transformer.adaptable_model)
    merge_adapter(transformer.adaptable_model)
    np.testing.assert_allclose(vectors(transformer), before, atol=1e-4)
    assert not is_adapted(transformer.adaptable_model)
    with pytest.raises(ModelUnavailableError):  # on another model
        load_transformer(tmp_path, CPU, base=random_model("gpt2" if family != "gpt2" else "llama"))


def test_lora_initialisation_is_seeded_and_changes_nothing(random_model: Models) -> None:
    plain = load_transformer(random_model("bert"), CPU)
    drawn = []
    for seed in (0, 0, 1):
        transformer = load_transformer(random_model("bert"), CPU)
        torch.manual_seed(len(drawn))  # torch's own generator has no part in it
        state = torch.random.get_rng_state()
        add_adapter(transformer.adaptable_model, transformer.path, 4, seed)
        assert torch.equal(torch.random.get_rng_state(), state)
        np.testing.assert_array_equal(vectors(transformer), vectors(plain))
        drawn.append(
            torch.cat([w.flatten() for w in transformer.model.parameters() if w.requires_grad])
        )
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def with_new_tokens(
    base: Path,
    folder: Path,
    stored: bool,
    model_class: Any = AutoModel,
    multiple: int | None = None,
    config: PeftConfig | None = None,
    **options: Any,
) -> PeftModel:
    """Write an adapter with two more tokens, by peft alone, with or without their embeddings."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(["<new>", "<newer>"])
    model = model_class.from_pretrained(base)
    model.resize_token_embeddings(len(tokenizer), pad_to_multiple_of=multiple)
    lora = LoraConfig(r=2, **({"target_modules": ["query"]} | options))
    model = get_peft_model(model, config or lora)
    learnt(model)
    model.save_pretrained(folder, save_embedding_layers=stored)
    tokenizer.save_pretrained(folder)
    return model.eval()


def means(model: PeftModel, folder: Path) -> list[np.ndarray]:
    """The means of the last states of ``NEW_TEXTS``, by the model inside a head if there is one."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    read = [tokenizer(text, return_tensors="pt")["input_ids"] for text in NEW_TEXTS]
    reader = model.base_model.model.base_model
    if reader.config.is_encoder_decoder:
        reader = reader.get_encoder()
    with torch.no_grad():
        return [reader(input_ids=ids).last_hidden_state[0].mean(0).numpy() for ids in read]


NEW_TEXTS = [*TEXTS, "a <new> house, and a <newer>"]


def test_adapter_brings_the_embeddings_of_its_tokens(random_model: Models, tmp_path: Path) -> None:
    wanted = means(with_new_tokens(random_model("bert"), tmp_path, stored=True), tmp_path)
    spec = f"{tmp_path}+base:pooling=mean"
    actual = mirrorbench.load(spec, device="cpu").encode(NEW_TEXTS)
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
    tuned = tmp_path / "tuned"
    spec = f"{tmp_path}+mirror:pooling=mean,lr=0"
    mirrorbench.tune(NEW_TEXTS, spec, tuned, held_out=0, device="cpu")
    actual = mirrorbench.load(tuned, device="cpu").encode(NEW_TEXTS)
    np.testing.assert_allclose(actual, wanted, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"stored": True, "model_class": AutoModelForMaskedLM},
        {"stored": True, "model_class": AutoModelForSequenceClassification, "multiple": 64},
        {"stored": True, "target_modules": ["word_embeddings", "query"]},
        {"stored": True, "modules_to_save": ["word_embeddings"]},
        {"stored": True, "trainable_token_indices": [141, 142]},
        {"stored": False, "trainable_token_indices": [141, 142]},
        {
            "stored": False,
            "config": TrainableTokensConfig(
                token_indices=[141, 142], target_modules=["word_embeddings"]
            ),
        },
    ],
)
def test_adapter_stores_embeddings_under_other_names(
    random_model: Models, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Under a head, under LoRA, as a tuned module, or those of tuned tokens alone, with LoRA or without."""
    wanted = means(with_new_tokens(random_model("bert"), tmp_path, **options), tmp_path)
    actual = mirrorbench.load(f"{tmp_path}+base:pooling=mean", device="cpu").encode(NEW_TEXTS)
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
    ours = load_transformer(tmp_path, CPU)
    merge_adapter(ours.adaptable_model)
    ours.save(tmp_path / "merged")
    actual = mirrorbench.load(f"{tmp_path / 'merged'}+base:pooling=mean", device="cpu")
    np.testing.assert_allclose(actual.encode(NEW_TEXTS), wanted, atol=1e-5)


_QUERY = "bert.encoder.layer.0.attention.self.query"


@pytest.mark.parametrize(
    "options",
    few(
        [
            {
                "stored": False,
                "target_modules": "all-linear",
                "alpha_pattern": {_QUERY: 64},
                "trainable_token_indices": {"bert.embeddings.word_embeddings": [141, 142]},
            },
            {"stored": True, "target_modules": r"bert\.encoder\.layer\..*\.(query|value)"},
            {
                "stored": True,
                "rank_pattern": {f"^{_QUERY}": 4},
                "exclude_modules": r"bert\.encoder\.layer\.1\..*",
            },
            {"stored": True, "layers_to_transform": [1]},
            {"stored": False, "modules_to_save": ["bert.embeddings.word_embeddings"]},
            {"stored": False, "config": TrainableTokensConfig(token_indices=[141, 142])},
        ]
    ),
)
def test_settings_name_modules_inside_a_head(
    random_model: Models, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Whole names and patterns begin with the name of the model inside: ``bert.encoder``."""
    trained = with_new_tokens(
        random_model("bert"), tmp_path, model_class=AutoModelForMaskedLM, **options
    )
    actual = mirrorbench.load(f"{tmp_path}+base:pooling=mean", device="cpu").encode(NEW_TEXTS)
    np.testing.assert_allclose(actual, means(trained, tmp_path), atol=1e-5)


def test_tuned_tokens_of_a_head_are_left_out(random_model: Models, tmp_path: Path) -> None:
    """``peft`` finds no ``lm_head`` in a model without a head."""
    added = [515, 516]
    trained = with_new_tokens(
        random_model("llama"),
        tmp_path,
        False,
        AutoModelForCausalLM,
        target_modules=["q_proj"],
        trainable_token_indices={"embed_tokens": added, "lm_head": added},
    )
    actual = mirrorbench.load(f"{tmp_path}+base:pooling=mean", device="cpu").encode(NEW_TEXTS)
    np.testing.assert_allclose(actual, means(trained, tmp_path), atol=1e-5)


def test_pooler_without_weights_is_left_alone(random_model: Models, tmp_path: Path) -> None:
    """RoBERTa has none under a head; without one, ``dense`` names the pooler's layer too."""
    trained = with_new_tokens(
        random_model("roberta"),
        tmp_path,
        True,
        AutoModelForMaskedLM,
        target_modules=["query", "dense"],
    )
    actual = mirrorbench.load(f"{tmp_path}+base:pooling=mean", device="cpu").encode(NEW_TEXTS)
    np.testing.assert_allclose(actual, means(trained, tmp_path), atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("family", ["bart", "t5"])
def test_tuned_tokens_are_shared_with_the_encoder(
    random_model: Models, tmp_path: Path, family: str
) -> None:
    """``peft`` stores the rows under the name of the shared embeddings alone."""
    known = AutoModel.from_pretrained(random_model(family)).get_input_embeddings().num_embeddings
    trained = with_new_tokens(
        random_model(family),
        tmp_path,
        False,
        AutoModelForSeq2SeqLM,
        target_modules=["q", "q_proj"],
        trainable_token_indices=[known, known + 1],
    )
    actual = mirrorbench.load(f"{tmp_path}+base:pooling=mean", device="cpu").encode(NEW_TEXTS)
    np.testing.assert_allclose(actual, means(trained, tmp_path), atol=1e-5)


@pytest.mark.parametrize(
    ("tuned", "which"), [({}, "them"), ({"trainable_token_indices": [142]}, "1 of them")]
)
def test_adapter_without_embeddings_of_its_tokens_is_refused(
    random_model: Models, tmp_path: Path, tuned: dict[str, Any], which: str
) -> None:
    with_new_tokens(random_model("bert"), tmp_path, stored=False, **tuned)
    with pytest.raises(ModelUnavailableError, match=f"stores no embeddings of {which};"):
        mirrorbench.load(f"{tmp_path}+base:pooling=mean", device="cpu")


def test_adapter_of_another_model_is_refused(random_model: Models, tmp_path: Path) -> None:
    with_new_tokens(random_model("bert"), tmp_path, True, AutoModelForMaskedLM)
    with pytest.raises(ModelUnavailableError, match=r"does not fit its backbone \(bert\."):
        load_transformer(tmp_path, CPU, base=random_model("electra"))


def test_half_precision_backbone_takes_embeddings_whole(
    random_model: Models, tmp_path: Path
) -> None:
    """Rows of tuned tokens are float32, and ``peft`` would round them to the precision of the others."""
    base = half(random_model("bert"), tmp_path / "half")
    tuned = {"trainable_token_indices": [141, 142]}
    with_new_tokens(base, tmp_path / "adapter", stored=False, **tuned)
    kept = load_transformer(tmp_path / "adapter", CPU, precision="bf16")
    assert kept.matrix_precision == "bf16"
    whole = load_transformer(tmp_path / "adapter", CPU)
    actual = [TransformerEncoder(read, MEAN, "bf16").encode(NEW_TEXTS) for read in (kept, whole)]
    np.testing.assert_array_equal(*actual)


def test_adapter_on_an_adapter_is_refused(random_model: Models, tmp_path: Path) -> None:
    first = tmp_path / "first"
    second = tmp_path / "second"
    for folder, base in ((first, random_model("bert")), (second, first)):
        adapted(random_model("bert")).save(folder)
        settings = json.loads((folder / "adapter_config.json").read_text())
        named = settings | {"base_model_name_or_path": str(base)}
        (folder / "adapter_config.json").write_text(json.dumps(named))
    assert mirrorbench.load(str(first), device="cpu").encode(TEXTS).shape == (3, 32)
    with pytest.raises(ModelUnavailableError, match=f"of {first}, which is itself an adapter"):
        mirrorbench.load(str(second), device="cpu")


def test_adapter_on_changed_backbone_is_refused(random_model: Models, tmp_path: Path) -> None:
    base = tmp_path / "base"
    adapter = tmp_path / "adapter"
    shutil.copytree(random_model("bert"), base)
    mirrorbench.tune(
        [f"text {n}" for n in range(8)], f"{base}+mirror:lora=2", adapter, held_out=0, device="cpu"
    )
    readers = (str(adapter), f"sbert:path={adapter}")
    same = [mirrorbench.load(spec, device="cpu").encode(TEXTS) for spec in readers]
    np.testing.assert_allclose(*same, atol=1e-5)
    half(base, base)
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(
        json.dumps(settings | {"revision": "main"})
    )  # which a folder has not
    for spec in readers:
        with pytest.raises(
            ModelUnavailableError,
            match=rf"{adapter} is an adapter of {base}, whose files have changed",
        ):
            mirrorbench.load(spec, device="cpu")


@pytest.mark.parametrize("shortened", [False, True])
def test_peft_opens_adapter_of_vision_model(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortened: bool
) -> None:
    """All parts have layers of the same names if ``peft`` shortens them, as it does in large models."""
    path = random_model("gemma3-vision")
    monkeypatch.setattr(
        "peft.tuners.tuners_utils.MIN_TARGET_MODULES_FOR_OPTIMIZATION", 2 if shortened else 1000
    )
    transformer = adapted(path)
    transformer.save(tmp_path / "adapter")
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert ("q_proj" in settings["target_modules"]) is shortened
    opened = PeftModel.from_pretrained(AutoModel.from_pretrained(path), tmp_path / "adapter").eval()
    assert not [
        name
        for name, _ in opened.named_parameters()
        if "lora" in name and "language_model" not in name
    ]
    theirs = by_peft(opened, transformer)
    np.testing.assert_allclose(theirs, vectors(transformer), atol=1e-5)
    assert np.abs(theirs - vectors(load_transformer(path, CPU))).max() > 1e-2
    merge_adapter(transformer.adaptable_model)
    transformer.save(tmp_path / "merged")  # the text's half alone, as before it had an adapter
    np.testing.assert_allclose(
        vectors(load_transformer(tmp_path / "merged", CPU)), theirs, atol=1e-5
    )
    assert (
        json.loads((tmp_path / "merged" / "config.json").read_text())["model_type"] == "gemma3_text"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"modules_to_save": ["embeddings.LayerNorm"]},
        {"trainable_token_indices": [5, 6, 7]},
        {"use_dora": True},
    ],
)
def test_peft_adapters_give_the_same_vectors(
    random_model: Models, tmp_path: Path, options: dict[str, Any]
) -> None:
    """``PeftModel.save_pretrained`` writes no tokenizer."""
    path = random_model("roberta")
    theirs = get_peft_model(
        AutoModel.from_pretrained(path), LoraConfig(r=4, target_modules=["query"], **options)
    )
    learnt(theirs)
    theirs.save_pretrained(tmp_path / "adapter")
    ours = load_transformer(tmp_path / "adapter", CPU)
    expected = by_peft(theirs.eval(), ours)
    np.testing.assert_allclose(vectors(ours), expected, atol=1e-5)
    merge_adapter(ours.adaptable_model)
    ours.save(tmp_path / "merged")
    ours.check_saved(tmp_path / "merged")
    np.testing.assert_allclose(
        vectors(load_transformer(tmp_path / "merged", CPU)), expected, atol=1e-5
    )


def test_prefix_tuning_adapter_is_refused(random_model: Models, tmp_path: Path) -> None:
    settings = PrefixTuningConfig(num_virtual_tokens=4, task_type="FEATURE_EXTRACTION")
    get_peft_model(AutoModel.from_pretrained(random_model("roberta")), settings).save_pretrained(
        tmp_path
    )
    with pytest.raises(ModelUnavailableError, match="PREFIX_TUNING, which puts vectors") as caught:
        load_transformer(tmp_path, CPU)
    assert "LoRA" in caught.value.hint


@pytest.mark.parametrize(("family", "dtype"), [("bert", torch.bfloat16), ("llama", torch.float16)])
def test_keeping_half_precision_weights_changes_no_vector(
    random_model: Models, tmp_path: Path, family: str, dtype: torch.dtype
) -> None:
    """Vectors equal those of float32 weights, which autocast rounds, bit for bit. Adapters are float32."""
    path = half(random_model(family), tmp_path / "half", dtype)
    adapted(path).save(tmp_path / "adapter")
    for folder in (path, tmp_path / "adapter"):
        kept = load_transformer(folder, CPU, precision="bf16")
        assert kept.matrix_precision == "bf16"
        assert {weight.dtype for weight in kept.model.parameters()} == {dtype, torch.float32}
        assert {w.dtype for name, w in kept.model.named_parameters() if "lora" in name} <= {
            torch.float32
        }
        np.testing.assert_array_equal(
            vectors(kept, "bf16"), encoder(folder, MEAN, "bf16").encode(TEXTS)
        )
    for folder, precision in ((path, "fp32"), (random_model(family), "bf16")):
        opened = load_transformer(folder, CPU, precision=precision)
        assert opened.matrix_precision == "fp32"
        assert {weight.dtype for weight in opened.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("family", ["t5", "gemma3-vision"])
def test_device_map_loads_the_same_weights(
    random_model: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """The CPU takes the branch of a GPU: transformers' ``device_map``, and an adapter on such a model."""
    path = random_model(family)
    maps = []
    adapted(path).save(tmp_path / "adapter")
    expected = [load_transformer(folder, CPU) for folder in (path, tmp_path / "adapter")]
    made = PreTrainedModel.from_pretrained.__func__

    def remember(cls: type, *given: Any, **named: Any) -> Any:
        maps.append(named.get("device_map"))
        return made(cls, *given, **named)

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(remember))
    monkeypatch.setattr("mirrorbench.models.transformer.on_gpu", lambda device: True)
    for plain, folder in zip(expected, (path, tmp_path / "adapter"), strict=True):
        mapped = load_transformer(folder, CPU)
        ours, theirs = (dict(read.adaptable_model.state_dict()) for read in (mapped, plain))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(weight, theirs[name]) for name, weight in ours.items())
        assert not [
            name for name, tensor in mapped.adaptable_model.named_buffers() if tensor.is_meta
        ]
    assert maps == [{"": CPU}, {"": CPU}]
