"""Every family of models: each cell works, or is refused by one message that names a spec that works.

The matrix is the page docs/families.md; ``python -m tests.models.test_families`` writes it anew.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

import mirrorbench
from mirrorbench.core.errors import MirrorbenchError, ModelUnavailableError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.items import RatedContexts
from mirrorbench.models.backbones import ADAPTER
from mirrorbench.models.batching import Ragged
from mirrorbench.models.kinds import kind_of
from mirrorbench.models.pooling import Pooling, Tokens, pool
from mirrorbench.models.transformer import load_transformer
from mirrorbench.runs.builtin import plugins
from mirrorbench.runs.plan import Planner
from mirrorbench.tasks import UsageSimilarity
from mirrorbench.training.augmentations.model import Dropout
from tests.further_models import FURTHER, build_further
from tests.random_models import FAMILIES, Models, build
from tests.suites import few

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
CPU = torch.device("cpu")
NAMES = {
    "llama": "Llama", "mistral": "Mistral", "qwen3": "Qwen3", "gemma3": "Gemma3", "gemma3-vision": "Gemma3 with vision",
    "gpt2": "GPT-2", "mamba": "Mamba", "eurobert": "EuroBERT", "bart": "BART (encoder)", "t5": "T5 (encoder)",
    "t5gemma": "T5Gemma (encoder)", "bert": "BERT", "roberta": "RoBERTa", "xlm-r": "XLM-R", "distilbert": "DistilBERT",
    "electra": "ELECTRA", "deberta": "DeBERTa", "deberta-v2": "DeBERTa v2, v3", "albert": "ALBERT", "mpnet": "MPNet",
    "modernbert": "ModernBERT", "nomic": "NomicBERT", "xlnet": "XLNet",
}  # fmt: skip
CAUSAL = ("llama", "mistral", "qwen3", "gemma3", "gemma3-vision", "gpt2", "mamba")
BASES = ("cls", "mean", "mean-padded", "last", "weighted-mean", "target")
SOME = ("+base:pooling=cls", "+base:pooling=mean", "+mirror", "+mirrorwic")
"""What the further types are read and tuned by."""
TUNED = ("+mirror", "+mirrorwic", "+mirror:attention=bidirectional", "+mirror:lora=4")
PADS = "They were seen to read padding:"
OTHERS = "Further types that the full suite builds:"
INTRODUCTION = f"""\
# Families of models

What a model of each family is read and tuned by. Each was built with two or three layers and random weights. An
untuned model is read by each pooling; a tuned one was written by `mirrorbench tune` and gives the same vectors in
sentence-transformers, and with `lora=4` an adapter alone was written. A number is a refusal: its message, below the
table, names a spec that works.
`tests/models/test_families.py` makes this page.

The [CLS] of the papers' recipes gives way to mean pooling where a family has none (causal models, T5), and a family
without a mask token is tuned without masks. A token of a causal model knows only what stands before it
({", ".join(NAMES[name] for name in CAUSAL)}):

- its ladder begins with the last token in place of the first, at which all texts have the same vector;
- `attention=bidirectional`, in tuning and without, lets each token see the whole text. Whether a model heeds it is
  tried when it is opened; where it changes nothing, it is refused;
- without it a word in context is read without what follows the word, and the results of such tasks carry a note."""
READ_PADDING = ("convbert", "cpmant", "fnet", "nystromformer", "yoso")
TRIED = """\
## What is tried

A dozen passes over at most 17 tokens, when a model is opened, decide what no list could hold for the next architecture:

- whether it is causal: a token's state stays the same when tokens follow it;
- whether it reads padding: its texts are then computed beside texts of equal length alone, its results carry a note,
  and `equal_lengths` stands in the identity of its vectors. Other libraries need `batch_size=1` for the same vectors;
- whether it tells texts apart, and a token among other tokens: MRA without its CUDA kernels does not, and is refused;
- whether the token types that its tokenizer gives change vectors: other libraries hand them on, and GPT-2 with the
  tokenizer of BERT would read them as words; it is refused;
