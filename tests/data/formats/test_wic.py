"""WiC and WiC-TSV, on the real files and on made-up ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import on_disk

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats.contexts import parse_wic, parse_wic_tsv
from mirrorbench.data.store import DataStore
from mirrorbench.tasks import WordInContext

WIC = {
    "dev.data.txt": "board\tN\t2-0\tRoom and board .\tboards x\nrun\tV\t0-1\trun !\tto run\n",
    "dev.gold.txt": "F\nT\n",
}
TSV = {
    "dev_examples.txt": "zero\t1\tis zero\nfoot\t0\tFoot of hill\n",
    "dev_definitions.txt": "a digit\nthe lower part\n",
    "dev_hypernyms.txt": "digit\tnatural_number\n\n",
    "dev_labels.txt": "T\nF\n",
}


def targets(item: TextInput) -> list[str]:
    return [item.text[start:end] for start, end in item.spans]


def test_wic(tmp_path: Path) -> None:
    first, second = parse_wic(on_disk(tmp_path, WIC), {})
    assert (first.id, first.label, first.split) == ("dev/1", 0, "dev")
    assert (first.left.text, targets(first.left), targets(first.right)) == ("Room and board .", ["board"], ["boards"])
    assert (second.id, second.label, targets(second.left), targets(second.right)) == ("dev/2", 1, ["run"], ["run"])


def test_wic_without_gold(tmp_path: Path) -> None:
    files = on_disk(tmp_path, {"test.data.txt": WIC["dev.data.txt"]})
    assert [(p.label, p.split) for p in parse_wic(files, {})] == [(None, "test")] * 2


@pytest.mark.parametrize(
    ("subtask", "statements"),
    [
        (1, ["zero means a digit", "Foot means the lower part"]),
        (2, ["zero is a kind of digit, natural number", "Foot is a kind of"]),
        (3, ["zero is a kind of digit, natural number and means a digit", "Foot means the lower part"]),
    ],
)
def test_wic_tsv(tmp_path: Path, subtask: int, statements: list[str]) -> None:
    pairs = parse_wic_tsv(on_disk(tmp_path, TSV), {"subtask": subtask})
    assert [p.right.text for p in pairs] == statements
    assert [targets(p.left) for p in pairs] == [targets(p.right) for p in pairs] == [["zero"], ["Foot"]]
    assert [p.label for p in pairs] == [1, 0]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("dev.data.txt", "a\tN\t0-0\tb\n", "line 1: 4 columns instead of 5"),
        ("dev.data.txt", "a\tN\t0\tb\tc\nrun\tV\t0-1\trun !\tto run\n", "line 1: '0' is not of the form i-j"),
        ("dev.data.txt", "a\tN\t0-0\tb\tc\nrun\tV\t0-2\trun !\tto run\n", "line 2: there is no word 2"),
        ("dev.data.txt", "a\tN\t-1-0\tb\tc\nrun\tV\t0-1\trun !\tto run\n", "not of the form i-j"),
        ("dev.data.txt", "a\tN\t1-0\tb  c\tc\nrun\tV\t0-1\trun !\tto run\n", "line 1: there is no word 1"),
        ("dev.gold.txt", "F\n", "1 lines instead of 2"),
        ("dev.gold.txt", "F\ntrue\n", "line 2: the label 'true' is none of T, F"),
    ],
)
def test_wic_that_does_not_follow_its_format(tmp_path: Path, name: str, text: str, what: str) -> None:
    with pytest.raises(DataFormatError, match=what):
        parse_wic(on_disk(tmp_path, {**WIC, name: text}), {})


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("dev_examples.txt", "zero\tis zero\n", "line 1: 2 columns instead of 3"),
        ("dev_examples.txt", "zero\t7\tis zero\nfoot\t0\tFoot\n", "line 1: there is no word 7"),
        ("dev_definitions.txt", "a digit\n", "1 lines instead of 2"),
        ("dev_definitions.txt", "a digit\n \n", "line 2: an empty line"),
        ("dev_labels.txt", "T\n\n", "line 2: the label '' is none of T, F"),
    ],
)
def test_wic_tsv_that_does_not_follow_its_format(tmp_path: Path, name: str, text: str, what: str) -> None:
    with pytest.raises(DataFormatError, match=what):
        parse_wic_tsv(on_disk(tmp_path, {**TSV, name: text}), {"subtask": 3})


def test_wrong_files_and_options(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="subtask 4"):
        parse_wic_tsv(on_disk(tmp_path, TSV), {"subtask": 4})
    with pytest.raises(DataFormatError, match="name does not follow"):
        parse_wic(on_disk(tmp_path, {"valid.data.txt": ""}), {})
    with pytest.raises(DataFormatError, match=r"files of dev .* lack data"):
        parse_wic({"dev.gold.txt": tmp_path / "dev.gold.txt"}, {})


def test_the_real_wic(shared_data: Path) -> None:
    files = {path.name: path for path in sorted((shared_data / "wic" / "WiC").glob("*.*.txt"))}
    pairs = parse_wic(files, {})
    sizes = {split: sum(p.split == split for p in pairs) for split in ("train", "dev", "test")}
    assert sizes == {"train": 5428, "dev": 638, "test": 1400}
    for split in ("train", "dev"):
        assert sum(p.label for p in pairs if p.split == split and p.label is not None) == sizes[split] / 2
    assert all(" " not in word for p in pairs for side in (p.left, p.right) for word in targets(side))
    WordInContext("wic", pairs).load(DataStore(Path("nowhere"), offline=True))


def test_the_real_wic_tsv(shared_data: Path) -> None:
    files = {path.name: path for path in sorted((shared_data / "wic" / "WiC-TSV" / "en").glob("*/*_*.txt"))}
    del files["test_domains.txt"]
    pairs = parse_wic_tsv(files, {"subtask": 3})
    assert {s: sum(p.split == s for p in pairs) for s in ("train", "dev", "test")} == {
        "train": 2828, "dev": 389, "test": 1306,
    }  # fmt: skip
    written = [line.split("\t")[0] for line in files["dev_examples.txt"].read_text(encoding="utf-8").split("\n")[:-1]]
    dev = [p for p in pairs if p.split == "dev"]
    assert [targets(p.left)[0].lower() for p in dev] == [word.lower() for word in written]
    assert sum(p.label == 1 for p in dev) == 198
