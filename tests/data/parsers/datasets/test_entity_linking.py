"""The parsers of biomedical entity linking."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.format_samples import SAMPLES
from helpers.parsed_files import read_sample, run

from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.items import Linking
from mirrorbench.data.store import DataStore


def simple(
    linking: Linking,
) -> tuple[list[tuple[str, tuple[str, ...], set[str]]], list[tuple[str, set[str]]]]:
    mentions = [(mention.id, mention.parts, set(mention.gold)) for mention in linking.mentions]
    return mentions, [
        (name, set(ids)) for name, ids in zip(linking.names, linking.ids, strict=True)
    ]


def test_biosyn_archive_is_read_without_unpacking(tmp_path: Path) -> None:
    files = SAMPLES["biosyn"].files
    more = {
        "x/processed_test/10.concept": b"10||1|2||X||linked muscular dystrophy||D040181+D009136\n",
        "x/processed_dev/7.concept": b"7||1|2||Modifier||of another part||D1\n",
        "x/test_dictionary.txt": b"C567755|613097||Tooth agenesis\nC1||D2||a name\n",
        "x/dev_dictionary.txt": b"D1||of another part\n",
    }
    (linking,) = read_sample(
        "biosyn", tmp_path, {name: files.get(name, b"") + new for name, new in more.items()}
    )
    assert simple(linking) == (
        [
            ("10/1", ("colorectal", "breast cancers"), {"D001943", "D015179"}),
            ("10/2", ("linked muscular dystrophy",), {"D040181", "D009136"}),
            ("9/1", ("ataxia",), {"D001260"}),
        ],
        [
            ("ataxia", {"D001260"}),
            ("muscular dystrophy", {"D040181", "D009136"}),
            ("tooth agenesis", {"C567755", "613097"}),
            ("a name", {"C1", "D2"}),
        ],
    )
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


def test_askapatient_fold_labels_form_its_dictionary(tmp_path: Path) -> None:
    files = {
        name.replace("fold-0", "fold-3"): content
        for name, content in SAMPLES["askapatient"].files.items()
    }
    (linking,) = run("askapatient", tmp_path, files)
    assert linking.fold == "fold-3"
    assert simple(linking) == (
        [("3/1", ("my ache",), {"2"}), ("3/2", ("c+c|x",), {"1"})],
        [("knödel", {"1"}), ("pain", {"2"})],
    )


def test_cometa_mentions_are_verbatim_with_general_ids(tmp_path: Path) -> None:
    """Invented lines in the format of the original, which must not be passed on."""
    (linking,) = read_sample("cometa", tmp_path, {})
    assert simple(linking) == (
        [("2", ('Brain "fog',), {"386806002"}), ("3", ("null",), {"22253000"})],
        [("pain", {"22253000"}), ("impaired cognition", {"386806002"})],
    )


def test_rescnn_dictionary_holds_names_and_tuning_mentions(tmp_path: Path) -> None:
    mentions = {
        "train": [["acid", "D1"], ["a|b", "D1|D2"]],
        "dev": [["acid", "D1"]],
        "test": [["x|y", "D1|D2"]],
    }
    (linking,) = read_sample("rescnn", tmp_path, {"data.json": json.dumps(mentions).encode()})
    assert simple(linking) == (
        [("1", ("x", "y"), {"D1", "D2"})],
        [("acids acyclic", {"D1"}), ("acid", {"D1"})],
    )


@pytest.fixture
def real_store(originals: Callable[..., DataStore]) -> DataStore:
    return originals("bel")


@pytest.mark.slow
def test_original_linking_files_have_published_sizes(real_store: DataStore) -> None:
    (linking,) = real_store.items(builtin_cards()["ncbi-disease"])
    assert (len(linking.mentions), len(linking.names)) == (960, 73_024)
    assert sum(len(mention.parts) > 1 for mention in linking.mentions) == 8
    known = frozenset[str]().union(*linking.ids)
    assert all(mention.gold & known for mention in linking.mentions)
    folds = real_store.items(builtin_cards()["askapatient"])
    assert [len(fold.mentions) for fold in folds] == [867] * 2 + [866] * 8
    # Fold 6 has one term in two spellings that differ in case alone.
    assert [len(fold.names) for fold in folds] == [
        1036,
        1036,
        1036,
        1040,
        1036,
        1037,
        1036,
        1037,
        1037,
        1036,
    ]
    assert all(len(frozenset[str]().union(*fold.ids)) == 1036 for fold in folds)


def test_bc5cdr_substitute_equals_an_independent_derivation(
    real_store: DataStore, shared_data: Path
) -> None:
    path = shared_data / "bel" / "bc5cdr-chemical" / "SUBSTITUTE_dictionary.txt"
    wanted = {tuple(line.rsplit("||", 1)) for line in path.read_text(encoding="utf-8").splitlines()}
    (linking,) = real_store.items(builtin_cards()["bc5cdr-chemical-sub"])
    assert {
        ("|".join(ids), name) for ids, name in zip(linking.ids, linking.names, strict=True)
    } == wanted
