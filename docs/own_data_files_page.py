"""The page ``own_data_files.md``: files of own data that are read, and names of their columns, from the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

FILES = """# Files of own data

Files that [`evaluate`, `run`](own_data.md), `tune` and `encode` read. What is decided in reading is said; what is not certain
is refused with the option that decides it.

| file | read |
|---|---|
| `.csv` | separated by commas; by semicolons or tabs if all rows are, and by what a first line `sep=;` says. Then numbers may have decimal commas |
| `.tsv`; `.txt` whose first line has tabs | separated by tabs. Quotation marks [as in tables of texts](own_texts.md#tables) |
| `.jsonl`, `.ndjson`, `.json` | an object a line; an array of objects; pandas' `to_json` (`records`, `columns`, `index`, `split`, `table`) |
| the same from Label Studio (JSON, JSON-MIN, CSV, TSV) or Argilla | the first answer to each question; texts without an answer are left out and counted |
| `.parquet` (needs `mirrorbench[parquet]`) | categories too |
| `.xlsx`, `.xlsm` (needs `mirrorbench[evaluate]`) | the first sheet, whose first row holds names; values, not formulas |
| `.gz` of all but Parquet and Excel | up to 1 GiB |
| `.zip` of a folder of these | as the folder, up to 1 GiB a file; without Parquet and Excel |

- **Encoding**: UTF-8, or UTF-16 with its mark ("Unicode text" of Excel). The message for others names a command that converts.
- **Shards** of the hub (`test-00000-of-00003.parquet`) are one table, in the folder that is named or in `data` below it.
- **Tables without a header** (CSV, TSV): numbers of columns from 0. STS-B's file needs
  `--columns sentence1=5 --columns sentence2=6 --columns score=4`.
- **Folders** hold one table, or `train` and `test`, also as words in names (`SICK_train.txt`, `SICK_test_annotated.txt`).

## Retrieval

| part | files |
|---|---|
| documents | `corpus.*`, MS MARCO's `collection.*` (without a header: id, text), or a folder `corpus` |
| queries | `queries.*`, or a folder `queries` |
| judgements | `qrels/test.*`, else of another split, or `qrels.*`, `qrels.test.tsv`, TREC's `qrels`; beside folders `data/test-*`. With a header, or of three or four columns (TREC's second says nothing) |
| candidates, for reranking | `top_ranked.*` or `top_ranked/test.*`: query and list of documents, or query and document; a run of TREC (six columns, also `.run`, `.trec`, `.txt`); two columns without a header. Others of that name are chosen as judgements are, and named |

## Names of columns

Upper and lower case are alike. A name is recognised where it can be only one column.
"""


def page() -> str:
    """The whole page."""
    from mirrorbench.own_data.layouts import (
        USUAL,
        USUAL_CANDIDATES,
        USUAL_JUDGEMENTS,
        USUAL_TEXTS,
    )

    tables = {"tables": USUAL}
    tables |= {
        {"corpus": "documents"}.get(part, part): names for part, names in USUAL_TEXTS.items()
    }
    tables["judgements"] = USUAL_JUDGEMENTS
    tables["candidates"] = {
        column: names for column, names in USUAL_CANDIDATES.items() if column != "score"
    }
    return "\n".join([FILES, *_rows(tables)]) + "\n"


def _rows(tables: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[str]:
    yield "| of | column | read as it |"
    yield "|---|---|---|"
    for of, names in tables.items():
        for column, usual in names.items():
            yield f"| {of} | `{column}` | {', '.join(f'`{name}`' for name in usual)} |"
