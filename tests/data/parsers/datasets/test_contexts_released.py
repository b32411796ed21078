"""Words in context as MirrorWiC's released code reads them, and against files that its authors made with it.

The code is ``evaluation_scripts`` of ``cambridgeltl/MirrorWiC``: it marks a target by square brackets.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.format_samples import COSIMLEX
from helpers.parsed_files import PARSERS, read_sample, run

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins

TARGETS, TEXTS = (
    {"protocol": "released", "of_target": True},
    {"protocol": "released", "of_target": False},
)


def marked(item: TextInput) -> str:
    """A text with its target in brackets, as the released code has it before the tokenizer."""
    ((start, end),) = item.spans
    return f"{item.text[:start]}[ {item.text[start:end]} ]{item.text[end:]}"


def test_released_protocol_removes_unrelated_brackets(tmp_path: Path) -> None:
    lines = "a [ b ] bright c]\t4\t1.5\tbright.a 1\nbright [light]\t0\t1.5\tbright.a 2\n"
    (pair,) = run("usim", tmp_path, {"usim_en.txt": lines}, **TARGETS)
    assert [marked(side) for side in (pair.left, pair.right)] == [
        "a  b  [ bright ] c",
        "[ bright ] light",
    ]
    (plain,) = run("usim", tmp_path, {"usim_en.txt": lines})
    assert (plain.left.text, plain.right.text) == ("a [ b ] bright c]", "bright [light]")


@pytest.mark.parametrize(
    ("subtask", "statement", "text"),
    [
        (1, "[ zero ] means a digit", "a digit"),
        (2, "[ zero ] is a kind of digit,natural_number", "digit natural_number"),
        (
            3,
            "[ zero ] is a kind of digit,natural_number and means a digit",
            "a digit||digit natural_number",
        ),
    ],
)
def test_released_wic_tsv_statements_follow_the_templates(
    tmp_path: Path, subtask: int, statement: str, text: str
) -> None:
    words, whole = (
        read_sample("wic-tsv", tmp_path, {}, subtask=subtask, **read)[0]
        for read in (TARGETS, TEXTS)
    )
    assert marked(words.right) == statement
    assert whole.right == TextInput(text)
    assert whole.left == words.left


def test_released_cosimlex_contexts_are_tokenised(tmp_path: Path) -> None:
    first = "A [fat]\u2014<strong>well-known</strong>, <strong>cat</strong>!"
    second = "<strong>cat</strong>s <strong>hat</strong>"
    row = f"a\tb\t{first}\t{second}\t1\t2\t1\t1\t0.1\twell-known\tcat\that\tcat\n"
    (change,) = run("cosimlex", tmp_path, {"cosimlex_en.csv": f"{COSIMLEX}\n{row}"}, **TARGETS)
    assert marked(change.first.left) == "A fat \u2014 [ well ] - known  ,  cat  !"
    assert marked(change.first.right) == "A fat \u2014  well - known  , [ cat ] !"
    assert (marked(change.second.left), marked(change.second.right)) == (
        "cat  s [ hat ] ",
        " [ cat ] s  hat",
    )


@pytest.mark.parametrize(("subtask", "name"), [(1, "def"), (2, "hyp"), (3, "def_hyp")])
def test_released_wic_tsv_equals_the_authors_files(
    shared_data: Path, subtask: int, name: str
) -> None:
    files = {
        path.name: path for path in (shared_data / "wic" / "WiC-TSV" / "en").glob("*/dev_*.txt")
    }
    options = {"subtask": subtask}
    words, whole = (PARSERS["wic-tsv"](files, {**options, **read}) for read in (TARGETS, TEXTS))
    path = shared_data / "wic" / "WiC-TSV-mirrorwic" / f"wic_tsv_{name}_wic" / "dev.tsv"
    rows = [line.strip().split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
    assert len(rows) == len(words) == len(whole)
    for (context, text, _), pair, plain in zip(rows, words, whole, strict=True):
        target = marked(pair.left).split("[ ")[1].split(" ]")[0]
        definition, _, kinds = text.partition("||") if subtask == 3 else (text, "", text)
        kind = f"is a kind of {','.join(kinds.split())}"
        statement = {1: f"means {text}", 2: kind, 3: f"{kind} and means {definition}"}[subtask]
        assert marked(pair.left).split() == context.split()
        assert marked(pair.right) == f"[ {target} ] {statement}"
        assert plain.right.text == text


def test_task_reading_depends_on_the_protocol(originals: Callable[..., DataStore]) -> None:
    task, store = load_plugins(discover=False).tasks["wic-tsv-2"], originals("wic")
    of_words, of_texts = task.reading("released", of_target=True), task.reading("released")
    paper, words, texts = (
        reading.load(store)[1].right.text for reading in (task, of_words, of_texts)
    )
    assert paper.startswith(
        "fundus is a kind of structure, anatomical structure, complex body part"
    )
    assert words.startswith("fundus is a kind of structure,anatomical_structure,complex_body_part")
    assert (
        texts == "structure anatomical_structure complex_body_part bodily_structure body_structure"
    )
    assert task.reading("paper", of_target=True) is task
    assert words in of_words.texts(of_words.load(store))["dev/2"]
