"""The model card of a tuned encoder: metadata for the hub, recipe, corpus, scores, and the lines that use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.models import backbones
from mirrorbench.models.pooling import parse_layers
from mirrorbench.texts.held_out import HELD_OUT_METRICS

if TYPE_CHECKING:
    from mirrorbench.runs.cells import ModelRef
    from mirrorbench.texts.tune import TunedEncoder

# Licences of the backbones that have short names, as their cards on the hub state them.
_LICENCES = {
    "bert": "apache-2.0", "mbert": "apache-2.0", "roberta": "mit", "xlmr": "mit", "deberta": "mit", "pubmedbert": "mit",
}  # fmt: skip
_PAPERS = {
    "mirror": "[Mirror-BERT](https://aclanthology.org/2021.emnlp-main.109)",
    "mirrorwic": "[MirrorWiC](https://aclanthology.org/2021.conll-1.44)",
}
_CARD = """\
---
{{ metadata }}
---

# {{ name }}

A text encoder: `{{ tuned.spec }}`, tuned with mirrorbench on {{ what }}.

| | |
|---|---|
| backbone | `{{ tuned.spec.backbone }}` |
| method | {{ method }} |
| corpus | {{ corpus }}: {{ "{:,}".format(tuned.corpus.n) }} distinct {{ what.split()[0].rstrip(",") }} |
| corpus SHA-256 | `{{ tuned.corpus.sha256 }}` |
| loss | {{ recipe.loss }}, temperature {{ "%g" % recipe.temperature }} |
| steps | {{ recipe.epochs }} epoch(s), batches of {{ recipe.batch_size }}, AdamW with {{ "%g" % recipe.lr }} |
| augmentation | {{ augmentation or "none" }} |
| pooling | {{ pooling.mode }}, layers `{{ pooling.layers }}` |
| maximum length | {{ pooling.max_length }} tokens |

{% if report -%}
## Measured

On {{ "{:,}".format(report.n) }} held-out lines, by cosine; lower is better for alignment and uniformity \
(Wang & Isola 2020).

| | before | after |
|---|---|---|
{% for title, before, after, _ in report.rows() -%}
| {{ title }} | {{ "%.4f" % before }} | {{ "%.4f" % after }} |
{% endfor %}
{% endif -%}
## Use

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
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
batch = tokenizer(texts, padding=True, truncation=True, max_length={{ pooling.max_length }}\
{% if pooling.mode == "target" %}, return_special_tokens_mask=True{% endif %}, return_tensors="pt")
{% if pooling.mode == "target" -%}
mask = (1 - batch.pop("special_tokens_mask")).unsqueeze(-1)
{% elif pooling.mode == "mean" -%}
mask = batch["attention_mask"].unsqueeze(-1)
{% endif -%}
with torch.no_grad():
{%- if pooling.last_layer_only %}
    states = model(**batch).last_hidden_state
{%- else %}
    layers = model(**batch, output_hidden_states=True).hidden_states[{{ layers }}]
states = torch.stack(layers).mean(0)
{%- endif %}
vectors = {{ "states[:, 0]" if pooling.mode == "cls" else "(states * mask).sum(1) / mask.sum(1)" }}
```
"""


def write_card(folder: Path, tuned: TunedEncoder, weights: ModelRef) -> None:
    """Write ``README.md``; the texts that were tuned on, or held out, are not in it."""
    from jinja2 import Environment, StrictUndefined

    chosen = parse_layers(tuned.pooling.layers)
    text = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(_CARD).render(
        metadata=_metadata(tuned, weights),
        name=tuned.folder.resolve().name,
        tuned=tuned,
        report=tuned.held_out,
        recipe=tuned.recipe,
        pooling=tuned.pooling,
        what="pairs of texts" if tuned.corpus["pairs"] else "texts, without labels",
        method=_PAPERS.get(tuned.spec.method, f"`{tuned.spec.method}`"),
        corpus=tuned.corpus["name"].removeprefix("./"),
        augmentation=", ".join(f"{key} {rate:g}" for key, rate in tuned.recipe.augment if rate),
        layers=":".join("" if bound is None else str(bound) for bound in (chosen.start, chosen.stop)),
    )  # fmt: skip
    (folder / "README.md").write_text(text, encoding="utf-8")


def _metadata(tuned: TunedEncoder, weights: ModelRef) -> str:
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
            metric_name=title,
            metric_value=round(tuned.held_out.after[metric], 4),
        )
        for metric, (title, _) in HELD_OUT_METRICS.items()
        if tuned.held_out
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
