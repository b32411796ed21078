"""Words in context as MirrorWiC's released code reads them, against its procedures restated in plain loops.

The code is ``evaluation_scripts`` of ``cambridgeltl/MirrorWiC``: it marks a target by square brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from parsing import read_sample, run
from samples import COSIMLEX
from suites import few

from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats import parser_of
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import load_plugins

TARGETS, TEXTS = {"protocol": "released", "of_target": True}, {"protocol": "released", "of_target": False}


def marked(item: TextInput) -> str:
    """A text with its target in brackets, as the released code has it before the tokenizer."""
    ((start, end),) = item.spans
    return f"{item.text[:start]}[ {item.text[start:end]} ]{item.text[end:]}"


def test_other_brackets_are_removed(tmp_path: Path) -> None:
    lines = "a [ b ] bright c]\t4\t1.5\tbright.a 1\nbright [light]\t0\t1.5\tbright.a 2\n"
    (pair,) = run("usim", tmp_path, {"usim_en.txt": lines}, **TARGETS)
    assert [marked(side) for side in (pair.left, pair.right)] == ["a  b  [ bright ] c", "[ bright ] light"]
    (plain,) = run("usim", tmp_path, {"usim_en.txt": lines})
    assert (plain.left.text, plain.right.text) == ("a [ b ] bright c]", "bright [light]")


@pytest.mark.parametrize(
    ("subtask", "statement", "text"),
    [
        (1, "[ zero ] means a digit", "a digit"),
        (2, "[ zero ] is a kind of digit,natural_number", "digit natural_number"),
        (3, "[ zero ] is a kind of digit,natural_number and means a digit", "a digit||digit natural_number"),
    ],
)
def test_hypernyms_have_commas_and_templates_are_for_words(
    tmp_path: Path, subtask: int, statement: str, text: str
) -> None:
    words, whole = (read_sample("wic-tsv", tmp_path, {}, subtask=subtask, **read)[0] for read in (TARGETS, TEXTS))
    assert marked(words.right) == statement
    assert whole.right == TextInput(text)
    assert whole.left == words.left


def test_cosimlex_is_cut_into_tokens(tmp_path: Path) -> None:
    first = "A [fat]\u2014<strong>well-known</strong>, <strong>cat</strong>!"
    second = "<strong>cat</strong>s <strong>hat</strong>"
    row = f"a\tb\t{first}\t{second}\t1\t2\t1\t1\t0.1\twell-known\tcat\that\tcat\n"
    (change,) = run("cosimlex", tmp_path, {"cosimlex_en.csv": f"{COSIMLEX}\n{row}"}, **TARGETS)
    assert marked(change.first.left) == "A fat \u2014 [ well ] - known  ,  cat  !"
    assert marked(change.first.right) == "A fat \u2014  well - known  , [ cat ] !"
    assert (marked(change.second.left), marked(change.second.right)) == ("cat  s [ hat ] ", " [ cat ] s  hat")


# The original files, read by the restated procedures.


def usim_lines(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        words, number = line.split("\t")[0].split(), int(line.split("\t")[1])
        before, after = (
            " ".join(some).replace("]", "").replace("[", "") for some in (words[:number], words[number + 1 :])
        )
        yield f"{before} [ {words[number]} ] {after}"


def test_the_texts_of_usim(shared_data: Path) -> None:
    path = shared_data / "wic" / "Usim" / "usim_en.txt"
    pairs = parser_of("usim")({path.name: path}, TARGETS)
    found = [marked(side).strip() for pair in pairs for side in (pair.left, pair.right)]
    assert found == [line.strip() for line in usim_lines(path)]


ELSEWHERE = "test/1282"
"""Where the authors' file marks the word after the target."""


@pytest.mark.parametrize(("subtask", "name"), [(1, "def"), (2, "hyp"), (3, "def_hyp")])
@pytest.mark.parametrize("split", few(["dev", "test"]))
def test_the_texts_of_wic_tsv_are_those_of_the_authors_files(
    shared_data: Path, subtask: int, name: str, split: str
) -> None:
    own = sorted((shared_data / "wic" / "WiC-TSV" / "en").glob(f"*/{split}_*.txt"))
    files = {path.name: path for path in own if path.name != "test_domains.txt"}
    options = {"subtask": subtask}
    words, whole = (parser_of("wic-tsv")(files, {**options, **read}) for read in (TARGETS, TEXTS))
    path = shared_data / "wic" / "WiC-TSV-mirrorwic" / f"wic_tsv_{name}_wic" / f"{split}.tsv"
    rows = [line.strip().split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
    assert len(rows) == len(words) == len(whole)
    for (context, text, _), pair, plain in zip(rows, words, whole, strict=True):
        target = marked(pair.left).split("[ ")[1].split(" ]")[0]
        definition, _, kinds = text.partition("||") if subtask == 3 else (text, "", text)
        kind = f"is a kind of {','.join(kinds.split())}"
        statement = {1: f"means {text}", 2: kind, 3: f"{kind} and means {definition}"}[subtask]
        if pair.id != ELSEWHERE:
            assert marked(pair.left).split() == context.split()
        assert marked(pair.right) == f"[ {target} ] {statement}"
        assert plain.right.text == text


def cosimlex_texts(context: str) -> list[str]:
    bare = context.replace("[", "").replace("]", "")
    tokens = re.findall(r"\w+|[^\w\s]+", bare.replace("<strong>", " [").replace("</strong>", "] "))

    def clean(some: list[str]) -> str:
        return " ".join(some).replace("[", "").replace("]", "").strip()

    places = [place for place in range(len(tokens)) if tokens[place - 1] == "["]
    return [f"{clean(tokens[:place])} [ {tokens[place]} ] {clean(tokens[place + 1 :])}" for place in places]


@pytest.mark.parametrize("language", few(["en", "hr", "sl", "fi"]))
def test_the_texts_of_cosimlex(shared_data: Path, language: str) -> None:
    path = shared_data / "wic" / "CoSimLex" / f"cosimlex_{language}.csv"
    changes = parser_of("cosimlex")({path.name: path}, TARGETS)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    for row, change in zip(rows, changes, strict=True):
        for context, pair in zip(row[2:4], (change.first, change.second), strict=True):
            found = [re.sub(" +", " ", marked(side)) for side in (pair.left, pair.right)]
            assert sorted(found) == sorted(re.sub(" +", " ", text) for text in cosimlex_texts(context))


def test_a_card_is_read_by_protocol(originals: Callable[..., DataStore]) -> None:
    task, store = load_plugins(discover=False).tasks["wic-tsv-2"], originals("wic")
    paper, words, whole = (
        reading.load(store)[1].right.text
        for reading in (task, task.reading("released", of_target=True), task.reading("released"))
    )
    assert paper.startswith("fundus is a kind of structure, anatomical structure, complex body part")
    assert words.startswith("fundus is a kind of structure,anatomical_structure,complex_body_part")
    assert whole == "structure anatomical_structure complex_body_part bodily_structure body_structure"
    assert task.reading("paper", of_target=True) is task
    assert words in task.reading("released", of_target=True).texts(task.reading("released", True).load(store))["dev/2"]
