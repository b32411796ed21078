from __future__ import annotations

from dataclasses import replace

from stored import stored

from mirrorbench.core.plugins import Plugins
from mirrorbench.reports.leaderboard import mixtures, provenance_notes, without_repeats
from mirrorbench.runs.results import Result


def test_results_of_one_experiment_may_stand_together(plugins: Plugins) -> None:
    results = [stored("bert+mirror", task, 0.5, seed) for task in ("stsb", "sts12") for seed in (0, 1)]
    results += [stored("bert+mirror", "xlwic-zh", 0.5, encoder={"weights": "Chinese BERT"})]
    assert mixtures([*results, results[0]], plugins) == []


def test_what_cannot_be_compared_is_named(plugins: Plugins) -> None:
    one = stored("bert+mirror", "stsb", 0.5)
    data = replace(one, data={"version": 2, "files": {}}, cell_id="b")
    released = stored("bert+mirror", "sts12", 0.5, protocol="released")
    model = replace(stored("bert+mirror", "sts12", 0.5), encoder={"weights": "another"})
    recipe = replace(one, cell_id="c")
    assert mixtures([one, data], plugins) == ["stsb: 2 different versions of its data"]
    assert mixtures([one, released], plugins) == ["protocols paper and released"]
    assert mixtures([one, model], plugins) == ["bert+mirror: 2 different models (en)"]
    assert mixtures([one, recipe], plugins) == [
        "bert+mirror on stsb, seed 0: 2 different experiments (recipe, corpus or precision)"
    ]


def tuned_on(corpus: str, seed: int, spec: str = "bert+mirror", task: str = "stsb") -> Result:
    result = stored(spec, task, 0.5, seed)
    return replace(result, cell=result.cell | {"corpus": {"name": corpus, "sha256": f"hash of {corpus}", "n": 10}})


def test_seeds_of_different_corpora_are_no_score(plugins: Plugins) -> None:
    """What `run --corpus a --seeds 3`, then `run --corpus b --seeds 2` leave in one folder."""
    left = [tuned_on("b", 0), tuned_on("b", 1), tuned_on("a", 2)]
    assert mixtures(left, plugins) == [
        "bert+mirror on stsb: its seeds are of 2 different experiments (recipe, corpus or precision)"
    ]
    other_tasks = [tuned_on("b", 0), tuned_on("a", 0, task="simlex999"), tuned_on("a", 0, "roberta+mirror")]
    assert mixtures(other_tasks, plugins) == []
    renamed = replace(left[1], cell=left[1].cell | {"corpus": {"name": "./b", "sha256": "hash of b", "n": 10}})
    assert mixtures([left[0], renamed], plugins) == []


def test_the_number_of_seeds_is_that_of_each_row() -> None:
    rows = [("bert+mirror", 3), ("roberta+mirror", 2), ("bert", 1)]
    results = [stored(spec, task, 0.5, seed) for spec, n in rows for seed in range(n) for task in ("stsb", "sts12")]
    assert "± sample standard deviation over 2 or 3 seeds." in provenance_notes(results)[0]
    assert "seeds" not in provenance_notes(results[-2:])[0]


def test_the_last_of_two_results_of_one_name_stays() -> None:
    old, new = (stored("bert", "stsb", value, cell_id=str(value), created=f"202{value}") for value in (1, 2))
    other = stored("bert", "stsb", 0.5, seed=1)
    assert without_repeats([old, new, other, old]) == [new, other]
    assert without_repeats([new, old]) == [new]


def test_a_line_says_who_made_the_results_and_when() -> None:
    environment = {"mirrorbench": "0.1.0", "packages": {"torch": "2.9"}, "device": "cpu"}
    first = stored("bert", "stsb", 0.5, environment=environment, created="2026-01-02T03:04:05+00:00")
    second = replace(first, created="2026-01-05T00:00:00+00:00", environment={**environment, "device": "cuda"})
    assert "1 result of 2026-01-02: mirrorbench 0.1.0, torch 2.9; cpu." in provenance_notes([first])
    line = "2 results of 2026-01-02 to 2026-01-05: mirrorbench 0.1.0, torch 2.9; cpu, cuda."
    assert line in provenance_notes([first, second])
    assert provenance_notes([]) == []


def test_a_line_says_which_checkout_made_the_results() -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    for git, shown in (
        (commit, "0.1.0 (012345678),"),
        (f"{commit}-dirty", "0.1.0 (012345678-dirty),"),
        (None, "0.1.0,"),
    ):
        environment = {"mirrorbench": "0.1.0", "packages": {"torch": "2.9"}, "device": "cpu", "git": git}
        notes = provenance_notes([stored("bert", "stsb", 0.5, environment=environment)])
        (line,) = (text for text in notes if "result" in text)
        assert f"mirrorbench {shown} torch 2.9" in line


def test_a_row_that_mixes_corpora_is_told_apart() -> None:
    def tuned(task: str, corpus: str) -> Result:
        result = stored("bert+mirror", task, 0.5)
        return replace(result, cell=result.cell | {"corpus": {"name": corpus, "n": 1000}})

    alike = [tuned("stsb", "a"), tuned("sts12", "a"), stored("bert", "stsb", 0.5)]
    assert "Tuned on: a (1,000 strings)." in provenance_notes(alike)
    mixed = [*alike, tuned("simlex999", "b")]
    assert "Tuned on: a (1,000 strings) for stsb, sts12; b (1,000 strings) for simlex999." in provenance_notes(mixed)
    both = [tuned("stsb", "a"), tuned("stsb", "b")]  # no row mixes: these are two
    assert "Tuned on: a (1,000 strings), b (1,000 strings)." in provenance_notes(both)
    many = [*(tuned(f"bli-{n}", "a") for n in range(10)), tuned("simlex999", "b")]
    expected = ", ".join(f"bli-{n}" for n in range(7)) + " and 3 more; b"
    assert any(expected in line for line in provenance_notes(many))


def test_the_share_of_test_items_that_were_tuned_on() -> None:
    def seen(task: str, share: float, seed: int = 0) -> Result:
        return replace(stored("bert", task, 0.5, seed), overlap={"any_text": share, "all_texts": 0.0})

    results = [seen("stsb", 0.1), seen("stsb", 0.16, 1), seen("sickr", 0), stored("bert", "sts12", 0.5)]
    assert "Test items with a text that was tuned on: stsb 16.0%." in provenance_notes(results)
    assert not any("tuned on" in line for line in provenance_notes(results[2:]))
