"""Every field of a stored result, changed to what it cannot be: the result is read, or refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.runs.results import read_result

BEFORE = Path(__file__).parents[1] / "runs" / "stored_before"
ONE = Path("results", "tiny+mirror", "quick-sts", "seed-0.json")
VALUES: tuple[str, ...] = ("null", '"x"', "[]", "{}", "-1", "1e400", "1" + 400 * "0")
LEADERBOARD, COMPARE = "leaderboard results", "compare tiny+mirror tiny+base:pooling=mean -r results"
DRY_RUN = "run -e tiny+mirror -t quick-sts --seeds 1 --dry-run --offline --device cpu -o results"
STATE = {"measures": {"accuracy@1": 0.9}, "gained": 0, "lost": 0, "nearest": [1]}
HELD_OUT = {"n": 50, "kept": 1, "states": [{"share": 0.0, **STATE}, {"share": 1.0, **STATE}]}


@pytest.fixture
def result(folder: Path) -> dict[str, Any]:
    """The document of ``ONE``, with the fields that were added since."""
    shutil.copytree(BEFORE, folder / "results")
    document: dict[str, Any] = json.loads(ONE.read_text())
    document["cell"] |= {"computation": COMPUTATION, "post": None}
    document["cost"]["tuning"]["from_cache"] = True
    return document | {"held_out": HELD_OUT, "notes": ["a note"]}


def fields(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from fields(item, (*path, key))


def changed(document: Any, path: tuple[str | int, ...], value: str) -> str:
    """The document as JSON with the text of a value in place of that at a path."""
    found = json.loads(json.dumps(document))
    holder = found
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = "the place"
    return json.dumps(found).replace('"the place"', value)


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
def test_any_field_of_any_type(mirrorbench: Callable, result: dict[str, Any], step: int) -> None:
    """What is refused is refused by name; with what is read, all commands do their work."""
    read, refused = 0, []
    for path in list(fields(result))[::step]:
        for value in VALUES:
            ONE.write_text(changed(result, path, value))
            try:
                read_result(ONE)
            except DataFormatError as error:
                refused.append(error.message)
                continue
            read += 1
            for command in (LEADERBOARD, COMPARE, DRY_RUN):
                assert mirrorbench(*command.split()).code in (0, 1, 2), (path, value)  # an exception is a traceback
    assert all(message.startswith(f"{ONE} ") for message in refused)
    assert len(refused) > read > 10


def test_a_damaged_one_ends_a_table_and_a_run_computes_it_again(mirrorbench: Callable, result: dict[str, Any]) -> None:
    ONE.write_text(json.dumps(result))
    mirrorbench(*LEADERBOARD.split()).assert_works()
    ONE.write_text(changed(result, ("cell", "corpus", "n"), '"x"'))
    mirrorbench(*LEADERBOARD.split()).assert_fails(1, str(ONE), out="")
    mirrorbench(*COMPARE.split()).assert_fails(1, str(ONE), out="")
    mirrorbench(*DRY_RUN.split()).assert_works("to do")


def test_what_cannot_be_true_is_damaged(result: dict[str, Any]) -> None:
    ONE.write_text(json.dumps(result))
    assert read_result(ONE).main_score == result["metrics"]["spearman"]
    for path, value in (
        ("main_score", "0.9"), ("main_score", "null"), ("main_metric", '"foo"'), ("main_metric", '"pearson"'),
        ("metrics.spearman", "0.9"), ("n_items", "-1"), ("coverage", "-4"), ("coverage", "1.01"),
        ("overlap.any_text", "7"), ("overlap.any_text", '"x"'), ("overlap.all_texts", "-0.1"),
        ("cell.computation", "-1"), ("cell.computation", "1" + 400 * "0"), ("cell.seed", "-1"),
        ("cell.corpus.n", "0"), ("cell.recipe.epochs", "0"), ("cell.recipe.epochs", '"x"'), ("seconds.encode", "-1"),
        ("seconds.train", '"x"'), ("encoder.parameters", "-5"), ("encoder.fingerprint", "[]"), ("cell.spec", '"+:="'),
        ("created", '"x"'), ("environment.packages", '"x"'), ("cost.tuning", '"x"'), ("held_out.states", '"x"'),
    ):  # fmt: skip
        ONE.write_text(changed(result, tuple(path.split(".")), value))
        with pytest.raises(DataFormatError, match="is not a result file"):
            read_result(ONE)
    for later in ("computation", "level", "method", "post"):  # which earlier versions did not write
        del result["cell"][later]
    ONE.write_text(json.dumps({key: result[key] for key in result.keys() - {"held_out", "overlap", "cost", "notes"}}))
    assert read_result(ONE).by_kept_model is False
