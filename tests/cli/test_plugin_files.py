"""Plugin files as their authors try them: errors with their line, taken names, stated keys, edited code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorbench.storage.results import read_results

ENCODER = """
import mirrorbench
import numpy as np

class Encoder:
    fingerprint = "1"
    def encode(self, inputs):
        {encode}

@mirrorbench.hookimpl
def register_encoders(register):
    register("mine", lambda spec, context: Encoder(), "", keys={{"size": int}})
"""
COUNTS = "return np.array([[len(item.text), item.text.count('a'), 1.0] for item in inputs])"


@pytest.fixture
def run(mirrorbench: Callable, folder: Path) -> Callable:
    """Runs the encoder of a plugin file, whose ``encode`` has a body, on a task."""

    def made(encode: str, *options: str, encoder: str = "mine", task: str = "quick-sts") -> object:
        (folder / "mine.py").write_text(ENCODER.format(encode=encode))
        command = ("run", "--plugin", "mine.py", "-e", encoder, "-t", task, *options)
        return mirrorbench(*command)

    return made


def test_error_of_a_plugin_names_its_line(run: Callable, folder: Path) -> None:
    said = run("return {}['boom']")
    said.assert_fails(1, "KeyError: 'boom' (mine.py, line 8, in encode)")
    said.assert_fails(1, "with tracebacks: results/failures.log")
    log = (folder / "results" / "failures.log").read_text()
    assert "return {}['boom']" in log.partition("Traceback")[2]


def test_vectors_of_other_dimensions_are_refused(run: Callable) -> None:
    run(COUNTS).assert_works()
    said = run("return np.ones((len(inputs), 2))", task="quick-simlex")
    assert said.code == 0  # an edited file is another encoder
    said = run("self.n = getattr(self, 'n', 1) + 1; return np.eye(len(inputs), self.n)")
    assert said.code == 0  # texts of one call
    said = run("return np.random.rand(len(inputs), np.random.randint(3, 90))", task="quick")
    said.assert_fails(1, "dimensions; those stored before have", "another fingerprint")


def test_zero_vectors_are_warned_of(run: Callable) -> None:
    said = run("return np.zeros((len(inputs), 3))")
    assert "mine: all its vectors are zero on STS17" in said.out


def test_unstated_keys_of_a_plugin_encoder_are_refused(run: Callable) -> None:
    run(COUNTS, encoder="mine:sise=3").assert_fails(
        2, "unknown key of mine 'sise'", "Did you mean size?"
    )
    run(COUNTS, encoder="mine:size=x").assert_fails(2, "size=x is not a whole number")
    run(COUNTS, encoder="mine:size=3").assert_works()


def test_edited_plugin_file_is_computed_anew(run: Callable, folder: Path) -> None:
    run(COUNTS)
    (first,) = read_results(folder / "results")
    assert "from earlier runs" in run(COUNTS).err
    run(COUNTS.replace("'a'", "'e'"))
    (second,) = read_results(folder / "results")
    assert second.main_score != first.main_score
    run(COUNTS)
    (again,) = read_results(folder / "results")
    assert again.main_score == first.main_score


def test_augmentation_without_text_is_named(
    mirrorbench: Callable, folder: Path, random_model: Callable[[str], Path]
) -> None:
    source = "import mirrorbench\n@mirrorbench.hookimpl\ndef register_augmentations(register):\n"
    (folder / "swap.py").write_text(f"{source}    register('swap', lambda text, context: None)\n")
    encoder = f"{random_model('bert')}+mirror:swap=0.5,corpus=quick-sentences,corpus_size=40"
    said = mirrorbench("run", "--plugin", "swap.py", "-e", encoder, "-t", "quick-sts")
    said.assert_fails(1, "the augmentation 'swap' (swap.py, line 4) returned", "None", "not a text")


RETURNS = {
    "pooling": (
        "register_poolings(register): register('bad', lambda states, tokens: None)",
        "tiny+base:pooling=bad",
        "the pooling 'bad' (bad.py, line 3) returned a NoneType, not a tensor",
    ),
    "shape": (
        "register_poolings(register): register('bad', lambda states, tokens: states[:1].mean(1))",
        "tiny+base:pooling=bad",
        "the pooling 'bad' (bad.py, line 3) returned shape (1, 256)",
    ),
    "loss": (
        "register_losses(register): register('bad', lambda left, right, t, labels: 1.0)",
        "tiny+mirror:loss=bad,corpus=quick-sentences,corpus_size=40",
        "the loss 'bad' (bad.py, line 3) returned a float",
    ),
    "argument": (
        "register_losses(register): register('bad', lambda left, right, t, labels, bogus: 1.0)",
        "tiny+mirror:loss=bad,corpus=quick-sentences,corpus_size=40",
        "the loss 'bad' (bad.py, line 3) has the arguments bogus",
    ),
    "ids": (
        "register_augmentations(register): register('bad', lambda ids, context: ['a'], on='tokens')",
        "tiny+mirror:bad=1,corpus=quick-sentences,corpus_size=40",
        "the augmentation 'bad' (bad.py, line 3) returned",
    ),
    "large ids": (
        "register_augmentations(register): register('bad', lambda i, context: [10**6], on='tokens')",
        "tiny+mirror:bad=1,corpus=quick-sentences,corpus_size=40",
        "an augmentation returned token ids from 1000000 to 1000000",
    ),
    "corpus": (
        "register_corpora(register): register(GeneratedCorpus('bad', '', lambda: 'abc'))",
        "tiny+mirror:corpus=bad",
        "the corpus 'bad' (bad.py, line 3) generated a str",
    ),
}


@pytest.mark.parametrize("kind", list(RETURNS))
def test_wrong_return_of_a_plugin_names_its_line(
    mirrorbench: Callable, folder: Path, kind: str
) -> None:
    body, encoder, message = RETURNS[kind]
    head = "import mirrorbench; from mirrorbench.plugin import GeneratedCorpus\n"
    (folder / "bad.py").write_text(f"{head}@mirrorbench.hookimpl\ndef {body}\n")
    said = mirrorbench("run", "--plugin", "bad.py", "-e", encoder, "-t", "quick-sts")
    said.assert_fails(1, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "register_renderers(register): register('mine', str, endings=('.tex',))",
            "the ending of files '.tex' is registered twice",
        ),
        (
            "register_augmentations(register): register('corpus', str)",
            "the key of encoder specs 'corpus' is registered twice",
        ),
        ("register_augmentations(register): register('swap', None)", "is a NoneType, not a func"),
        ("register_corpora(register): register(3)", "registers a corpus that is a int"),
        (
            "register_augmentations(register): register('my-swap', str)",
            "cannot be a key of encoder",
        ),
        (
            "register_encoders(register): register('my', str, keys={'dims': int})",
            "has the key 'dims', which transforms the vectors of any encoder",
        ),
        ("register_metrics(register): register('spearman', max)", "'spearman' is registered twice"),
    ],
)
def test_taken_names_stop_a_run_before_computing(
    mirrorbench: Callable, folder: Path, body: str, message: str
) -> None:
    (folder / "bad.py").write_text(f"import mirrorbench\n@mirrorbench.hookimpl\ndef {body}\n")
    said = mirrorbench("run", "--plugin", "bad.py", "-e", "tiny+base", "-t", "quick-sts")
    said.assert_fails(2, message)
    assert not (folder / "results").exists()


def test_taken_name_in_plugin_file_is_refused(mirrorbench: Callable, folder: Path) -> None:
    source = ENCODER.format(encode=COUNTS).replace('"mine"', '"tiny"')
    (folder / "mine.py").write_text(source)
    mirrorbench("run", "--plugin", "mine.py", "-e", "tiny", "-t", "quick-sts").assert_fails(
        2, "the encoder 'tiny'", "backbones of mirrorbench and by mine.py", "Take another name"
    )


READER = """
from mirrorbench.plugin import Pair, PairSimilarity, UsageError, hookimpl, read_lines

