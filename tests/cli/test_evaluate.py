"""The answers of ``mirrorbench evaluate``: better, worse or not separable, and the number of items needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.page_reader import Shell

from mirrorbench.models.backbones import embedded_directory
from mirrorbench.models.opening import read_tokenizer
from mirrorbench.storage.results import read_results

LETTERS = """
import numpy as np
from mirrorbench import hookimpl

class Letters:
    def __init__(self, used): self.used, self.fingerprint = used, used
    def encode(self, inputs):
        return np.array([[1 + i.text.count(c) for c in self.used] for i in inputs], 'f4')

@hookimpl
def register_encoders(register):
    for used in ('ab', 'ba', 'abcdef'):
        register(used, lambda spec, context: Letters(spec.backbone))
"""
"""A plugin with encoders that count letters."""


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "letters.py").write_text(LETTERS)
    return Shell(tmp_path, monkeypatch, capsys.readouterr)


def write_triplets(path: Path, n: int, rng: np.random.Generator) -> None:
    """Write triplets of random words of six letters; each positive differs from its anchor in its last letter."""
    lines = ["anchor,positive,negative\n"]
    for _ in range(n):
        anchor = "".join(rng.choice(list("abcdef"), 9))
        negative = "".join(rng.choice(list("abcdef"), 9))
        lines.append(f"{anchor},{anchor[:-1]}a,{negative}\n")
    path.write_text("".join(lines))


def test_answers_report_differences_and_holm_p_values(tmp_path: Path, shell: Shell) -> None:
    """Three encoders on texts of letters: the difference of the accuracies, and Holm's correction of two p-values."""
    write_triplets(tmp_path / "a.csv", 120, np.random.default_rng(0))
    command = "mirrorbench evaluate a.csv --plugin letters.py -e ab -e abcdef -e ba"
    done = shell(command)
    assert done.code == 0, done.err
    answers = json.loads(shell(f"{command} --json").out)["answers"]
    lines = done.out.splitlines()
    better, same, corrected = lines[-9:-6]
    speed, *sizes = [cell.strip() for cell in lines[-1].split("|")[2:-1]]
    assert int(speed.replace(",", "")) > 0
    assert sizes == ["2", "8", "0.0%"]
    assert corrected == "In brackets: p is corrected for up to 2 tests (Holm); intervals are not."
    assert better.startswith("abcdef beats ab: +")
    assert better == answers[0]["sentence"]
    assert same == ("No separable difference: ba over ab .000 [-.032, .032], p = 1.0 (2 tests)")
    first, second = answers
    assert first["difference"] == pytest.approx(first["score"] - first["first"])
    assert first["interval"][0] > 0
    assert first["p_holm"] == pytest.approx(2 * first["p"])
    assert (second["verdict"], second["p_holm"]) == ("not separable", 1.0)


def test_margin_is_tested_and_foretold(tmp_path: Path, shell: Shell) -> None:
    """Encoders that count the same letters differ on no item; a dry run says what usual ones could show."""
    rng = np.random.default_rng(0)
    write_triplets(tmp_path / "few.csv", 60, rng)
    write_triplets(tmp_path / "many.csv", 400, rng)
    command = "mirrorbench evaluate few.csv many.csv --plugin letters.py -e ab -e ba --margin .05"
    answers = json.loads(shell(f"{command} --json").out)["answers"]
    few, many = (answer["equality"] for answer in answers)
    assert few["p"] is None
    assert few["why_not"] == "these items cannot say: no item differs, of fewer than 300"
    assert many["shown"] is True
    assert answers[1]["verdict"] == "equal"
    assert answers[1]["sentence"].startswith(
        "Equal within .05 on many.csv (accuracy): ba and ab .000 ["
    )
    foretold = shell(f"{command} --dry-run").out
    assert (
        "\nfew.csv cannot show that two usual encoders, equally good, are equal within .05, "
        in foretold
    )
    large = shell(f"{command.replace('.05', '.9')} --dry-run").out
    assert (
        "many.csv can show that two usual encoders, equally good, are equal within .9.\n" in large
    )


def test_answers_on_tuned_encoders_name_their_caveats(tmp_path: Path, shell: Shell) -> None:
    """Tuned in this evaluation, on the texts that are scored, with one seed."""
    rows = [f"the cat {n},a dog {n * n % 13},{n % 7}\n" for n in range(60)]
    (tmp_path / "a.csv").write_text("sentence1,sentence2,score\n" + "".join(rows))
    command = "mirrorbench evaluate ./a.csv -e tiny -e tiny+mirror:epochs=1"
    done = shell(command)
    assert done.code == 0, done.err
    report = json.loads(shell(f"{command} --json").out)
    assert "; 100% of the items hold a text that was tuned on\n" in done.out
    (answer,) = report["answers"]
    assert answer["this_model"] is True
    assert answer["unseen"]["share"] == 1
    compared = shell("mirrorbench compare tiny+base tiny+mirror:epochs=1")
    assert "; 100% of the items hold a text that was tuned on\n" in compared.out


