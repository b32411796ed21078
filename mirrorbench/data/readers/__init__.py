"""Readers of files, one for each format, shared by tasks, corpora, tuning, encoding and own data.

``files`` opens bytes, ``text`` reads lines; ``csv_tables``, ``json_rows``, ``parquet`` and ``spreadsheets`` read columns;
``rows`` reads a user's file in whichever of these formats it has. ``dataset_tables`` reads tables of published data sets,
whose columns are known.
"""

from __future__ import annotations
