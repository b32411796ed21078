"""Every family of models: each cell works, or is refused by one message that names a spec that works.

The matrix is on the page docs/backbones.md; ``PYTHONPATH=tests python tests/models/test_families.py`` makes it anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import numpy as np
import pytest
import torch
from helpers.random_further_models import FURTHER, build_further
from helpers.random_models import FAMILIES, Models, build
from helpers.suite_marks import few
from helpers.workspace_parts import parts
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

import mirrorbench
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError, UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.items import RatedContexts
from mirrorbench.models.backbones import ADAPTER
from mirrorbench.models.traits import traits_of
from mirrorbench.models.transformer import load_transformer
from mirrorbench.runs.ladder import expand_ladder
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.registry import plugins
from mirrorbench.tasks import UsageSimilarity
from mirrorbench.training.augmentations import Dropout

PAGE = Path(__file__).parents[2] / "docs" / "backbones.md"
CPU = torch.device("cpu")
NAMES = {
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen3": "Qwen3",
    "gemma3": "Gemma3",
    "gemma3-vision": "Gemma3 with vision",
    "gpt2": "GPT-2",
    "mamba": "Mamba",
    "eurobert": "EuroBERT",
    "bart": "BART (encoder)",
    "t5": "T5 (encoder)",
    "t5gemma": "T5Gemma (encoder)",
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm-r": "XLM-R",
    "distilbert": "DistilBERT",
    "electra": "ELECTRA",
    "deberta": "DeBERTa",
    "deberta-v2": "DeBERTa-v2/v3",
    "albert": "ALBERT",
    "mpnet": "MPNet",
    "modernbert": "ModernBERT",
    "nomic": "NomicBERT",
    "xlnet": "XLNet",
}
BASES = ("cls", "mean", "mean-padded", "last", "weighted-mean", "target")
SOME = ("+base:pooling=cls", "+base:pooling=mean", "+mirror", "+mirrorwic")
"""What the further types are read and tuned by."""
TUNED = ("+mirror", "+mirrorwic", "+mirror:attention=bidirectional", "+mirror:lora=4")
ALL = (*(f"+base:pooling={mode}" for mode in BASES), *TUNED)
COLUMNS = {way: f"`{way.removeprefix('+base:')}`" for way in (ALL[0], *TUNED)}
"""What has a column of the matrix; all families are read by the other poolings."""
MEASURED = re.compile(r"mirrorbench run -e (\S+) --corpus FILE$")
FIRST = "| families |"
NEXT = "## Tokens"
PADS = "These types read padding:"
OTHERS = "Types that `nox -s full` builds and tests:"
READ_PADDING = (
    "big_bird",
    "bigbird_pegasus",
    "convbert",
    "cpmant",
    "fnet",
    "nystromformer",
    "phi3",
    "yoso",
)
TEXTS = [
    "acat",
    "twodogsrunoverthehill",
    "x",
    "quickzebras",
]  # sentence-transformers has words of spaces
LINES = [
    f"line {n} of a small corpus, about {word}"
    for n in range(3)
    for word in ("cats", "dogs", "letters")
]


def vectors(spec: str, folder: Path) -> np.ndarray:
    """Encode by an untuned row, or by a tuned directory, on which both libraries agree."""
    if "+base" in spec:
        return mirrorbench.load(spec, device="cpu").encode(TEXTS)
    level = "wic" if "mirrorwic" in spec else "sentence"
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", level=level, force=True)
    actual = mirrorbench.load(folder, device="cpu").encode(TEXTS)
    assert (folder / ADAPTER).exists() == ("lora" in spec)
    assert AutoTokenizer.from_pretrained(folder).pad_token is not None
    pads = "batch_size=1" in (folder / "README.md").read_text(encoding="utf-8")
    theirs = SentenceTransformer(str(folder), device="cpu").encode(
        TEXTS, batch_size=1 if pads else len(TEXTS)
    )
    np.testing.assert_allclose(theirs, actual, atol=1e-5)
    return actual


def cell(path: Path, rest: str, folder: Path, working: set[str]) -> str:
    """Return ``yes``, or the message of the refusal after a check of the spec that it names."""
    try:
        actual = vectors(f"{path}{rest}", folder)
        working.add(f"{path}{rest}")
        answer = "yes"
    except MirrorbenchError as error:
        answer = f"{error.message}. {error.hint}".replace(str(path), "MODEL")
        measured = MEASURED.search(error.hint)
        if measured:
            runs(measured[1], folder)
            return answer
        (spec,) = re.findall(r"^Write (\S+)$", error.hint)
        if spec in working:
            return answer
        try:
            actual = vectors(spec, folder)
        except UsageError as another:  # what is wrong with the model is said before what is wrong with its directory
            runs(MEASURED.findall(another.hint)[0], folder)
            return answer
    assert min(np.abs(left - right).max() for left, right in combinations(actual, 2)) > 1e-3, (
        "constant vectors"
    )
    return answer


def runs(spec: str, folder: Path) -> None:
    """Tune on the lines of a file and score, without a directory of the encoder."""
    texts = folder.with_name("lines.txt")
    texts.write_text("\n".join(LINES), encoding="utf-8")
    session = mirrorbench.Session(
        folder.with_name("results"), cache=folder.with_name("cache"), device="cpu"
    )
    done = session.run([spec], ["quick-sts"], corpus=str(texts), limit=20)
    assert [result.main_score is not None for result in done.results] == [True]
    assert not folder.exists()


def row(path: Path, folder: Path, ways: Sequence[str] = ALL) -> list[str]:
    working: set[str] = set()
    return [cell(path, way, folder, working) for way in ways]


@pytest.mark.full
@pytest.mark.parametrize("model_type", FURTHER)
def test_further_model_type_works_or_is_refused(tmp_path: Path, model_type: str) -> None:
    path = tmp_path / model_type
    build_further(model_type, path)
    traits = traits_of(load_transformer(path, CPU))
    text = PAGE.read_text(encoding="utf-8")
    assert (f"`{model_type}`" in text.split(PADS)[1].split("\n\n")[0]) == traits.pads
    if not traits.varies:
        with pytest.raises(ModelUnavailableError, match="returns the same vector for every text"):
            mirrorbench.load(f"{path}+base", device="cpu")
        return
    row(path, tmp_path / "tuned", SOME)


def test_page_lists_all_model_types() -> None:
    assert set(NAMES) == set(FAMILIES)
    named = re.findall(
        r"`([a-z0-9_-]+)`", PAGE.read_text(encoding="utf-8").split(OTHERS)[1].split("\n\n")[0]
    )
    assert named == list(FURTHER)


def in_columns(cells: Sequence[str]) -> list[str]:
    """The cells that the matrix shows; the others must work."""
    found = dict(zip(ALL, cells, strict=True))
    assert {said for way, said in found.items() if way not in COLUMNS} == {"yes"}
    return [found[way] for way in COLUMNS]


def page(rows: dict[str, list[str]]) -> str:
    """Return the page with a new matrix, and the messages and types below it."""
    text = PAGE.read_text(encoding="utf-8")
    rows = {name: in_columns(cells) for name, cells in rows.items()}
    messages = dict.fromkeys(
        answer for cells in rows.values() for answer in cells if answer != "yes"
    )
    numbers = {message: number for number, message in enumerate(messages, start=1)}
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, cells in rows.items():
        shown = tuple("yes" if answer == "yes" else f"{numbers[answer]}" for answer in cells)
        alike.setdefault(shown, []).append(NAMES[name])
    lines = [
        f"{text.split(FIRST)[0]}{FIRST} {' | '.join(COLUMNS.values())} |",
        "|" + "---|" * (len(COLUMNS) + 1),
    ]
    lines += [f"| {', '.join(names)} | {' | '.join(stated)} |" for stated, names in alike.items()]
    lines += ["", *(f"{number}. {message}" for message, number in numbers.items()), ""]
    lines.append(f"{NEXT}{text.split(NEXT)[1].split(PADS)[0]}".rstrip())
    for title, names in ((PADS, READ_PADDING), (OTHERS, FURTHER)):
        list_of_names = ", ".join(f"`{name}`" for name in names)
        lines += ["", fill(f"{title} {list_of_names}.", 120, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("architecture", few(NAMES, "qwen3", "bart"))
def test_family_results_match_the_documented_matrix(
    random_model: Models, tmp_path: Path, architecture: str
) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    documented_cells = []
    for line in lines:
        families, *cells_of_line = line.split(" | ")
        if NAMES[architecture] in families.removeprefix("| ").split(", "):
            documented_cells = cells_of_line
    cells = in_columns(row(random_model(architecture), tmp_path / "tuned"))
    for answer, documented in zip(cells, documented_cells, strict=True):
        expected = documented.strip(" |")
        if expected != "yes":  # the number of a message below the table
            prefix = f"{expected}. "
            (expected,) = (line.removeprefix(prefix) for line in lines if line.startswith(prefix))
        assert answer == expected


def test_causal_ladder_starts_with_last_token_pooling(random_model: Models) -> None:
    path = random_model("qwen3")
    maker = PlanMaker(*parts(mirrorbench.Session(device="cpu").workspace))
    rows = expand_ladder(
        parse_spec(str(path)), "sentence", maker.plugins, files=maker.examiner.files
    )
    assert [str(row).removeprefix(str(path)) for row in rows] == [
        "+base:pooling=last",
        "+base:pooling=mean",
        "+mirror",
    ]


def test_causal_reading_of_target_words_is_noted(random_model: Models, tmp_path: Path) -> None:
    """The result carries a note, unless the model reads on; both are cells of their own."""
    words = [
        TextInput(f"a bank {rest}", ((2, 6),))
        for rest in ("of the river", "holds my money", "by the sea")
    ]
    pairs = [
        RatedContexts(str(n), *pair, rating=n) for n, pair in enumerate(combinations(words, 2))
    ]
    own = plugins().extended("register_tasks", UsageSimilarity("uses", pairs))
    session = mirrorbench.Session(
        tmp_path / "results", cache=tmp_path / "cache", device="cpu", plugins=own
    )
    path = random_model("llama")
    specs = [
        f"{path}+base:pooling=target{more}"
        for more in ("", ",attention=bidirectional", ",prompt=echo")
    ]
    causal, *seeing = session.run(specs, ["uses"]).results
    assert "without the words that follow it" in "\n".join(causal.notes)
    for result in seeing:
        assert "without the words that follow it" not in "\n".join(result.notes)
    assert len({result.cell_id for result in (causal, *seeing)}) == 3
    # Only the words that follow differ.
    vectors_of_specs = [mirrorbench.load(spec, device="cpu").encode(words) for spec in specs]
    differ = [np.ptp(vectors, axis=0).max() > 1e-3 for vectors in vectors_of_specs]
    assert differ == [False, True, True]


def test_all_problems_of_a_spec_are_reported(random_model: Models) -> None:
    spec = (
        f"{random_model('mamba')}+mirror:attention=bidirectional,layers=9,pooling=cls,span_mask=5"
    )
    with pytest.raises(UsageError) as caught:
        mirrorbench.load(spec, device="cpu")
    for problem in (
        "pooling=mean",
        "attention=bidirectional",
        "layers=9",
        "span_mask",
        "no dropout",
    ):
        assert (problem in caught.value.message) == (problem != "pooling=mean")
    assert caught.value.hint.endswith(
        "+mirror:dropout=0,layers=-1:,pooling=last,span_mask=0,word_shuffle=3"
    )


@pytest.mark.parametrize(
    "architecture", few(["qwen3", "bart", "gemma3-vision", "gpt2", "t5gemma"], 0, 1)
)
def test_recipe_dropout_rate_takes_effect(random_model: Models, architecture: str) -> None:
    """Two passes in training mode differ at the recipe's rate, but not at 0."""
    for rate, differ in ((0.3, True), (0.0, False)):
        model = load_transformer(
            random_model(architecture), CPU, partial(Dropout().configure, rate=rate)
        ).model
        Dropout().attach(model, rate)
        model.train()
        first, second = (
            model(input_ids=torch.arange(5, 20)[None]).last_hidden_state for _ in range(2)
        )
        assert torch.equal(first, second) != differ


def main() -> None:
    with TemporaryDirectory() as folder:
        rows = {}
        for name in NAMES:
            build(name, Path(folder) / name)
            rows[name] = row(Path(folder) / name, Path(folder) / f"{name}-tuned")
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
