"""A small valid sample of every format, as bytes, and how many rows it has by a count that knows no parser."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Sample:
    """Files of a format, the card's options, and the two counts that must agree.

    Attributes:
        parser: its name.
        files: content by path in the card.
        rows: how many rows the files hold that are to become something, counted naively.
        read: how many rows the parsed items account for.
        options: of the card.
        packed: whether ``files`` are members of one archive that the card names.
    """

    parser: str
    files: Files
    rows: Callable[[Files], int]
    read: Callable[[list[Any]], int] = len
    options: Mapping[str, Any] = field(default_factory=dict)
    packed: bool = False

    def written(self, files: Files) -> dict[str, bytes]:
        """What lies on disk."""
        return {"x.tar.gz": archive(files)} if self.packed else dict(files)


def archive(members: Files, mode: str = "w:gz") -> bytes:
    """A tar archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def lines(data: bytes) -> list[bytes]:
    """Lines end at a line feed; the last one need not."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    return data.removesuffix(b"\n").split(b"\n") if data else []


def count(*names: str, header: int = 0) -> Callable[[Files], int]:
    """Lines of the named files less a header each."""
    return lambda files: sum(len(lines(files[name])) - header for name in names)


def linked(items: list[Any]) -> int:
    return sum(len(linking.mentions) for linking in items)


def named(items: list[Any]) -> int:
    return sum(len(linking.mentions) + len(linking.names) for linking in items)


def not_cui_less(data: bytes, place: int) -> int:
    """Lines whose ids, before or after the other fields, name a concept."""
    rows = (line.decode("utf-8-sig").strip() for line in lines(data))
    return sum(
        (row.rpartition("||")[0] if place == 0 else row.split("||")[-1].strip()).lower() != "cui-less" for row in rows
    )


def scored(files: Files) -> int:
    return sum(
        bool(line.decode("utf-8-sig").strip()) for name in files if ".gs." in name for line in lines(files[name])
    )


def questions(files: Files) -> int:
    """Rows with two questions, less a header each; quoted fields may hold line ends."""
    found = 0
    for data in files.values():
        head = lines(data)[0]
        rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter="\t" if b"\t" in head else ",")
        found += sum(bool(row[3].strip() and row[4].strip()) for row in rows) - 1
    return found


COSIMLEX = (
    "word1	word2	context1	context2	sim1	sim2	stdev1	stdev2	pvalue	word1_context1	word2_context1	"
    "word1_context2	word2_context2"
)
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
CONCEPTS = {
    "x/processed_test/9.concept": b"9||40|61||Modifier||Ataxia||D001260\n9||72|97||X||something||CUI-less\n",
    "x/processed_test/10.concept": b"10||8|9||CompositeMention||colorectal|breast cancers||D001943|D015179\n",
    "x/test_dictionary.txt": b"D001260||Ataxia\nD040181+D009136||muscular dystrophy\ncui-less||nothing\n",
}
XML = b"""<?xml version="1.0" encoding="UTF-8" ?>
<corpus><text id="one.d0"><sentence id="one.d0.s0"><wf lemma="the" pos="DET">The</wf>
<instance id="one.d0.s0.t0" lemma="dog" pos="NOUN">dogs</instance></sentence></text>
<text id="two.d0"><sentence id="s"><instance id="two.d0.s0.t0" lemma="Soon" pos="ADV">Soon</instance></sentence></text>
</corpus>
"""
WORDNET = {
    "data.noun": b'00000000 03 n 01 dog 0 000 | animal; "the dogs bark"\n',
    "index.noun": b"dog n 1 0 1 0 00000000\n",
    "noun.exc": b"women woman\n",
    "data.adv": b"00000000 02 r 01 soon 0 000 | in the near future\n",
    "index.adv": b"soon r 1 0 1 0 00000000\n",
    "adv.exc": b"best well\n",
    **{f"{kind}.{pos}": b"  1 This is a licence.\n" for kind in ("data", "index") for pos in ("verb", "adj")},
    "verb.exc": b"went go\n",
    "adj.exc": b"better good\n",
}

SAMPLES = {
    name: sample
    for name, sample in {
        "sts": Sample(
            "sts",
            {"STS.input.X.txt": b'A "cat".\tA dog. \nnot\tscored\nnull\tNA\n', "STS.gs.X.txt": b"4.5\n\n0\n"},
            scored,
        ),
        "sts-2016": Sample(
            "sts", {"S.input.X.txt": b"a\tb\tx\ty\n", "S.gs.X.txt": b"1\n"}, scored, options={"columns": 4}
        ),
        "stsb": Sample(
            "stsb",
            {"sts-dev.csv": b'g\tf\ty\t1\t3.200\t"A cat\tnan\ng\tf\ty\t2\t0\ta\tb\tlicence\tmore\n'},
            count("sts-dev.csv"),
        ),
        "sick": Sample(
            "sick",
            {
                "SICK_train.txt": b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
                b"6\ta b\tc d\t3.3\tNEUTRAL\n7\te\tf\t5\tENTAILMENT\n"
            },
            count("SICK_train.txt", header=1),
        ),
        "lines": Sample(
            "lines", {"a.txt": b"one\n\nin two||words\n"},
            lambda files: sum(bool(line.strip()) for line in lines(files["a.txt"])),
        ),
        "table-tsv": Sample(
            "table",
            {"t.tsv": b"a\tb\t1\nnull\t\"NA\t2\n"},
            count("t.tsv"),
            options={"format": "tsv", "columns": {"left": 0, "right": 1, "gold": 2}, "scale": [0, 5]},
        ),
        "table-csv": Sample(
            "table",
            {"t.csv": b'x,y,z,id\na,"b, ""c""",1,i\nnull,nan,2,j\n'},
            count("t.csv", header=1),
            options={
                "format": "csv",
                "header": True,
                "columns": {"left": "x", "right": "y", "gold": "z", "id": "id"},
                "scale": [0, 5],
            },
        ),
        "table-jsonl": Sample(
            "table",
            {"t.jsonl": b'{"l": "a", "r": "b\\u00e9", "g": 1.5}\n{"l": "null", "r": "c", "g": "2"}\n'},
            count("t.jsonl"),
            options={"format": "jsonl", "columns": {"left": "l", "right": "r", "gold": "g"}, "scale": [0, 5]},
        ),
        "table-gz": Sample(
            "table",
            {"t.tsv.gz": gzip.compress(b"a\tb\t1\nc\td\t2\n", mtime=0)},
            count("t.tsv.gz"),
            options={"format": "tsv", "columns": {"left": 0, "right": 1, "gold": 2}, "scale": [0, 5]},
        ),
        "qnli": Sample(
            "qnli",
            {
                "dev.tsv": b'index\tquestion\tsentence\tlabel\n0\tWho "said?\tHe.\tentailment\n'
                b"7\tWhen?\tnull\tnot_entailment\n"
            },
            count("dev.tsv", header=1),
        ),
        "qqp": Sample(
            "qqp",
            {"q.tsv": f'{QQP}\n0\t1\t2\t"What ""is""\nit?"\tnull\t1\n7\t3\t4\t\tx\t0\n9\t5\t6\tNA\tb\t0\n'.encode()},
            questions,
        ),
        "qqp-duplicates": Sample(
            "qqp-duplicates",
            {"q.csv": (QQP.replace("\t", ",") + '\n0,1,2,"a,b",c,1\n7,3,4,d,e,1\n9,5,6,f,g,1\n').encode()},
            questions,
        ),
        "usim": Sample(
            "usim",
            {"usim_en.txt": b"He is bright .\t2\t1.5\tbright.a 1\nbright light\t0\t1.5\tbright.a 12\n"},
            count("usim_en.txt"),
            lambda pairs: 2 * len(pairs),
        ),
        "cosimlex": Sample(
            "cosimlex",
            {
                "cosimlex_en.csv": (
                    f"{COSIMLEX}\nbank\tshore\tA <strong>bank</strong> or <strong>shore</strong>\t"
                    "<strong>Shore</strong>, <strong>banks</strong>\t2.5\t7\t1\t1\t0.01\tbank\tshore\tbanks\tShore\n"
                ).encode()
            },
            count("cosimlex_en.csv", header=1),
        ),
        "am2ico": Sample(
            "am2ico",
            {
                "zh/dev.tsv": "context1\tcontext2\tlabel\n在 <word>大学</word>\t<word>NA</word> null\tT\n".encode(),
                "zh/test.tsv": b"context1\tcontext2\tlabel\n<word>a</word>\t<word>b</word>\tF\n",
            },
            count("zh/dev.tsv", "zh/test.tsv", header=1),
            options={"language": "zh"},
        ),
        "xlwic": Sample(
            "xlwic",
            {
                "zh/valid.txt": "鬆\tV\t1\t2\t0\t1\t牙鬆了。\t鬆一\t1\n".encode(),
                "zh/test.txt": b"a\tV\t0\t1\t0\t2\ta b\tab\nc\tN\t0\t1\t0\t1\tc\tc\n",
                "zh/zh_test_gold.txt": b"0\n1\n",
            },
            count("zh/valid.txt", "zh/test.txt"),
        ),
        "wic": Sample(
            "wic",
            {
                "dev.data.txt": b"board\tN\t2-0\tRoom and board .\tboards x\nrun\tV\t0-1\trun !\tto run\n",
                "dev.gold.txt": b"F\nT\n",
            },
            count("dev.data.txt"),
        ),
        "wic-tsv": Sample(
            "wic-tsv",
            {
                "dev_examples.txt": b"zero\t1\tis zero\nfoot\t0\tFoot of hill\n",
                "dev_definitions.txt": b"a digit\nthe lower part\n",
                "dev_hypernyms.txt": b"digit\tnatural_number\n\n",
                "dev_labels.txt": b"T\nF\n",
            },
            count("dev_examples.txt"),
            options={"subtask": 3},
        ),
        "xling-eval": Sample(
            "xling-eval",
            {
                "yacle.test.freq.2k.it-fr.tsv": "dedicazione\tdévouement\ndesideri\tdésirs\n".encode(),
                "yacle.train.freq.5k.it-fr.tsv": b"null\tNA\nnan\tnul\n",
            },
            count("yacle.test.freq.2k.it-fr.tsv", "yacle.train.freq.5k.it-fr.tsv"),
            lambda items: sum(len(lexicon.train) + len(lexicon.test) for lexicon in items),
            {"train": "5k"},
        ),
        "multisimlex": Sample(
            "multisimlex",
            {
                "translation.csv": 'ID,EST 1,EST 2\n1,lõpmatus,null\n2,"quit, stop",NA\n'.encode(),
                "scores.csv": b"ID,ENG,EST\n1,0.5,1.7\n2,6,4.7\n",
            },
            count("translation.csv", header=1),
            options={"languages": ["EST"]},
        ),
        "multisimlex-concepticon": Sample(
            "multisimlex-concepticon",
            {
                "V.tsv": b"ID\tSIMLEX_IDS\tENGLISH\tENGLISH_IN_SOURCE\tENGLISH_SCORE\n1\t2:1 3:1\tinfinity (end)\t"
                b"infinity end\t0.5 1\n2\t2:2\tzero\tzero\t0.5\n3\t3:2\t[null]\t\t1\n"
            },
            lambda files: sum(line.split(b"\t")[1].count(b":") for line in lines(files["V.tsv"])[1:]),
            lambda pairs: 2 * len(pairs),
            {"languages": ["ENGLISH"]},
        ),
        "biosyn": Sample(
            "biosyn",
            CONCEPTS,
            lambda files: sum(not_cui_less(data, 0 if "dictionary" in name else 4) for name, data in files.items()),
            named,
            {"mentions": "processed_test", "dictionary": "test_dictionary.txt"},
            packed=True,
        ),
        "askapatient": Sample(
            "askapatient",
            {
                "AskAPatient.fold-0.train.txt": b"1\tKn\xf6del\thurts\n2\tPain\tache\n",
                "AskAPatient.fold-0.validation.txt": b"2\tPain\tAche again\n",
                "AskAPatient.fold-0.test.txt": b"2\tPain\tMy ACHE\n1\tKn\xf6del\tC+C|x\n",
            },
            count("AskAPatient.fold-0.test.txt"),
            linked,
        ),
        "cometa": Sample(
            "cometa",
            {
                "test.csv": b'ID\tTerm\tGeneral SNOMED ID\tMore\n4\tBrain "fog\t386806002\tx\n9\tnull\t22253000\tx\n',
                "names.txt": b"22253000||Pain\n386806002||Impaired cognition\n",
            },
            lambda files: len(lines(files["test.csv"])) - 1 + not_cui_less(files["names.txt"], 0),
            named,
        ),
        "rescnn": Sample(
            "rescnn",
            {
                "data.json": b'{"train": [["acid", "D1"]], "dev": [], "test": [["x|y", "D1"], ["nan", "D2"]]}',
                "entities.txt": b"D1\tAcids, Acyclic\n",
            },
            lambda files: len(json.loads(files["data.json"].decode("utf-8-sig"))["test"]),
            linked,
        ),
        "wsd": Sample(
            "wsd",
            {
                "ALL.data.xml": XML,
                "ALL.gold.key.txt": b"one.d0.s0.t0 dog%1:03:00::\ntwo.d0.s0.t0 soon%4:02:00::\n",
                **WORDNET,
            },
            lambda files: sum(bool(line.decode().split()) for line in lines(files["ALL.gold.key.txt"])),
            lambda items: sum(len(data.occurrences) for data in items),
        ),
    }.items()
}  # fmt: skip
"""By name; the names of the parsers, with a suffix where one has several."""
