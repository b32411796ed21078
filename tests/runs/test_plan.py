from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from helpers.random_models import POSITIONS
from helpers.small_plans import Make, bert, make
from helpers.toy_plugin import DOGS, ToyPlugin
from helpers.workspace_parts import parts

from mirrorbench.core.errors import DataUnavailableError, TuningError, UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.corpora import DEFAULT_CORPORA, default_corpus
from mirrorbench.models import backbones, families
from mirrorbench.runs.plan import Planner, merged
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Request
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.tuning_corpora import TuningCorpora
from mirrorbench.runs.workspace import Workspace
from mirrorbench.tasks import PairSimilarity

__all__ = ["bert", "make"]

LOADERS = (
    "models.transformer.load_transformer",
    "models.transformer.read_tokenizer",
    "models.families.read_tokenizer",
    "models.families.read_config",
    "models.families.empty_model",
    "models.families.read_weights",
    "models.sentence_transformer_files.read_tokenizer",
    "models.opening.read_tokenizer",
    "models.opening.described_tokenizer",
    "runs.encoder_loading.EncoderLoader.__init__",
    "runs.encoder_loading.create_encoder",
)
"""What opens models, their tokenizers, or encoder systems."""


def test_mean_baseline_pools_the_same_layers_as_mirror(make: Make) -> None:
    """The rows of a ladder differ in one thing: on sentences, and on words in context, which Mirror reads whole."""
    for tasks in (("quick-sts",), ("quick-wic",), ("quick-sts", "quick-wic")):
        cells = make("tiny", tasks=tasks, corpus="").cells
        read = {
            str(cell.spec): (cell.pooling.mode, cell.pooling.layers)
            for cell in cells
            if cell.pooling
        }
        assert read["tiny+base:layers=:,pooling=mean"] == read["tiny+mirror"] == ("mean", ":")
        assert read.get("tiny+base:layers=-4:,pooling=target") == read.get("tiny+mirrorwic")
        assert len({cell.model.key for cell in cells if str(cell.spec) == "tiny+mirror"}) == 1
    released = make("tiny", tasks=("quick-sts",), corpus="", protocol="released").cells
    padded = {
        str(c.spec): c.pooling.layers
        for c in released
        if c.pooling and c.pooling.mode == "mean-padded"
    }
    assert padded == {
        "tiny+base:pooling=mean-padded": "-1:",
        "tiny+base:layers=:,pooling=mean-padded": ":",
        "tiny+mirror": ":",
    }
    (own,) = make("tiny:pooling=mean", tasks=("quick-sts",), corpus="", protocol="released").cells
    assert own.pooling is not None
    assert own.pooling.mode == "mean"  # as the user wrote it


def test_baseline_unfit_for_small_corpus_fails_alone(make: Make) -> None:
    """Nobody wrote its settings: the other rows go on. What was written is refused."""
    plan = make("tiny", baselines=True)
    assert {str(failure.spec) for failure in plan.failures} == {
        "tiny+base:abtt=3,layers=:,pooling=mean,post=abtt"
    }
    assert {"tiny+mirror", "tiny+static:layers=:", "tiny+mirror:post=whiten"} <= {
        str(c.spec) for c in plan.cells
    }
    for spec in (
        "toy",
        "tiny+mirror",
        "tiny:pooling=cls",
        "tiny:post=center",
    ):  # no ladder, or a transformed one
        assert set(make("tiny", spec, baselines=True).rows) == {*plan.rows, *make(spec).rows}
    with pytest.raises(UsageError, match="abtt=3 cannot be fitted on 3 texts"):
        make("tiny", "tiny+base:post=abtt,abtt=3", baselines=True)
    with pytest.raises(UsageError, match="none is among the encoders"):
        make("tiny:post=center", "toy", baselines=True)


