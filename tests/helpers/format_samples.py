"""A small valid sample of every format, as bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Sample:
    """Files of a format, and the card's options.

    Attributes:
        parser: its name.
        files: content by path in the card.
        options: of the card.
        packed: whether ``files`` are members of one archive that the card names.
    """

    parser: str
    files: Files
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


COSIMLEX = (
    "word1	word2	context1	context2	sim1	sim2	stdev1	stdev2	pvalue	word1_context1	word2_context1	"
    "word1_context2	word2_context2"
)
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
    **{
        f"{kind}.{pos}": b"  1 This is a licence.\n"
        for kind in ("data", "index")
        for pos in ("verb", "adj")
    },
    "verb.exc": b"went go\n",
    "adj.exc": b"better good\n",
}

SAMPLES = {
    "sts": Sample(
        "sts",
        {
            "STS.input.X.txt": b'A "cat".\tA dog. \nnot\tscored\nnull\tNA\n',
            "STS.gs.X.txt": b"4.5\n\n0\n",
        },
    ),
    "stsb": Sample(
        "stsb",
        {"sts-dev.csv": b'g\tf\ty\t1\t3.200\t"A cat\tnan\ng\tf\ty\t2\t0\ta\tb\tlicence\tmore\n'},
    ),
    "sick": Sample(
        "sick",
        {
            "SICK_train.txt": b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
            b"6\ta b\tc d\t3.3\tNEUTRAL\n7\te\tf\t5\tENTAILMENT\n"
        },
    ),
    "lines": Sample("lines", {"a.txt": b"one\n\nin two||words\n"}),
    "table-tsv": Sample(
        "table",
        {"t.tsv": b'a\tb\t1\nnull\t"NA\t2\n'},
        {"format": "tsv", "columns": {"left": 0, "right": 1, "gold": 2}, "scale": [0, 5]},
    ),
    "table-csv": Sample(
        "table",
        {"t.csv": b'x,y,z,id\na,"b, ""c""",1,i\nnull,nan,2,j\n'},
        {
            "format": "csv",
            "header": True,
            "columns": {"left": "x", "right": "y", "gold": "z", "id": "id"},
            "scale": [0, 5],
        },
    ),
    "table-jsonl": Sample(
        "table",
        {"t.jsonl": b'{"l": "a", "r": "b\\u00e9", "g": 1.5}\n{"l": "null", "r": "c", "g": "2"}\n'},
        {"format": "jsonl", "columns": {"left": "l", "right": "r", "gold": "g"}, "scale": [0, 5]},
    ),
    "table-gz": Sample(
        "table",
        {"t.tsv.gz": gzip.compress(b"a\tb\t1\nc\td\t2\n", mtime=0)},
        {"format": "tsv", "columns": {"left": 0, "right": 1, "gold": 2}, "scale": [0, 5]},
    ),
    "qnli": Sample(
        "qnli",
        {
            "dev.tsv": b'index\tquestion\tsentence\tlabel\n0\tWho "said?\tHe.\tentailment\n'
            b"7\tWhen?\tnull\tnot_entailment\n"
        },
    ),
    "qqp": Sample(
        "qqp",
        {
            "q.csv": b'id,qid1,qid2,question1,question2,is_duplicate\n0,1,2,"What ""is""\nit?",null,1\n7,3,4,NA,b,0\n'
        },
    ),
    "usim": Sample(
        "usim",
        {"usim_en.txt": b"He is bright .\t2\t1.5\tbright.a 1\nbright light\t0\t1.5\tbright.a 12\n"},
    ),
    "cosimlex": Sample(
        "cosimlex",
        {
            "cosimlex_en.csv": (
                f"{COSIMLEX}\nbank\tshore\tA <strong>bank</strong> or <strong>shore</strong>\t"
                "<strong>Shore</strong>, <strong>banks</strong>\t2.5\t7\t1\t1\t0.01\tbank\tshore\tbanks\tShore\n"
            ).encode()
        },
    ),
    "am2ico": Sample(
        "am2ico",
        {
            "zh/dev.tsv": "context1\tcontext2\tlabel\n在 <word>大学</word>\t<word>NA</word> null\tT\n".encode(),
            "zh/test.tsv": b"context1\tcontext2\tlabel\n<word>a</word>\t<word>b</word>\tF\n",
        },
        {"language": "zh"},
    ),
    "xlwic": Sample(
        "xlwic",
        {
            "zh/valid.txt": "鬆\tV\t1\t2\t0\t1\t牙鬆了。\t鬆一\t1\n".encode(),
            "zh/test.txt": b"a\tV\t0\t1\t0\t2\ta b\tab\nc\tN\t0\t1\t0\t1\tc\tc\n",
            "zh/zh_test_gold.txt": b"0\n1\n",
        },
    ),
    "wic": Sample(
        "wic",
        {
            "dev.data.txt": b"board\tN\t2-0\tRoom and board .\tboards x\nrun\tV\t0-1\trun !\tto run\n",
            "dev.gold.txt": b"F\nT\n",
        },
    ),
    "wic-tsv": Sample(
        "wic-tsv",
        {
            "dev_examples.txt": b"zero\t1\tis zero\nfoot\t0\tFoot of hill\n",
            "dev_definitions.txt": b"a digit\nthe lower part\n",
            "dev_hypernyms.txt": b"digit\tnatural_number\n\n",
            "dev_labels.txt": b"T\nF\n",
        },
        {"subtask": 3},
    ),
    "xling-eval": Sample(
        "xling-eval",
        {
            "yacle.test.freq.2k.it-fr.tsv": "dedicazione\tdévouement\ndesideri\tdésirs\n".encode(),
            "yacle.train.freq.5k.it-fr.tsv": b"null\tNA\nnan\tnul\n",
        },
        {"train": "5k"},
    ),
    "multisimlex": Sample(
        "multisimlex",
        {
            "translation.csv": 'ID,EST 1,EST 2\n1,lõpmatus,null\n2,"quit, stop",NA\n'.encode(),
            "scores.csv": b"ID,ENG,EST\n1,0.5,1.7\n2,6,4.7\n",
        },
        {"languages": ["EST"]},
    ),
    "multisimlex-concepticon": Sample(
        "multisimlex-concepticon",
        {
            "V.tsv": b"ID\tSIMLEX_IDS\tENGLISH\tENGLISH_IN_SOURCE\tENGLISH_SCORE\n1\t2:1 3:1\tinfinity (end)\t"
            b"infinity end\t0.5 1\n2\t2:2\tzero\tzero\t0.5\n3\t3:2\t[null]\t\t1\n"
        },
        {"languages": ["ENGLISH"]},
    ),
    "biosyn": Sample(
        "biosyn",
        CONCEPTS,
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
    ),
    "cometa": Sample(
        "cometa",
        {
            "test.csv": b'ID\tTerm\tGeneral SNOMED ID\tMore\n4\tBrain "fog\t386806002\tx\n9\tnull\t22253000\tx\n',
            "names.txt": b"22253000||Pain\n386806002||Impaired cognition\n",
        },
    ),
    "rescnn": Sample(
        "rescnn",
        {
            "data.json": b'{"train": [["acid", "D1"]], "dev": [], "test": [["x|y", "D1"], ["nan", "D2"]]}',
            "entities.txt": b"D1\tAcids, Acyclic\n",
        },
    ),
    "wsd": Sample(
        "wsd",
        {
            "ALL.data.xml": XML,
            "ALL.gold.key.txt": b"one.d0.s0.t0 dog%1:03:00::\ntwo.d0.s0.t0 soon%4:02:00::\n",
            **WORDNET,
        },
    ),
}
"""By name; the names of the parsers, with a suffix where one has several."""