def test_cut_texts_are_said_for_each_encoder(tmp_path: Path, shell: Shell) -> None:
    rows = [f"a dog {'and a cat ' * n},{'word ' * (n + 1)},{n % 5}\n" for n in range(20)]
    (tmp_path / "a.csv").write_text("sentence1,sentence2,score\n" + "".join(rows))
    done = shell("mirrorbench evaluate a.csv -e tiny:max_length=12 -e tiny:max_length=30")
    tokenizer = read_tokenizer(embedded_directory())
    texts = {text for row in rows for text in row.split(",")[:2]}
    lengths = [len(tokenizer(text.strip())["input_ids"]) for text in texts]
    for window in (12, 30):
        n = sum(length > window for length in lengths)
        line = (
            f"tiny:max_length={window} on a.csv: {n} of {len(texts)} texts are longer than {window}"
        )
        assert line in done.err


def test_retrieval_reports_bm25_fusion_and_changed_queries(tmp_path: Path, shell: Shell) -> None:
    """Rows of BM25 and of the fusion, answers on them, and the queries that gained and lost most."""
    rng = np.random.default_rng(1)
    words = [a + b for a in "abcdef" for b in "abcdef"]
    documents = {f"d{n}": " ".join(rng.choice(words, 6)) for n in range(60)}
    queries = {f"q{n}": " ".join(documents[f"d{n}"].split()[:3]) for n in range(30)}
    (tmp_path / "own" / "qrels").mkdir(parents=True)
    for part, texts in (("corpus", documents), ("queries", queries)):
        lines = (json.dumps({"_id": name, "text": text}) + "\n" for name, text in texts.items())
        (tmp_path / "own" / f"{part}.jsonl").write_text("".join(lines))
    judged = "".join(f"q{n}\td{n}\t1\n" for n in range(30))
    (tmp_path / "own" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    command = "mirrorbench evaluate ./own --plugin letters.py -e ab -e abcdef"
    planned = shell(f"{command} --dry-run")
    assert (planned.code, (tmp_path / "results").exists()) == (0, False)
    assert planned.out.startswith(
        "own: retrieval, 30 queries, 60 documents\nown can show differences in ndcg_at_10 of"
    )
    done = shell(f"{command} --items 2")
    assert done.code == 0, done.err
    metrics = {result.spec: result.metrics for result in read_results(tmp_path / "results")}
    table = " ".join(done.out.replace("*", "").split())
    for encoder in ("ab", "abcdef"):
        score = f"{metrics[encoder]['fused_ndcg_at_10']:.3f}".lstrip("0")
        assert f"| {encoder} and BM25 | {score} |" in table
    report = json.loads(shell(f"{command} --json").out)
    answers = {answer["encoder"]: answer for answer in report["answers"]}
    assert answers.keys() == {"abcdef", "BM25", "ab and BM25"}
    assert answers["BM25"]["difference"] == pytest.approx(
        metrics["ab"]["bm25_ndcg_at_10"] - metrics["ab"]["ndcg_at_10"]
    )
    low, high = sorted(answers[name]["p"] for name in ("BM25", "ab and BM25"))
    corrected = sorted(answers[name]["p_holm"] for name in ("BM25", "ab and BM25"))
    corrected_low = min(1, 2 * low)
    assert corrected == pytest.approx([corrected_low, max(high, corrected_low)])
    assert answers["abcdef"]["p_holm"] == answers["abcdef"]["p"]
    gained = done.out.partition("gained most\n")[2].splitlines()
    assert gained[0].partition("  q")[0].lstrip().startswith(".000 → 1.000")
    assert [line[:13] for line in gained[1:7]] == ["    before   "] * 3 + [
        "    now    * ",
        *["    now      "] * 2,
    ]


def test_results_with_hidden_texts_remain_comparable(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of items are hidden in one folder and not in the other; the items are the same."""
    (tmp_path / "a.csv").write_text(
        "anchor,positive,negative\n" + "".join(f"c{n},cc,ab\n" for n in range(9))
    )
    command = "mirrorbench evaluate a.csv --plugin letters.py -q -e ab"
    shell(f"{command} -e abcdef -o shown")
    expected = shell(f"{command} -e abcdef --items 1 -o shown").out
    shell(f"{command} -o mixed")
    monkeypatch.setenv("MIRRORBENCH_NO_TEXTS", "1")
    shell(f"{command} -e abcdef -o mixed")
    done = shell(f"{command} -e abcdef --items 1 -o mixed").out

    def item(anchor: str, positive: str, negative: str) -> str:
        margin = " " * 16
        return (
            f"  .000 → 1.000  anchor: {anchor}\n"
            f"{margin}positive: {positive}\n"
            f"{margin}negative: {negative}"
        )

    shown = item("c0", "cc", "ab")
    hidden = item(*["(a text of 2 characters)"] * 3)
    assert f"gained most\n{shown}\n" in expected
    assert done == expected.replace(shown, hidden)


def test_changed_pairs_show_both_texts_and_label(tmp_path: Path, shell: Shell) -> None:
    rows = [f"{'a' * n} {'x' * 200},{'ab'[n % 2]}c,{n % 2}\n" for n in range(1, 12)]
    (tmp_path / "a.csv").write_text("text1,text2,label\n" + "".join(rows))
    done = shell("mirrorbench evaluate a.csv --plugin letters.py -e ab -e abcdef --items 1")
    first, second, label = done.out.partition("gained most")[2].splitlines()[1:4]
    assert "  a" in first
    assert first.endswith("x…")
    assert second.strip() in ("ac", "bc")
    assert label.strip() == ("label 1" if second.strip() == "bc" else "label 0")


def test_threshold_and_missing_scores_are_explained(tmp_path: Path, shell: Shell) -> None:
    rows = [f"{'a' * n} b,{'a' * n},{n % 2}\n" for n in range(1, 21)]
    (tmp_path / "a.csv").write_text("text1,text2,label\n" + "".join(rows))
    (tmp_path / "b.csv").write_text("text1,text2,label\na,a,1\nb,b,0\n")
    (tmp_path / "c.csv").write_text("text1,text2,score\nx,y,1\ny,z,2\nz,x,3\n")
    command = "mirrorbench evaluate a.csv b.csv c.csv --plugin letters.py -e ab"
    done = shell(command)
    assert done.code == 0, done.err
    report = json.loads(shell(f"{command} --json").out)
    metrics = report["scores"][0]["scores"]
    (row,) = [line for line in done.out.splitlines() if line.startswith("| ab on a.csv ")]
    values = [float(cell) for cell in row.split("|")[2:-1]]
    assert values[0] == int(metrics["threshold"] * 1000) / 1000
    assert values[1:] == [round(metrics[name], 3) for name in ("precision", "recall", "f1")]
    assert (
        "b.csv: no threshold, which needs 5 groups of pairs of each label that share no text"
        in done.out
    )
    assert "ab on c.csv: no score: all similarities are equal" in done.out
    (encoder,) = report["encoders"]
    assert encoder["encoder"] == "ab"
    assert encoder["dimensions"] == 2
    assert encoder["bytes_per_vector"] == 8


def test_clusters_are_compared_and_shown(tmp_path: Path, shell: Shell) -> None:
    rows = [f"{'ab'[n % 2] * 4}{'cdef'[n % 3] * n},{n % 2}\n" for n in range(30)]
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(rows))
    command = "mirrorbench evaluate a.csv --kind clustering --plugin letters.py -e abcdef -e ab"
    done = shell(f"{command} --items 1 --margin .05")
    assert done.code == 0, done.err
    assert "a.csv: clustering, 30 texts, 2 labels" in done.err
    assert "a.csv (V-measure)" in done.out
    assert "ab beats abcdef" in done.out
    assert "is not tested for this score" in done.out
    report = json.loads(shell(f"{command} --json").out)
    deviations = [
        f"{score['scores']['v_measure_std']:.3f}".lstrip("0") for score in report["scores"]
    ]
    named = f"abcdef {deviations[0]}, ab {deviations[1]}"
    assert f"mean over 10 seeds of k-means; their standard deviation: {named}" in done.out
    gained = done.out.partition("gained most")[2].splitlines()
    assert gained[0] == " (shares of seeds in which most of the text's cluster have its label)"
    assert "    now    * " in gained[3]


def test_cross_encoder_is_a_row_of_reranking_alone(
    tmp_path: Path, shell: Shell, random_model: Callable[[str], Path]
) -> None:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(random_model("bert")), num_labels=1, local_files_only=True)
    model.save_pretrained(str(tmp_path / "reranker"))
    rows = [{"query": f"a{n}", "positive": [f"b{n}"], "negative": [f"c{n}", "d"]} for n in range(6)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.csv").write_text("anchor,positive,negative\na,ab,c\nb,bb,c\n")
    done = shell(
        "mirrorbench evaluate a.jsonl b.csv --plugin letters.py -e ab -e crossencoder:path=reranker --baselines"
    )
    assert done.code == 1
    n_first = 0
    for row in rows:
        positive = model.predict([(row["query"], row["positive"][0])])[0]
        negatives = model.predict([(row["query"], text) for text in row["negative"]])
        if positive > max(negatives):
            n_first += 1
    results = read_results(tmp_path / "results")
    (result,) = [result for result in results if result.spec.startswith("crossencoder")]
    assert result.metrics["mrr_at_10"] >= n_first / len(rows)
    assert "b.csv needs vectors of texts, and a cross-encoder has none" in done.out
    assert "crossencoder has scores of pairs, and no vectors to transform" in done.err
    (row,) = [
        line
        for line in done.out.splitlines()
        if line.startswith("| crossencoder") and "pairs" in line
    ]
    assert [cell.strip() for cell in row.split("|")[3:5]] == ["-", "-"]


def test_results_of_two_precisions_are_kept_apart(tmp_path: Path, shell: Shell) -> None:
    rows = [f"a dog {n},a cat {n * 7},{n % 5}\n" for n in range(20)]
    (tmp_path / "a.csv").write_text("sentence1,sentence2,score\n" + "".join(rows))
    command = "mirrorbench evaluate a.csv -e tiny --json"
    scores = [
        json.loads(shell(f"{command} {option}").out)["scores"][0]["scores"]
        for option in ("", "--eval-precision bf16", "", "--eval-precision bf16")
    ]
    assert scores[0] != scores[1]
    assert scores[:2] == scores[2:]
    shell("mirrorbench evaluate a.csv -e tiny+base:pooling=cls")
    done = shell("mirrorbench leaderboard")
    assert done.code == 2
    assert "evaluated in bf16 and fp32" in done.err


def test_failed_encoder_does_not_stop_the_comparison(tmp_path: Path, shell: Shell) -> None:
    """The others are compared; without the first encoder there is no answer, which is reported."""
    (tmp_path / "a.csv").write_text(
        "anchor,positive,negative\n" + "".join(f"a{n},aa,b{n}\n" for n in range(9))
    )
    done = shell(
        "mirrorbench evaluate a.csv --plugin letters.py -e ab -e ./none -e abcdef --items 1"
    )
    assert done.code == 1
    assert "abcdef beats ab" in done.out or "abcdef over ab" in done.out
    assert "./none beats" not in done.out
    assert "Failed: ./none on a.csv: backbone ./none: there is no such directory" in done.out
    done = shell("mirrorbench evaluate a.csv --plugin letters.py -e ./none -e ab --json")
    report = json.loads(done.out)
    assert (done.code, report["answers"]) == (1, [])
    assert [(failure["encoder"], failure["data"]) for failure in report["failures"]] == [
        ("./none", "./a.csv")
    ]
    assert [(score["encoder"], score["scores"].keys()) for score in report["scores"]] == [
        ("ab", {"accuracy"})
    ]
    done = shell("mirrorbench evaluate a.csv --plugin letters.py -e ./none -e ab")
    assert "a.csv: no answer, since ./none has no score" in done.out


def test_equally_named_files_get_separate_columns(tmp_path: Path, shell: Shell) -> None:
    for folder, table in (
        ("one", "anchor,positive,negative\n" + "".join(f"a{n},aa,b{n}\n" for n in range(5))),
        (
            "two",
            "sentence1,sentence2,score\n" + "".join(f"{'a' * n}b,ab,{n}\n" for n in range(1, 6)),
        ),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(table)
    done = shell("mirrorbench evaluate one/x.csv two/x.csv --plugin letters.py -e ab -e abcdef -q")
    assert done.out.splitlines()[0].replace(" ", "") == (
        "|encoder|one/x.csv(accuracy)|two/x.csv(Spearman)|"
    )
    assert "abcdef over ab on two/x.csv (Spearman): " in done.out.replace("beats", "over") or (
        "on two/x.csv (Spearman): abcdef over ab " in done.out
    )


def test_no_texts_variable_hides_texts_in_errors(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORBENCH_NO_TEXTS", "1")
    for table in (
        "sentence1,sentence2,score\na,b,secret\n",
        "secret one,secret two\na,b\n",
        "text,label\n" + "".join(f"{n},secret{n}\n" for n in range(9)),
    ):
        (tmp_path / "a.csv").write_text(table)
        done = shell("mirrorbench evaluate a.csv --plugin letters.py -e ab")
        assert (done.code, "secret" in done.err + done.out) == (
            2 if "secret one" in table else 1,
            False,
        )