def test_cells_are_ordered_and_grouped_by_weights(make: Make, bert: str) -> None:
    plan = make(bert, "toy", tasks=("dogs", "cats"), seeds=(0, 1))
    found = [(str(cell.spec).removeprefix(bert), cell.task, cell.seed) for cell in plan.cells]
    assert found == [
        ("+base:pooling=cls", "dogs", 0),
        ("+base:pooling=cls", "cats", 0),
        ("+base:pooling=mean", "dogs", 0),
        ("+base:pooling=mean", "cats", 0),
        ("+mirror", "dogs", 0),
        ("+mirror", "dogs", 1),
        ("+mirror", "cats", 0),
        ("+mirror", "cats", 1),
        ("toy", "dogs", 0),
        ("toy", "cats", 0),
    ]
    assert list(map(str, plan.rows)) == list(dict.fromkeys(str(cell.spec) for cell in plan.cells))
    assert plan.cells == make(bert, "toy", tasks=("dogs", "cats"), seeds=(0, 1)).cells
    groups = [
        {(cell.model.method or "toy", cell.seed) for cell in cells}
        for cells in plan.groups.values()
    ]
    assert groups == [{("base", 0)}, {("mirror", 0)}, {("mirror", 1)}, {("toy", 0)}]
    assert [len(cells) for cells in plan.groups.values()] == [4, 2, 2, 2]


def test_tasks_may_raise_the_maximum_length(
    make: Make, registered: Plugins, random_model: Callable[[str], Path]
) -> None:
    for length in (70, 300):
        task = PairSimilarity(f"wants{length}", DOGS)
        task.max_length = length
        registered.add(ToyPlugin(tasks=[task]), f"more{length}")
    for keys, expected in (("", (64, 70, POSITIONS)), (":max_length=30", (30, 30, 30))):
        cells = make(
            f"{random_model('roberta')}+base{keys}", tasks=("cats", "wants70", "wants300")
        ).cells
        assert tuple(cell.pooling.max_length for cell in cells if cell.pooling) == expected


def test_untuned_task_alone_plans_only_base_row(make: Make, registered: Plugins) -> None:
    task = PairSimilarity("own", DOGS)
    task.untuned = True
    registered.add(ToyPlugin(tasks=[task]), "more")
    rows = ("tiny", "tiny+base:pooling=cls", "nobody/nothing")
    assert list(map(str, make(*rows, tasks=("own",)).rows)) == [
        "tiny+base",
        rows[1],
        "nobody/nothing+base:pooling=cls",
    ]
    assert {"own"} < {
        cell.task
        for cell in make("tiny", tasks=("own", "cats")).cells
        if cell.spec.method == "mirror"
    }


def test_default_corpus_follows_level_language_and_protocol() -> None:
    cards = builtin_cards()
    for (level, language), name in DEFAULT_CORPORA.items():
        assert default_corpus(level, [language], "paper") == name
        assert name not in cards or (
            language in cards[name].languages and cards[name].level == level
        )
    assert default_corpus("wic", ["en"], "paper") == "wic-sentences"
    assert default_corpus("wic", ["en"], "released") == "wic-sentences-20k"
    assert default_corpus("wic", ["zh"], "released") == "wiki-sentences-zh"
    with pytest.raises(TuningError, match="no default corpus of words in 'sw' to tune on"):
        default_corpus("word", ["en", "sw"], "paper")
    words = {card.languages[0] for name, card in cards.items() if name.startswith("words-")}
    assert {language for level, language in DEFAULT_CORPORA if level == "word"} == words


