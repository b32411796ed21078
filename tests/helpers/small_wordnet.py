"""A small, made-up WordNet."""

from __future__ import annotations

from pathlib import Path

import pytest

LICENCE = "  1 This is a licence.\n"

# Two nouns, a verb with a capital, an adjective with a satellite that is marked, an adverb.
ENTRIES = {
    "noun": [
        (
            "dog_house",
            '03 n 02 dog_house 0 kennel 0 000 | outbuilding for a dog; "three dog houses"; "a kennel"',
        ),
        ("dog_house", "03 n 01 dog_house 2 000 | trouble: the usual (so it is called)"),
        (
            "dog",
            """05 n 01 dog 0 000 | a "canine" pet; "the dogs' bones, two dogs"; "Dogs bark"; "a hot-dog\"""",
        ),
    ],
    "verb": [
        (
            "google",
            '41 v 01 Google 0 000 01 + 08 00 | search; "he Googled it"; "google the word"; "it is googled"',
        )
    ],
    "adj": [
        ("fast", '00 a 01 fast 1 001 & {1} a 0000 | quick; "runs faster than null"'),
        ("quick", "00 s 02 quick(a) 0 swift 3 001 & {0} a 0000 | done soon"),
    ],
    "adv": [("soon", "02 r 01 soon 0 000 | in the near future")],
}


@pytest.fixture
def wordnet_files(tmp_path: Path) -> dict[str, Path]:
    letters = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
    for pos, entries in ENTRIES.items():
        offsets, at = [], len(LICENCE)
        for _, entry in entries:
            offsets.append(f"{at:08d}")
            at += len(entry.replace("{0}", "0" * 8).replace("{1}", "0" * 8)) + 10
        lines = [
            f"{offset} {entry.format(*offsets)}\n"
            for offset, (_, entry) in zip(offsets, entries, strict=True)
        ]
        index = {
            lemma: [o for o, (word, _) in zip(offsets, entries, strict=True) if word == lemma]
            for lemma, _ in entries
        }
        index_lines = [
            f"{lemma} {letters[pos]} {len(own)} 1 & {len(own)} 0 {' '.join(own)}  \n"
            for lemma, own in index.items()
        ]
        (tmp_path / f"data.{pos}").write_text(LICENCE + "".join(lines))
        (tmp_path / f"index.{pos}").write_text(LICENCE + "".join(index_lines))
        (tmp_path / f"{pos}.exc").write_text("went go\nbetter good well\n" if pos == "verb" else "")
    return {f"wordnet/{path.name}": path for path in tmp_path.iterdir()}
