"""Tokens of a tokenizer for which a model has no embedding."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from helpers.missing_tokens import with_missing_tokens
from helpers.random_models import Models
from helpers.recording_reporter import Log
from transformers import AutoTokenizer

import mirrorbench
from mirrorbench.core.errors import (
    ModelUnavailableError,
    TuningError,
    UnreadableTextError,
    UsageError,
)

TEXTS = ["a quick zebra", "two lazy dogs", "zebras and dogs", "one more text", "a quick zyxq"]


@pytest.fixture
def added(random_model: Models, tmp_path: Path) -> Path:
    """A model whose tokenizer got a word and a padding token, for which its embeddings were not resized."""
    return with_missing_tokens(
        random_model("bert"), tmp_path / "model", "zyxq", padding="<padding>"
    )


def session(log: Log) -> mirrorbench.Session:
    return mirrorbench.Session(device="cpu", offline=True, reporter=log)


@pytest.mark.parametrize(
    "spec", ["{}:pooling=mean", "sbert:path={}", "sbert:path={},pooling=cls", "{}+static"]
)
def test_line_of_missing_token_precedes_vectors(spec: str, added: Path) -> None:
    file = added.parent / "texts.txt"
    file.write_text("\n".join([*TEXTS[:4], "", TEXTS[4]]))
    output = io.StringIO()
    with pytest.raises(UnreadableTextError, match=r"texts\.txt, line 6: its token 'zyxq'"):
        session(Log()).encode(str(file), spec.format(added), output)
    assert output.getvalue() == ""


def test_missing_tokens_are_said_once_on_opening(added: Path) -> None:
    for spec in (f"{added}:pooling=mean", f"sbert:path={added}", f"{added}+static"):
        log = Log()
        session(log).load(spec).encode(TEXTS[:2])
        assert sum("2 ids more than the model's" in line for line in log.lines) == 1


def test_tuning_names_the_line_of_a_missing_token(added: Path) -> None:
    file = added.parent / "texts.txt"
    file.write_text("\n".join(TEXTS))
    log = Log()
    with pytest.raises(UnreadableTextError, match=r"texts\.txt, line 5: its token 'zyxq'"):
        session(log).tune(file, f"{added}+mirror:epochs=1", added.parent / "out")
    assert sum("2 ids more than the model's" in line for line in log.lines) == 1
    file.write_text("\n".join(f"{text}\t{text}s" for text in TEXTS))
    with pytest.raises(UnreadableTextError, match=r"texts\.txt, line 5: its token 'zyxq'"):
        session(Log()).tune(file, f"{added}+pairs:epochs=1", added.parent / "out")


def test_mask_without_embedding_refuses_masking(added: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(added)
    tokenizer.add_special_tokens({"mask_token": "<hidden>"})
    tokenizer.save_pretrained(added)
    with pytest.raises(TuningError, match="no embedding of its tokenizer's mask token <hidden>"):
        session(Log()).tune(TEXTS[:4], f"{added}+mirror:epochs=1,span_mask=5", added.parent / "out")


def test_item_of_a_missing_token_is_named(added: Path) -> None:
    file = added.parent / "pairs.csv"
    rows = [f"{text},{text}s,{n}" for n, text in enumerate(TEXTS)]
    file.write_text("\n".join(["sentence1,sentence2,score", *rows]))
    (failure,) = session(Log()).run([f"{added}+base:pooling=mean"], [str(file)]).failures
    assert "pairs.csv, item 6: its token 'zyxq'" in str(failure)


def test_document_of_a_missing_token_is_named(added: Path) -> None:
    folder = added.parent / "search"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d", "text": "zyxq"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "dogs"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    (failure,) = session(Log()).run([f"{added}+base:pooling=mean"], [str(folder)]).failures
    assert "search, document d: its token 'zyxq'" in str(failure)


@pytest.mark.parametrize("spec", ["{}+base:pooling=mean,post=whiten", "{}+mirror:epochs=1"])
def test_line_of_a_corpus_is_named(spec: str, added: Path) -> None:
    corpus = added.parent / "corpus.txt"
    corpus.write_text("\n".join([*TEXTS[:4], "", TEXTS[4]]))
    pairs = added.parent / "pairs.csv"
    pairs.write_text("sentence1,sentence2,score\na,b,1\nb,c,2\na,d,3\n")
    outcome = session(Log()).run([spec.format(added)], [str(pairs)], corpus=str(corpus))
    assert "corpus.txt, line 6: its token 'zyxq'" in str(outcome.failures[0])


def test_augmentation_makes_no_missing_token(added: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(added)
    tokenizer.add_tokens(["dogs zebra", "zebra dogs"])
    tokenizer.save_pretrained(added)
    texts = [f"{word} zebra and dogs" for word in ("a", "quick", "lazy", "one", "more")]
    spec = f"{added}+mirror:epochs=3,span_mask=0,word_shuffle=4"
    tuned = session(Log()).tune(texts, spec, added.parent / "out")
    assert tuned.corpus["n"] == len(texts)


def test_missing_padding_changes_no_vector(added: Path, random_model: Models) -> None:
    expected = mirrorbench.load(f"{random_model('bert')}:pooling=mean", device="cpu")
    actual = mirrorbench.load(f"{added}:pooling=mean", device="cpu").encode(TEXTS[:4])
    np.testing.assert_allclose(actual, expected.encode(TEXTS[:4]), atol=1e-6)
    with pytest.raises(UsageError, match="no embedding of its token <padding>"):
        mirrorbench.load(f"{added}:pooling=mean-padded", device="cpu").encode(TEXTS[:4])


def test_missing_token_of_every_text_refuses_the_model(added: Path) -> None:
    file = added / "tokenizer.json"
    tokenizer = AutoTokenizer.from_pretrained(added)
    tokenizer.add_special_tokens({"cls_token": "<begin>"})
    id_ = tokenizer.convert_tokens_to_ids("<begin>")
    from tokenizers import processors

    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<begin> $A", special_tokens=[("<begin>", id_)]
    )
    tokenizer.save_pretrained(added)
    assert file.is_file()
    with pytest.raises(ModelUnavailableError, match=f"puts <begin> .id {id_}. into every text"):
        mirrorbench.load(f"{added}:pooling=mean", device="cpu").encode(TEXTS[:2])