def test_crosslingual_task_tunes_on_words_of_both_languages(
    make: Make, registered: Plugins, bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mirror-BERT, section 3: "the top 10k most frequent words in each language"; one tuning a pair."""
    words = {"en": "the\nradio\n", "fr": "le\nradio\n", "ar": "al\n"}
    for code, text in words.items():
        (tmp_path / f"{code}.txt").write_text(text)
        monkeypatch.setitem(DEFAULT_CORPORA, ("word", code), str(tmp_path / f"{code}.txt"))
    pairs = [("en", "fr"), ("fr", "en"), ("fr", "ar"), ("ar", "en"), ("en",), ("fr",), ("en", "cy")]
    tasks = [PairSimilarity("-".join(pair), DOGS, level="word", languages=pair) for pair in pairs]
    registered.add(ToyPlugin(tasks=tasks), "pairs")
    plan = make(f"{bert}+mirror", tasks=tuple(task.name for task in tasks), corpus="")
    texts = {
        cell.task: plan.corpora[cell.model.corpus].texts for cell in plan.cells if cell.model.corpus
    }
    assert texts == {
        "en-fr": ("the", "radio", "le"),
        "fr-en": ("the", "radio", "le"),
        "fr-ar": ("al", "le", "radio"),
        "ar-en": ("the", "radio", "al"),
        "en": ("the", "radio"),
        "fr": ("le", "radio"),
    }
    named = {cell.task: cell.model.corpus.name for cell in plan.cells if cell.model.corpus}
    assert named["en-fr"] == f"{tmp_path}/en.txt+{tmp_path}/fr.txt"
    assert len({cell.model.key for cell in plan.cells}) == 5
    assert [(failure.task, failure.reason) for failure in plan.failures] == [
        ("en-cy", "there is no default corpus of words in 'cy' to tune on")
    ]


def test_corpus_is_deduplicated_except_under_released_protocol(make: Make, bert: str) -> None:
    plan = make(f"{bert}+mirror", f"{bert}+mirror:corpus_size=2", tasks=("cats", "dogs"))
    assert sorted(found.texts for found in plan.corpora.values()) == [
        ("one", "two"),
        ("one", "two", "three"),
    ]
    assert {ref.n for ref in plan.corpora} == {2, 3}
    released = make(f"{bert}+mirror", protocol="released")
    assert [found.texts for found in released.corpora.values()] == [("one", "two", "three", "two")]


def test_unavailable_encoders_and_tasks_fail_alone(make: Make, registered: Plugins) -> None:
    lost = DataUnavailableError("it is gone", "look elsewhere")
    bug = ZeroDivisionError("a bug of a plugin")
    tasks = [
        PairSimilarity(name, Mock(side_effect=error))
        for name, error in (("lost", lost), ("broken", bug))
    ]
    encoders = {
        "nothing": "not an encoder",
        "unopened": Mock(side_effect=ZeroDivisionError("no weights")),
    }
    registered.add(ToyPlugin(encoders, tasks), "more")
    plan = make("toy", "./nowhere+base", tasks=("lost", "cats", "broken"))
    assert [(str(cell.spec), cell.task) for cell in plan.cells] == [("toy", "cats")]
    found = [(str(failure.spec), failure.task, failure.reason) for failure in plan.failures]
    assert found[:2] == [
        ("toy", "lost", "it is gone"),
        ("toy", "broken", "ZeroDivisionError: a bug of a plugin"),
    ]
    assert [(spec, task) for spec, task, _ in found[2:]] == [
        ("./nowhere+base", t) for t in ("lost", "cats", "broken")
    ]
    assert "./nowhere: there is no such directory" in found[3][2]
    assert plan.failures[0].hint == "look elsewhere"
    plan = make("nothing", "toy", "unopened")
    assert [str(cell.spec) for cell in plan.cells] == ["toy"]
    assert [failure.reason.partition(" (")[0] for failure in plan.failures] == [
        "the encoder 'nothing' of more",
        "ZeroDivisionError: no weights",
    ]


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("+mirror:temprature=1", "unknown encoder spec key 'temprature'"),
        ("+mirror:corpus_size=7", "has 3 distinct strings"),
        ("+mirror:corpus_sample=-1", "corpus_sample must be a non-negative integer, not -1"),
        ("+mirror:corpus_sample=1", "sample of 10000 strings cannot be drawn from the 3"),
        ("+base:lr=1", "unknown key of [+]base 'lr'"),
    ],
)
def test_usage_errors_stop_the_plan(make: Make, bert: str, encoder: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make(bert + encoder)


def test_invalid_requests_are_rejected() -> None:
    with pytest.raises(UnknownNameError, match="unknown protocol 'papers'"):
        Request((parse_spec("toy"),), (), protocol="papers")
    for encoders, seeds in (((), (0,)), ((parse_spec("toy"),), ())):
        with pytest.raises(UsageError, match="at least one encoder and one seed"):
            Request(encoders, (), seeds)


def test_tuning_and_evaluation_precisions_are_independent(make: Make, bert: str) -> None:
    """Evaluation is in fp32 unless said otherwise, also of what was tuned in half precision."""
    for tuning, encoding in (("bf16", ""), ("", "fp16"), ("fp16", "bf16")):
        asked = {"precision": tuning, "eval_precision": encoding}
        cell = make(
            f"{bert}+mirror", **{name: value for name, value in asked.items() if value}
        ).cells[0]
        assert cell.to_json()["precision"] == {
            "tuning": tuning or "fp32",
            "encoding": encoding or "fp32",
        }
    (base,) = make(f"{bert}+base", precision="bf16").cells
    assert base == make(f"{bert}+base").cells[0]  # nothing is tuned
    plans = [
        make(f"{bert}+base", tasks=("cats",)),
        make(f"{bert}+base", tasks=("dogs",), eval_precision="bf16"),
    ]
    with pytest.raises(UsageError, match="blocks are evaluated in bf16 and fp32"):
        merged(plans)


def test_user_settings_override_backbone_and_level_presets(
    make: Make, registered: Plugins, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered.add(ToyPlugin(tasks=[PairSimilarity("words", DOGS, level="word")]), "words")
    cells = make(f"{bert}+mirror", tasks=("cats", "words")).cells
    temperatures = {cell.task: cell.model.recipe.temperature for cell in cells}  # type: ignore[union-attr]
    assert temperatures == {"cats": 0.04, "words": 0.2}
    monkeypatch.setattr(
        backbones.Backbone, "preset", lambda self, method, level: {"lr": 0.5, "epochs": 7}
    )
    (cell,) = make(f"{bert}+mirror:epochs=9,max_length=30,layers=-2:").cells
    recipe = cell.model.recipe
    assert recipe is not None
    assert (recipe.lr, recipe.epochs, recipe.temperature) == (0.5, 9, 0.04)
    assert cell.pooling is not None
    assert (cell.pooling.max_length, cell.pooling.layers, cell.pooling.mode) == (30, "-2:", "mean")
    # A preset tunes on no longer texts than the model can take.
    monkeypatch.setattr("mirrorbench.runs.recipe_resolution.positions_of", lambda path: 20)
    recipes = [
        make(spec).cells[0].model.recipe
        for spec in (f"{bert}+mirror", f"{bert}+mirror:train_max_length=40")
    ]
    assert [recipe and recipe.train_max_length for recipe in recipes] == [20, 40]


def test_planning_opens_no_model_file_or_tokenizer(
    registered: Plugins, random_model: Callable[[str], Path], tmp_path: Path
) -> None:
    """The plan is made from what the examination found, with loaders that raise; so are those of systems and posts."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"line number {n}\n" for n in range(30)))
    causal = random_model("qwen3")
    encoders = (
        "toy",
        str(causal),
        f"{causal}+mirror:post=whiten,whiten=4",
        "tiny+static",
        "minilm",
    )
    request = Request(
        tuple(map(parse_spec, encoders)), ("cats", "dogs"), corpus=str(corpus), seeds=(0, 1)
    )
    settings = Settings(
        data_dir=tmp_path / "data", cache=tmp_path / "cache", device="cpu", offline=True
    )
    maker = PlanMaker(*parts(Workspace(settings, registered)))
    tasks = [registered.tasks[name] for name in request.tasks]
    expected = maker.plan(request)
    examined = maker.examiner.examine(request, tasks)

    def loader(*args: Any, **options: Any) -> Any:
        raise AssertionError("a model is opened")

    families._measured_positions.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        for function in LOADERS:
            patch.setattr(f"mirrorbench.{function}", loader)
        planner = Planner(
            registered,
            maker.planner.data,
            TuningCorpora(registered, maker.planner.data, print),
            maker.planner.compute,
            note=print,
        )
        plan = planner.plan(request, tasks, examined)
        unexamined = PlanMaker(*parts(Workspace(settings, registered))).plan(request)
    assert plan == expected
    assert len({cell.spec for cell in plan.cells}) == 8
    assert not plan.failures
    assert {"a model is opened" in failure.reason for failure in unexamined.failures} == {True}
