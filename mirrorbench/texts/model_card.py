"""The model card of a tuned encoder: hub metadata, recipe, corpus, scores and usage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.models.backbones import BACKBONES, EMBEDDED
from mirrorbench.models.pooling import parse_layers
from mirrorbench.texts.held_out import HELD_OUT_METRICS

if TYPE_CHECKING:
    from mirrorbench.texts.tune import TunedEncoder

TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
# From the backbones' cards on the hub.
_LICENCES = {
    "bert": "apache-2.0", "mbert": "apache-2.0", "roberta": "mit", "xlmr": "mit", "deberta": "mit", "pubmedbert": "mit",
}  # fmt: skip
_PAPERS = {
    "mirror": "[Mirror-BERT](https://aclanthology.org/2021.emnlp-main.109)",
    "mirrorwic": "[MirrorWiC](https://aclanthology.org/2021.conll-1.44)",
}


def write_card(folder: Path, tuned: TunedEncoder, backbone: Path | None) -> None:
    """Write ``README.md``, which quotes none of the user's texts; ``backbone`` is a local folder or ``None``."""
    from jinja2 import Environment, StrictUndefined

    layers = parse_layers(tuned.pooling.layers)
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        metadata=_metadata(tuned, backbone),
        name=tuned.folder.resolve().name,
        tuned=tuned,
        report=tuned.held_out,
        recipe=tuned.recipe,
        pooling=tuned.pooling,
        method=_PAPERS.get(tuned.spec.method, f"`{tuned.spec.method}`"),
        corpus=tuned.corpus["name"].removeprefix("./"),
        layers=":".join("" if bound is None else str(bound) for bound in (layers.start, layers.stop)),
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _metadata(tuned: TunedEncoder, backbone: Path | None) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    name, report = tuned.spec.backbone, tuned.held_out
    hub_id = BACKBONES[name].hub_id if name in BACKBONES else name
    named = not tuned.spec.is_path and hub_id != EMBEDDED and not Path(hub_id).exists()
    scores = [
        EvalResult(
            task_type="sentence-similarity",
            dataset_type="text",
            dataset_name=f"held-out lines of {tuned.corpus['name'].removeprefix('./')}",
            metric_type=metric.replace("@", "_at_"),
            metric_name=title,
            metric_value=round(report.after[metric], 4),
        )
        for metric, (title, _) in HELD_OUT_METRICS.items()
        if report
    ]
    data = ModelCardData(
        model_name=tuned.folder.resolve().name,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "feature-extraction", "sentence-similarity", "mirrorbench", tuned.spec.method],
        base_model=hub_id if named else None,
        license=_LICENCES.get(name) or _licence_of(backbone),
        eval_results=scores or None,
    )
    return str(data.to_yaml()).strip()


def _licence_of(backbone: Path | None) -> str | None:
    """The licence in the backbone's own card, if its folder has one."""
    from huggingface_hub import ModelCard

    card = backbone / "README.md" if backbone else None
    if card is None or not card.is_file():
        return None
    try:
        licence = ModelCard.load(card, ignore_metadata_errors=True).data.license
    except (ValueError, OSError):
        return None
    return str(licence) if licence else None
