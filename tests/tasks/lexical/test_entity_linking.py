"""Entity linking and disambiguation against plain loops, under both protocols."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from helpers.format_samples import archive
from helpers.random_models import Models
from helpers.runner_bench import Bench
from helpers.small_data_sets import as_here, write
from helpers.toy_plugin import STORE, ToyPlugin, scored
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.items import (
    Disambiguation,
    Linking,
    Mention,
    Occurrence,
)
from mirrorbench.runs.requests import Request
from mirrorbench.tasks import Scores
from mirrorbench.tasks.lexical import EntityLinking, SenseDisambiguation
from mirrorbench.workspace_functions import execute_plan, make_plan

NAMES = {
    "cold": "D1",
    "common cold": "D1",
    "flu": "D2|D3",
    "fever": "D4",
    "chills": "D5",
    "cough": "D6",
    "ache": "D7",
}


PLANE = {
    "cold": (1.0, 0.0),
    "common cold": (10.0, 1.0),
    "flu": (0.0, 1.0),
    "fever": (-1.0, 1.0),
    "chills": (-1.0, 0.0),
    "cough": (-1.0, -1.0),
    "ache": (0.0, -1.0),
    "a cold": (1.0, 0.01),
    "the flu": (0.1, 1.0),
    "catarrh": (1.0, 0.4),
}


def linking(*mentions: tuple[str, str], fold: str = "") -> Linking:
    """Mentions, each a text and its gold ids, numbered from 1, with the dictionary ``NAMES``."""
    numbered = []
    for number, (text, gold) in enumerate(mentions, start=1):
        parts = tuple(text.split("|"))
        numbered.append(Mention(f"{fold}{number}", parts, frozenset(gold.split("|"))))
    ids = tuple(frozenset(ids.split("|")) for ids in NAMES.values())
    return Linking(tuple(numbered), tuple(NAMES), ids, fold)


def score(*linkings: Linking, protocol: str = "paper") -> Scores:
    return scored(EntityLinking("diseases", linkings), lambda item: PLANE[item.text], protocol)


def test_released_ranks_equal_sapbert_code(bench: Bench, random_model: Models) -> None:
    """SapBERT's code in naive lines: ``src/data_loader.py``, ``src/model_wrapper.py``, ``evaluation/utils.py``."""
    long = "Autosomal Recessive Spinal Muscular Atrophy"  # a token a letter: cut within "Muscular"
    mentions = {f"{long}, TYPE 2": "D2", "ATAXIA": "D3", "Ataxic": "D1"}
    dictionary = {
        f"{long}, type 1": "D1",
        f"{long}, type 2": "D2",
        "ataxia": "D3",
        "Ataxic gait": "D4",
    }
    mention_lines = [f"1||0|1||x||{text}||{gold}\n" for text, gold in mentions.items()]
    name_lines = [f"{concept}||{name}\n" for name, concept in dictionary.items()]
    data = archive(
        {
            "x/processed_test/1.concept": "".join(mention_lines).encode(),
            "x/test_dictionary.txt": "".join(name_lines).encode(),
        }
    )
    files = {("ncbi-disease", "ncbi-disease.tar.gz"): data}
    write(files, bench.folder / "data")
    card = as_here(builtin_cards()["ncbi-disease"], files)
    card = msgspec.structs.replace(card, name="small-ncbi")
    bench.plugins.add(ToyPlugin(tasks=[EntityLinking.from_card(card)]), "small")
    path = random_model("bert")
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModel.from_pretrained(path).eval()

    def embed(name: str) -> Any:
        tokens = tokenizer(
            name.lower(), max_length=25, padding="max_length", truncation=True, return_tensors="pt"
        )
        with torch.no_grad():
            return model(**tokens).last_hidden_state.mean(1)[0].numpy()

    table = np.stack([embed(name) for name in dictionary])
    ids = list(dictionary.values())
    np.testing.assert_array_equal(table[0], table[1])  # within 25 tokens the two types are one
    ranks = []
    for text, gold in mentions.items():
        order = np.argsort(-(table @ embed(text)), kind="stable").tolist()
        ranks.append(order.index(ids.index(gold)) + 1)
    request = Request(
        (parse_spec(f"{path}+base:pooling=mean-padded"),), ("small-ncbi",), protocol="released"
    )
    (result,) = execute_plan(bench.workspace(), make_plan(bench.workspace(), request)).results
    assert (result.encoder["max_length"], len(set(ranks))) == (25, 3)
    (file,) = bench.results.root.rglob("*.npz")
    assert np.load(file)["rank"].tolist() == ranks