@hookimpl
def register_readers(register):
    register("bars", read)

def read(name, path, options):
    if path.suffix != ".bars":
        return None
    scale = options.pop("scale", 1)
    if options:
        raise UsageError(f"no options {options}")
    rows = [line.split("|") for line in read_lines(path)]
    pairs = [Pair(f"{left}/{right}", left, right, float(gold) / scale) for left, right, gold in rows]
    return PairSimilarity(name, pairs)
"""


def test_readers_of_plugins_get_their_own_options(mirrorbench: Callable, folder: Path) -> None:
    (folder / "bars.py").write_text(READER)
    (folder / "my.bars").write_text("a cat|a kitten|4\na cat|a bus|1\na car|a bus|3\n")
    options = ("--plugin", "bars.py", "-e", "tiny+base:pooling=mean")
    said = mirrorbench("run", *options, "-t", "./my.bars:scale=5")
    said.assert_works()
    assert "./my.bars:scale=5" in said.out
    mirrorbench("run", *options, "-t", "./my.bars:size=5").assert_fails(2, "no options")
    evaluated = mirrorbench("evaluate", "my.bars", *options)
    evaluated.assert_fails(2, "is read by a plugin", "mirrorbench run")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('boom')", "ValueError: boom (threads.py, line 5, in execute)"),
        ("return None", "TypeError: 'NoneType' object is not iterable"),
        ("return iter(())", "the executor 'mine' (threads.py, line 4) returned no outcome"),
        ("return iter([3])", "'int' object has no attribute 'cell'"),
    ],
)
def test_faulty_executors_fail_their_cells(
    mirrorbench: Callable, folder: Path, body: str, message: str
) -> None:
    head = "from mirrorbench.plugin import hookimpl\n\n\n"
    hook = "@hookimpl\ndef register_executors(register):\n    register('mine', execute)\n"
    (folder / "threads.py").write_text(f"{head}def execute(job):\n    {body}\n\n{hook}")
    command = ("run", "--plugin", "threads.py", "-e", "tiny+base:pooling=mean", "-t", "quick-sts")
    mirrorbench(*command, "--executor", "mine").assert_fails(1, message, "on quick-sts")
