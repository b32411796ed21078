"""Entity linking and disambiguation against plain loops, under both protocols."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from bench import Bench
from random_models import Models
from samples import archive
from scipy.spatial import distance
from small_data import as_here, write
from toys import STORE, ToyPlugin, scored, vectors_of
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
    SenseContexts,
)
from mirrorbench.runs.plan import Request
from mirrorbench.runs.run import execute_plan, make_plan
from mirrorbench.tasks import Scores
from mirrorbench.tasks.lexical import EntityLinking, SenseDisambiguation

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
    return Linking(
        tuple(
            Mention(f"{fold}{number}", tuple(text.split("|")), frozenset(gold.split("|")))
            for number, (text, gold) in enumerate(mentions, start=1)
        ),
        tuple(NAMES),
        tuple(frozenset(ids.split("|")) for ids in NAMES.values()),
        fold,
    )


def score(*linkings: Linking, protocol: str = "paper") -> Scores:
    return scored(EntityLinking("diseases", linkings), lambda item: PLANE[item.text], protocol)


def test_the_released_evaluation_reads_25_tokens_in_lower_case(
    bench: Bench, random_model: Models
) -> None:
    """SapBERT's code in naive lines: ``src/data_loader.py``, ``src/model_wrapper.py``, ``evaluation/utils.py``."""
    long = "Autosomal Recessive Spinal Muscular Atrophy"  # a token a letter: cut within "Muscular"
    mentions = {f"{long}, TYPE 2": "D2", "ATAXIA": "D3", "Ataxic": "D1"}
    dictionary = {
        f"{long}, type 1": "D1",
        f"{long}, type 2": "D2",
        "ataxia": "D3",
        "Ataxic gait": "D4",
    }
    content = {
        "x/processed_test/1.concept": "".join(
            f"1||0|1||x||{text}||{gold}\n" for text, gold in mentions.items()
        ),
        "x/test_dictionary.txt": "".join(
            f"{concept}||{name}\n" for name, concept in dictionary.items()
        ),
    }
    made = {
        ("ncbi-disease", "ncbi-disease.tar.gz"): archive(
            {name: text.encode() for name, text in content.items()}
        )
    }
    write(made, bench.folder / "data")
    card = msgspec.structs.replace(
        as_here(builtin_cards()["ncbi-disease"], made), name="small-ncbi"
    )
    bench.plugins.add(ToyPlugin(tasks=[EntityLinking.from_card(card)]), "small")
    path = random_model("bert")
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()

    def embed(name: str) -> Any:
        read = tokenizer(
            name.lower(), max_length=25, padding="max_length", truncation=True, return_tensors="pt"
        )
        with torch.no_grad():
            return model(**read).last_hidden_state.mean(1)[0].numpy()

    table, ids = np.stack([embed(name) for name in dictionary]), list(dictionary.values())
    np.testing.assert_array_equal(table[0], table[1])  # within 25 tokens the two types are one
    orders = [np.argsort(-(table @ embed(text)), kind="stable") for text in mentions]
    ranks = [
        order.tolist().index(ids.index(gold)) + 1
        for order, gold in zip(orders, mentions.values(), strict=True)
    ]
    request = Request(
        (parse_spec(f"{path}+base:pooling=mean-padded"),), ("small-ncbi",), protocol="released"
    )
    (result,) = execute_plan(bench.workspace(), make_plan(bench.workspace(), request)).results
    assert (result.encoder["max_length"], len(set(ranks))) == (25, 3)
    (file,) = bench.results.root.rglob("*.npz")
    assert np.load(file)["rank"].tolist() == ranks


def test_any_shared_id_is_a_hit_and_all_parts_must_hit() -> None:
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


def test_the_released_protocol_ranks_by_the_dot_product() -> None:
    items = linking(("a cold", "D1"), ("the flu", "D2"))
    cosine, dot = score(items), score(items, protocol="released")
    assert cosine.extra["predicted"].tolist() == ["cold", "flu"]
    assert dot.extra["predicted"].tolist() == [
        "common cold",
        "common cold",
    ]  # it is ten times as long
    assert (cosine.notes[0], dot.notes[0]) == ("similarity: cosine", "similarity: dot")
    assert dot.metrics["accuracy@1"] == 0.5


def test_folds_are_averaged_and_kept_apart() -> None:
    got = score(
        linking(("a cold", "D1"), fold="a"), linking(("the flu", "D2"), ("the flu", "D1"), fold="b")
    )
    assert got.metrics["accuracy@1"] == pytest.approx((1 + 0.5) / 2)  # not 2 of 3
    assert got.extra["fold"].tolist() == ["a", "b", "b"]
    assert "mean over 2 folds" in got.notes[2]


def test_the_dictionary_and_its_missing_concepts_are_in_the_result() -> None:
    got = score(linking(("a cold", "D1"), ("the flu", "D99")))
    text = "".join(f"{ids}||{name}\n" for name, ids in NAMES.items())
    assert (
        got.notes[1] == f"dictionary: 7 names, sha256 {hashlib.sha256(text.encode()).hexdigest()}"
    )
    assert got.notes[2].startswith("1 mentions stand for concepts missing from the dictionary")


def test_identity_and_what_is_refused() -> None:
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


RNG = np.random.default_rng(1)