def test_hits_need_shared_ids_in_every_part() -> None:
    got = score(
        linking(
            ("a cold", "D1"),  # nearest: cold
            ("the flu", "D9|D3"),  # nearest: flu, one of whose ids is among the gold
            ("a cold|the flu", "D1|D2"),
            (
                "a cold|the flu",
                "D1|D8",
            ),  # of the second part, the third nearest, cold, shares an id with the gold
            ("catarrh", "D4"),  # fever is the fifth nearest, after the colds, flu and ache
            ("the flu", "D6"),  # cough is the seventh
        )
    )
    assert got.extra["rank"].tolist() == [1, 1, 1, 3, 5, np.inf]
    assert got.metrics == {"accuracy@1": pytest.approx(3 / 6), "accuracy@5": pytest.approx(5 / 6)}
    assert got.scores.tolist() == [1, 1, 1, 0, 0, 0]
    assert got.extra["predicted"].tolist() == [
        "cold",
        "flu",
        "cold|flu",
        "cold|flu",
        "common cold",
        "flu",
    ]
    assert got.ids == ["1", "2", "3", "4", "5", "6"]


def test_released_protocol_ranks_by_dot_product() -> None:
    items = linking(("a cold", "D1"), ("the flu", "D2"))
    cosine, dot = score(items), score(items, protocol="released")
    assert cosine.extra["predicted"].tolist() == ["cold", "flu"]
    assert dot.extra["predicted"].tolist() == [
        "common cold",
        "common cold",
    ]  # it is ten times as long
    assert (cosine.notes[0], dot.notes[0]) == ("similarity: cosine", "similarity: dot")
    assert dot.metrics["accuracy@1"] == 0.5


def test_accuracy_is_averaged_over_folds() -> None:
    got = score(
        linking(("a cold", "D1"), fold="a"), linking(("the flu", "D2"), ("the flu", "D1"), fold="b")
    )
    assert got.metrics["accuracy@1"] == pytest.approx((1 + 0.5) / 2)  # not 2 of 3
    assert got.extra["fold"].tolist() == ["a", "b", "b"]
    assert "mean over 2 folds" in got.notes[2]


def test_notes_report_dictionary_and_missing_concepts() -> None:
    got = score(linking(("a cold", "D1"), ("the flu", "D99")))
    text = "".join(f"{ids}||{name}\n" for name, ids in NAMES.items())
    assert (
        got.notes[1] == f"dictionary: 7 names, sha256 {hashlib.sha256(text.encode()).hexdigest()}"
    )
    assert got.notes[2].startswith("1 mentions have concepts that are missing from")


def test_identity_follows_mentions_and_inconsistencies_are_refused() -> None:
    mentions = (("a cold", "D1"), ("a cold", "D1"), ("a cold", "D2"), ("the flu", "D1"))
    first, same, *different = (
        EntityLinking("t", [linking(mention)]).identity(STORE) for mention in mentions
    )
    assert first == same
    assert first not in different
    repeated = [linking(("a cold", "D1")), linking(("the flu", "D2"))]
    for items, message in (([linking()], "no mentions"), (repeated, "ids repeat")):
        with pytest.raises(DataFormatError, match=message):
            EntityLinking("t", items).load(STORE)


def test_shared_keys_include_documents_and_lemmas() -> None:
    """Texts are searched for in corpora; shared documents and lemmas are not."""
    items = linking(("cold|flu", "D1"))
    items = replace(items, mentions=(replace(items.mentions[0], document="9288106"),))
    task = EntityLinking("e", [items])
    assert (task.texts([items]), task.shared([items])) == (
        {"1": ("cold", "flu")},
        {"1": ("cold", "flu", "9288106")},
    )
    word = Occurrence(
        "1", TextInput("a cold day", ((2, 6),)), ("cold%1", "cold%2"), frozenset({"cold%1"}), "s"
    )
    of_words = Disambiguation((word,), {})
    assert SenseDisambiguation("s", of_words).texts(of_words) == {"1": ("a cold day",)}
    assert SenseDisambiguation("s", of_words).shared(of_words) == {
        "1": ("a cold day", "cold%1 cold%2")
    }
