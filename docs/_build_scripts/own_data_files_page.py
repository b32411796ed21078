"""Build the page ``own_data_files.md``: supported files of own data, and their column names, from the code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

FILES = """# Files of own data

This page lists the files that [`evaluate`, `run`](own_data.md), `tune` and `encode` read. If reading a file involves a choice,
the output says which was made. If the choice is uncertain, the file is refused, and the message names the option to set.

| file | how it is read |
|---|---|
| `.csv` | separated by commas; by semicolons or tabs if all rows are; by the separator that a first line `sep=;` names. With semicolons or tabs, numbers may have decimal commas |
| `.tsv`; `.txt` whose first line has tabs | separated by tabs. Quotation marks [as in tables of texts](own_texts.md#tables) |
| `.jsonl`, `.ndjson`, `.json` | one object per line; an array of objects; pandas' `to_json` (`records`, `columns`, `index`, `split`, `table`) |
| exports of Label Studio (JSON, JSON-MIN, CSV, TSV) or Argilla | the first answer to each question; texts without an answer are left out and counted |
| `.parquet` (needs `mirrorbench[parquet]`) | including categorical columns |
| `.xlsx`, `.xlsm` (needs `mirrorbench[evaluate]`) | the first sheet, whose first row holds the column names; values, not formulas |
| any of these with `.gz`, except Parquet and Excel | up to 1 GiB |
| `.zip` of a folder of these, without Parquet and Excel | like the folder, up to 1 GiB per file |

- **Encoding**: UTF-8, or UTF-16 with a byte order mark ("Unicode text" of Excel). For other encodings, the error message names a
  command that converts the file.
- **Shards** of the hub (`test-00000-of-00003.parquet`) form one table. They are in the given folder or in its subfolder `data`.
- **Tables without a header** (CSV, TSV): use column numbers from 0. STS-B's file needs
  `--columns sentence1=5 --columns sentence2=6 --columns score=4`.
- **Folders** hold one table, or the tables `train` and `test`. Either word may be part of a name (`SICK_train.txt`,
  `SICK_test_annotated.txt`).

## Retrieval

| part | files |
|---|---|
| documents | `corpus.*`, MS MARCO's `collection.*` (without a header: id, text), or a folder `corpus` |
| queries | `queries.*`, or a folder `queries` |
| judgements | `qrels/test.*`, otherwise another split, or `qrels.*`, `qrels.test.tsv`, TREC's `qrels`; beside folders of documents and queries also `data/test-*`. With a header, or with three or four columns (the second of TREC's four is ignored) |
| candidates, for reranking | `top_ranked.*` or `top_ranked/test.*`: query and list of documents, or query and document; a TREC run (six columns, also `.run`, `.trec`, `.txt`); two columns without a header. Other files of that name are chosen like judgements, and the output names the chosen one |

## Names of columns

Case does not matter. A name is recognised if it can mean only one column.
"""


def page() -> str:
    """Return the page."""
    from mirrorbench.own_data.layouts import (
        CANDIDATE_ALIASES,
        COLLECTION_ALIASES,
        COLUMN_ALIASES,
        JUDGEMENT_ALIASES,
    )

    tables = {"tables": COLUMN_ALIASES}
    tables |= {
        {"corpus": "documents"}.get(part, part): names for part, names in COLLECTION_ALIASES.items()
    }
    tables["judgements"] = JUDGEMENT_ALIASES
    tables["candidates"] = {
        column: names for column, names in CANDIDATE_ALIASES.items() if column != "score"
    }
    return "\n".join([FILES, *_rows(tables)]) + "\n"


def _rows(tables: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[str]:
    yield "| table | column | other names that are recognised |"
    yield "|---|---|---|"
    for of, names in tables.items():
        for column, usual in names.items():
            yield f"| {of} | `{column}` | {', '.join(f'`{name}`' for name in usual)} |"