def sense(key: str, n_examples: int) -> SenseContexts:
    examples = tuple(TextInput(f"{key} example {n}", ((0, 1),)) for n in range(n_examples))
    return SenseContexts(examples, TextInput(f"{key} means", ((0, 1),)))


SENSES = {f"s{n}": sense(f"s{n}", n % 4) for n in range(12)}


def made_up(n: int = 60) -> Disambiguation:
    words = []
    for number in range(n):
        candidates = tuple(f"s{k}" for k in RNG.choice(12, size=RNG.integers(1, 5), replace=False))
        gold = frozenset(RNG.choice(candidates, size=RNG.integers(1, len(candidates) + 1)).tolist())
        corpus = "one" if number < n // 3 else "two"
        words.append(
            Occurrence(
                f"{corpus}.{number}",
                TextInput(f"word {number}", ((0, 4),)),
                candidates,
                gold,
                corpus,
            )
        )
    return Disambiguation(tuple(words), SENSES)


@pytest.mark.parametrize("protocol", ["paper", "released"])
def test_the_nearest_candidate_wins(protocol: str) -> None:
    items = made_up()
    task = SenseDisambiguation("toy", items)
    vectors = vectors_of(task, items, lambda item: RNG.normal(size=4))

    def cosine(word: Occurrence, key: str) -> float:
        contexts = list(SENSES[key].examples)
        if protocol == "released" or not contexts:
            contexts.append(SENSES[key].gloss)
        return 1 - float(distance.cosine(vectors([word.target])[0], vectors(contexts).mean(axis=0)))

    words = items.occurrences
    predicted = [max(word.candidates, key=partial(cosine, word)) for word in words]
    hits = [best in word.gold for best, word in zip(predicted, words, strict=True)]
    scores = task.score(items, vectors, protocol)
    assert scores.extra["predicted"].tolist() == predicted
    wanted = {
        "accuracy": hits,
        "accuracy_one": hits[:20],
        "accuracy_two": hits[20:],
        "mfs_accuracy": [word.candidates[0] in word.gold for word in words],
    }
    for name, of_words in wanted.items():
        assert scores.metrics[name] == pytest.approx(np.mean(of_words))
    assert scores.notes == ("9 of 12 senses have examples with the word in them, at most 3 each",)


def test_the_last_bit_chooses_no_sense() -> None:
    """Vectors of one direction and different lengths have one cosine, except for its last bit."""
    keys = tuple(SENSES)
    words = [
        Occurrence(f"a.{n}", TextInput(f"word {n}"), keys, frozenset({keys[0]}), "a")
        for n in range(40)
    ]
    of_word = {word.target: RNG.normal(size=99) for word in words}
    axis = RNG.integers(-9, 9, size=99)
    length = {
        item: n + 1
        for n, sense in enumerate(SENSES.values())
        for item in (*sense.examples, sense.gloss)
    }
    task = SenseDisambiguation("toy", Disambiguation(tuple(words), SENSES))
    scores = scored(task, lambda item: of_word[item] if item in of_word else length[item] * axis)
    assert set(scores.extra["predicted"].tolist()) == {keys[0]}


def test_senses_may_have_contexts_for_one_occurrence() -> None:
    named = {f"{key} forms": sense(name, 1) for key, name in (("s1", "far"), ("s2", "near"))}
    word = Occurrence("a.1", TextInput("near"), ("s1", "s2"), frozenset({"s2"}), "a", tuple(named))
    task = SenseDisambiguation("toy", Disambiguation((word,), named))
    scores = scored(task, lambda item: [1, item.text.startswith("near")])
    assert (scores.extra["predicted"].tolist(), scores.metrics["accuracy"]) == (["s2"], 1)


def test_inconsistent_items_are_refused() -> None:
    word = Occurrence("a.1", TextInput("word"), ("s1",), frozenset({"s2"}), "a")
    nameless = replace(word, gold=frozenset({"s1"}), contexts=("s1 forms",))
    for words in ((), (word,), (nameless,)):
        with pytest.raises(DataFormatError):
            SenseDisambiguation("toy", Disambiguation(words, SENSES)).load(STORE)
    orders = (replace(word, candidates=candidates) for candidates in (("s1", "s2"), ("s2", "s1")))
    first, second = (
        SenseDisambiguation("toy", Disambiguation((w,), SENSES)).identity(STORE) for w in orders
    )
    assert first != second


def test_mentions_share_their_document_and_words_their_lemma() -> None:
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


def test_the_senses_of_a_lemma() -> None:
    def context(text: str) -> TextInput:
        start = text.index("bank")
        return TextInput(text, ((start, start + 4),))

    keys = ("bank%1:14:00::", "bank%1:17:01::", "cat%1:05:00::")
    senses = {
        key: SenseContexts((context(f"example bank {key}"),), context(f"bank means {key}"))
        for key in keys
    }
    texts = ("my bank", "a river bank", f"example bank {keys[0]}", f"example bank {keys[1]}")
    words = [
        Occurrence(text, context(text), keys[:2], frozenset({key}), "x")
        for text, key in zip(texts[:2], keys[:2], strict=True)
    ]
    items = Disambiguation(tuple(words), senses)
    task = SenseDisambiguation("wsd", items)
    contexts = task.senses(items, "bank")
    assert tuple(item.text for item in contexts) == texts
    assert tuple(contexts.values()) == keys[:2] * 2
    assert list(task.senses(items, "cat").values()) == [keys[2]]