- whether the states of its layers have one shape; if not, they are not averaged (`layers=-1:` is proposed);
- whether several texts in one row of tokens have the vectors of each alone, before tuning packs them so;
- whether bf16 and fp16 leave finite numbers near those in fp32; a precision that does not is refused.

What was seen is kept in the folder `kinds` of the cache under the checksum of the weights and the versions of torch and
transformers. A plan opens no weights of the types that read as BERT does (ALBERT, BERT, CamemBERT, DeBERTa, DistilBERT,
ELECTRA, ModernBERT, MPNet, RoBERTa, XLM-R). Of any other it opens the first two layers, once, to know whether it is
causal, reads padding, drops anything, and reads texts of any length in training mode (Reformer does not: it is read,
and not tuned). A model that wants more than tokens (boxes, images, sounds), or has no
vocabulary of tokens (CANINE), is refused with the reason.

`nox -s full` builds further types of transformers, reads each by [CLS] and mean, and tunes it by both methods: each
works, with the same vectors in sentence-transformers, or is refused with a spec that works.

Before a model with a decoder is tuned to be written, its first layers are written and opened by sentence-transformers,
which opens some encoders alone, under other names than their weights have in any checkpoint: `blenderbot`,
`blenderbot-small`, `m2m_100`, `marian`, `nllb-moe`, `pegasus`, `pegasus_x`, `prophetnet`. `mirrorbench tune` refuses
them; `mirrorbench run` tunes and measures them."""
TEXTS = [
    "acat",
    "twodogsrunoverthehill",
    "x",
    "quickzebras",
]  # without spaces, of which sentence-transformers has words
LINES = [f"line {n} of a small corpus, about {word}" for n in range(3) for word in ("cats", "dogs", "letters")]


def vectors(spec: str, folder: Path) -> np.ndarray:
    """Of an untuned row, or of a tuned one by the directory that ``tune`` writes, where both libraries agree."""
    if "+base" in spec:
        return mirrorbench.load(spec, device="cpu").encode(TEXTS)
    level = "wic" if "mirrorwic" in spec else "sentence"
    mirrorbench.tune(LINES, spec, folder, held_out=0, device="cpu", level=level, force=True)
    found = mirrorbench.load(folder, device="cpu").encode(TEXTS)
    assert (folder / ADAPTER).exists() == ("lora" in spec)
    assert AutoTokenizer.from_pretrained(folder).pad_token is not None
    pads = "batch_size=1" in (folder / "README.md").read_text(encoding="utf-8")
    theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, batch_size=1 if pads else len(TEXTS))
    np.testing.assert_allclose(theirs, found, atol=1e-5)
    return found


def cell(path: Path, rest: str, folder: Path, working: set[str]) -> str:
    """``yes``, or the message of the refusal, after the spec that it names was found to work, if it is none before."""
    try:
        found = vectors(f"{path}{rest}", folder)
        working.add(f"{path}{rest}")
        said = "yes"
    except MirrorbenchError as error:
        if measured := re.search(r"mirrorbench run -e (\S+) --corpus FILE$", error.hint):
            runs(measured[1], folder)
            return f"{error.message}. {error.hint}".replace(str(path), "MODEL")
        (other,) = re.findall(r"^Write (\S+)$", error.hint)
        said = f"{error.message}. {error.hint}".replace(str(path), "MODEL")
        if other in working:
            return said
        try:
            found = vectors(other, folder)
        except UsageError as another:  # what is wrong with the model is said before what is wrong with its directory
            runs(re.findall(r"mirrorbench run -e (\S+) --corpus FILE$", another.hint)[0], folder)
            return said
    assert min(np.abs(one - other).max() for one, other in combinations(found, 2)) > 1e-3, "constant vectors"
    return said


def runs(spec: str, folder: Path) -> None:
    """Tuned on the lines of a file and measured, which takes no directory of an encoder."""
    texts = folder.with_name("lines.txt")
    texts.write_text("\n".join(LINES), encoding="utf-8")
    session = mirrorbench.Session(folder.with_name("results"), cache=folder.with_name("cache"), device="cpu")
    done = session.run([spec], ["quick-sts"], corpus=str(texts), limit=20)
    assert [result.main_score is not None for result in done.results] == [True]
    assert not folder.exists()


def row(architecture: str, path: Path, folder: Path) -> list[str]:
    """The cells of a family."""
    working: set[str] = set()
    return [cell(path, rest, folder, working) for rest in (*(f"+base:pooling={mode}" for mode in BASES), *TUNED)]


@pytest.mark.full
@pytest.mark.parametrize("model_type", FURTHER)
def test_a_further_type(tmp_path: Path, model_type: str) -> None:
    """Each way of reading or tuning it works, or is refused by one message with a spec that works."""
    path = tmp_path / model_type
    build_further(model_type, path)
    kind = kind_of(load_transformer(path, CPU))
    text = PAGE.read_text(encoding="utf-8")
    assert (f"`{model_type}`" in text.split(PADS)[1].split("\n\n")[0]) == kind.pads
    if not kind.varies:
        with pytest.raises(ModelUnavailableError, match="does not tell texts apart"):
            mirrorbench.load(f"{path}+base", device="cpu")
        return
    working: set[str] = set()
    for rest in SOME:
        cell(path, rest, tmp_path / "tuned", working)


def test_the_page_names_the_further_types() -> None:
    named = re.findall(r"`([a-z0-9_-]+)`", PAGE.read_text(encoding="utf-8").split(OTHERS)[1].split("\n\n")[0])
    assert named == list(FURTHER)


def page(rows: dict[str, list[str]]) -> str:
    """The matrix, and below it the messages."""
    messages = dict.fromkeys(said for cells in rows.values() for said in cells if said != "yes")
    numbers = {message: number for number, message in enumerate(messages, start=1)}
    head = ["family", *BASES, "`+mirror`", "`+mirrorwic`", "`attention=bidirectional`", "`lora=4`"]
    lines = [
        INTRODUCTION,
        "",
        f"| {' | '.join(head)} |", "|" + "---|" * len(head),
    ]  # fmt: skip
    for name, cells in rows.items():
        shown = ["yes" if said == "yes" else f"{numbers[said]}" for said in cells]
        lines.append(f"| {NAMES[name]} | {' | '.join(shown)} |")
    pads = [name for name in FURTHER if name in READ_PADDING]
    lines += ["", *(f"{number}. {message}" for message, number in numbers.items()), "", TRIED]
    for title, names in ((PADS, pads), (OTHERS, FURTHER)):
        lines += ["", fill(f"{title} {', '.join(f'`{name}`' for name in names)}.", 120, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("architecture", few(NAMES, "qwen3", "bart"))
def test_a_family(random_model: Models, tmp_path: Path, architecture: str) -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (stated,) = (line for line in lines if line.startswith(f"| {NAMES[architecture]} |"))
    for said, shown in zip(
        row(architecture, random_model(architecture), tmp_path / "tuned"), stated.split(" | ")[1:], strict=True
    ):
        number = shown.strip(" |")
        expected = "yes" if number == "yes" else next(line for line in lines if line.startswith(f"{number}. "))[3:]
        assert said == expected


def test_all_families_are_there() -> None:
    assert set(NAMES) == set(FAMILIES)


@pytest.mark.parametrize("architecture", few(CAUSAL, "gpt2", "mamba"))
@pytest.mark.parametrize("mode", ["last", "mean", "weighted-mean"])
def test_longer_texts_beside_it_change_nothing(random_model: Models, architecture: str, mode: str) -> None:
    path = random_model(architecture)
    assert load_transformer(path, CPU).kind.causal
    transformer, pooling = load_transformer(path, CPU), Pooling(mode)
    short, long = [20, 21, 22, 23], list(range(20, 50))
    alone = transformer.forward(Ragged.of([short]), [pooling])[0][0]
    right = transformer.forward(Ragged.of([short, long]), [pooling])[0][0]
    torch.testing.assert_close(right, alone, atol=1e-5, rtol=0)
    ids = torch.tensor([[0] * (len(long) - len(short)) + short, long])
    mask = torch.tensor([[0] * (len(long) - len(short)) + [1] * len(short), [1] * len(long)])
    places = {} if architecture == "mamba" else {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    with torch.no_grad():
        states = transformer.model(input_ids=ids, attention_mask=mask, **places).last_hidden_state
    left = pool((states,), Tokens(mask, lambda: ids, transformer.tokenizer), pooling)[0]
    torch.testing.assert_close(left, alone, atol=1e-5, rtol=0)


def test_a_causal_ladder_begins_with_the_last_token(random_model: Models) -> None:
    path = random_model("qwen3")
    rows = Planner(mirrorbench.Session(device="cpu").workspace).ladder(parse_spec(str(path)), "sentence")
    assert [str(one).removeprefix(str(path)) for one in rows] == ["+base:pooling=last", "+base:pooling=mean", "+mirror"]


def test_what_the_plan_says_of_a_decoder_at_a_word(random_model: Models, tmp_path: Path) -> None:
    """The result carries a note, unless the model reads on; both are cells of their own."""
    words = [
        TextInput(text, ((2, 6),)) for text in ("a bank of the river", "a bank holds my money", "a bank by the sea")
    ]
    pairs = [RatedContexts(str(n), *pair, rating=n) for n, pair in enumerate(combinations(words, 2))]
    own = plugins().extended("register_tasks", UsageSimilarity("uses", pairs))
    session = mirrorbench.Session(tmp_path / "results", cache=tmp_path / "cache", device="cpu", plugins=own)
    path = random_model("llama")
    specs = [f"{path}+base:pooling=target{more}" for more in ("", ",attention=bidirectional", ",prompt=echo")]
    one, *others = session.run(specs, ["uses"]).results
    assert [note for note in one.notes if "without the words that follow it" in note]
    assert not [note for other in others for note in other.notes if "without the words that follow it" in note]
    assert len({found.cell_id for found in (one, *others)}) == 3
    encoders = [mirrorbench.load(spec, device="cpu").encode(words) for spec in specs]
    assert [np.ptp(found, axis=0).max() > 1e-3 for found in encoders] == [False, True, True]  # what follows does it


def test_all_that_keeps_a_spec_from_running_is_said_at_once(random_model: Models) -> None:
    spec = f"{random_model('mamba')}+mirror:attention=bidirectional,layers=9,pooling=cls,span_mask=5"
    with pytest.raises(UsageError) as caught:
        mirrorbench.load(spec, device="cpu")
    for problem in ("pooling=mean", "attention=bidirectional", "layers=9", "span_mask", "no dropout"):
        assert (problem in caught.value.message) == (problem != "pooling=mean")
    assert caught.value.hint.endswith("+mirror:dropout=0,layers=-1:,pooling=last,span_mask=0,word_shuffle=3")


@pytest.mark.parametrize(
    "architecture", few(["llama", "qwen3", "gemma3-vision", "gpt2", "eurobert", "bart", "t5gemma"], "qwen3", "bart")
)
def test_dropout_reaches_what_has_no_module_of_it(random_model: Models, architecture: str) -> None:
    """Two passes in training mode differ at the rate asked for, and not at 0."""
    for rate, differ in ((0.3, True), (0.0, False)):
        model = load_transformer(random_model(architecture), CPU, partial(Dropout().configure, rate=rate)).model
        Dropout().attach(model, rate)
        model.train()
        one, again = (model(input_ids=torch.arange(5, 20)[None]).last_hidden_state for _ in range(2))
        assert torch.equal(one, again) != differ


def main() -> None:
    """Write the page."""
    with TemporaryDirectory() as folder:
        rows = {}
        for name in NAMES:
            build(name, Path(folder) / name)
            rows[name] = row(name, Path(folder) / name, Path(folder) / f"{name}-tuned")
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
