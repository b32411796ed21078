"""The model card of a tuned encoder: metadata for the hub, recipe, corpus, scores, and the lines that use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.models import backbones
from mirrorbench.models.pooling import Pooling, parse_layers
from mirrorbench.texts.held_out import METRICS, TITLES, Sanity

if TYPE_CHECKING:
    from mirrorbench.runs.cells import Weights
    from mirrorbench.texts.report import Tuned

# Licences of the backbones that have short names, as their cards on the hub state them.
_LICENCES = {
    "bert": "apache-2.0", "mbert": "apache-2.0", "roberta": "mit", "xlmr": "mit", "deberta": "mit", "pubmedbert": "mit",
}  # fmt: skip
_PAPERS = {
    "mirror": "[Mirror-BERT](https://aclanthology.org/2021.emnlp-main.109)",
    "mirrorwic": "[MirrorWiC](https://aclanthology.org/2021.conll-1.44)",
}


def write_card(folder: Path, tuned: Tuned, weights: Weights) -> None:
    """Write ``README.md``; the texts that were tuned on, or held out, are not in it."""
    text = f"---\n{_metadata(tuned, weights)}\n---\n\n{_body(tuned)}"
    (folder / "README.md").write_text(text, encoding="utf-8")


def _metadata(tuned: Tuned, weights: Weights) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    known = backbones.BACKBONES.get(tuned.spec.backbone)
    hub_id = known.hub_id if known else tuned.spec.backbone
    named = not tuned.spec.is_path and hub_id != backbones.EMBEDDED and not Path(hub_id).exists()
    scores = [
        EvalResult(
            task_type="sentence-similarity",
            dataset_type="text",
            dataset_name=f"held-out lines of {tuned.corpus['name'].removeprefix('./')}",
            metric_type=metric.replace("@", "_at_"),
            metric_name=TITLES[metric],
            metric_value=round(tuned.sanity.after[metric], 4),
        )
        for metric in METRICS
        if tuned.sanity
    ]
    data = ModelCardData(
        model_name=tuned.folder.resolve().name,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "feature-extraction", "sentence-similarity", "mirrorbench", tuned.spec.method],
        base_model=hub_id if named else None,
        license=_LICENCES.get(tuned.spec.backbone) or _licence_of(weights.path),
        eval_results=scores or None,
    )
    return str(data.to_yaml()).strip()


def _licence_of(path: Path | None) -> str | None:
    """What the backbone's own card says, where it lies beside it."""
    from huggingface_hub import ModelCard

    card = path / "README.md" if path else None
    if card is None or not card.is_file():
        return None
    try:
        licence = ModelCard.load(card, ignore_metadata_errors=True).data.license
    except (ValueError, OSError):
        return None
    return str(licence) if licence else None


def _body(tuned: Tuned) -> str:
    name, corpus, recipe = tuned.folder.resolve().name, tuned.corpus, tuned.recipe
    what = "pairs of texts" if corpus["pairs"] else "texts, without labels"
    method = _PAPERS.get(tuned.spec.method, f"`{tuned.spec.method}`")
    rows = {
        "backbone": f"`{tuned.spec.backbone}`",
        "method": method,
        "corpus": f"{corpus['name'].removeprefix('./')}: {corpus['n']:,} distinct {what.split()[0].rstrip(',')}",
        "corpus SHA-256": f"`{corpus['sha256']}`",
        "loss": f"{recipe.loss}, temperature {recipe.temperature:g}",
        "steps": f"{recipe.epochs} epoch(s), batches of {recipe.batch_size}, AdamW with {recipe.lr:g}",
        "augmentation": ", ".join(f"{key} {rate:g}" for key, rate in recipe.augment if rate) or "none",
        "pooling": f"{tuned.pooling.mode}, layers `{tuned.pooling.layers}`",
        "maximum length": f"{tuned.pooling.max_length} tokens",
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    lines = [
        f"# {name}", "",
        f"A text encoder: `{tuned.spec}`, tuned with mirrorbench on {what}.",
        "", "| | |", "|---|---|", table, "",
    ]  # fmt: skip
    if tuned.sanity:
        lines += ["## Measured", "", *_scores(tuned.sanity), ""]
    lines += ["## Use", "", _usage(tuned.pooling)]
    return "\n".join(lines)


def _scores(sanity: Sanity) -> list[str]:
    rows = [f"| {TITLES[metric]} | {sanity.before[metric]:.4f} | {sanity.after[metric]:.4f} |" for metric in METRICS]
    return [
        f"On {sanity.n:,} held-out lines, by cosine; lower is better for alignment and uniformity (Wang & Isola 2020).",
        "", "| | before | after |", "|---|---|---|", *rows,
    ]  # fmt: skip


def _usage(pooling: Pooling) -> str:
    return f"""\
Put this directory, or the name of its repository, in place of `folder`. All three give the same vectors; spaces around
a text are to be stripped.

```python
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer(folder).encode(texts)
```

```python
import mirrorbench

vectors = mirrorbench.load(folder).encode(texts)
```

```python
{transformers_lines(pooling)}
```
"""


def transformers_lines(pooling: Pooling) -> str:
    """The lines that make this encoder's vectors with transformers alone, of ``folder`` and ``texts``."""
    target = pooling.mode == "target"
    extra = ", return_special_tokens_mask=True" if target else ""
    lines = [
        "import torch",
        "from transformers import AutoModel, AutoTokenizer",
        "",
        "tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()",
        f"batch = tokenizer(texts, padding=True, truncation=True, max_length={pooling.max_length}{extra}, "
        'return_tensors="pt")',
    ]
    if target:
        lines.append('mask = (1 - batch.pop("special_tokens_mask")).unsqueeze(-1)')
    elif pooling.mode == "mean":
        lines.append('mask = batch["attention_mask"].unsqueeze(-1)')
    lines.append("with torch.no_grad():")
    if pooling.last_layer_only:
        lines.append("    states = model(**batch).last_hidden_state")
    else:
        chosen = parse_layers(pooling.layers)
        span = f"{'' if chosen.start is None else chosen.start}:{'' if chosen.stop is None else chosen.stop}"
        lines.append(f"    layers = model(**batch, output_hidden_states=True).hidden_states[{span}]")
        lines.append("states = torch.stack(layers).mean(0)")
    lines.append(
        "vectors = states[:, 0]" if pooling.mode == "cls" else "vectors = (states * mask).sum(1) / mask.sum(1)"
    )
    return "\n".join(lines)
