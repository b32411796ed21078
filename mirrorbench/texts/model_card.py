"""The report of a tuned encoder, and its model card, which names and quotes none of the user's data."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.adapters import is_adapted
from mirrorbench.models.backbones import BACKBONES, EMBEDDED
from mirrorbench.models.pooling import Pooling, parse_layers, prefix
from mirrorbench.models.transformations import split_post
from mirrorbench.texts.export import base_reference, kept_length
from mirrorbench.texts.model_description import licence_of
from mirrorbench.training.held_out import MEASURES
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.trajectory import Trajectory

TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
_PAPERS = {
    "mirror": "[Mirror-BERT](https://aclanthology.org/2021.emnlp-main.109)",
    "mirrorwic": "[MirrorWiC](https://aclanthology.org/2021.conll-1.44)",
}


@dataclass(frozen=True)
class TunedEncoder:
    """A tuned encoder, as ``mirrorbench.tune`` returns it.

    Attributes:
        folder: the directory; ``mirrorbench.load(folder)`` loads it.
        spec: the encoder spec with its method.
        recipe: all hyper-parameters.
        pooling: the pooling of its vectors.
        corpus: name, checksum and number of strings of its tuning corpus.
        held_out: measures on held-out texts along the tuning; ``None`` where no texts were held out.
        neighbours: a few held-out texts, each with its nearest other text before and after the tuning.
        seconds: duration of the tuning alone, also where the model came from the cache.
        from_cache: whether the model came from the cache of an earlier tuning.
    """

    folder: Path
    spec: EncoderSpec
    recipe: Recipe
    pooling: Pooling
    corpus: dict[str, Any]
    held_out: Trajectory | None
    neighbours: tuple[tuple[str, str, str], ...]
    seconds: float
    from_cache: bool = False

    def rows(self) -> list[tuple[str, ...]]:
        """Return the report on held-out texts as a heading and rows; empty where no texts were held out.

        A row has a measure's title, its value in each state of the tuning, and which direction is better.
        """
        if self.held_out is None:
            return []
        states = self.held_out.columns
        rows: list[tuple[str, ...]] = [(f"on {self.held_out.n:,} held-out lines", *states, "")]
        for name, (title, better) in MEASURES.items():
            values = [f"{state.measures[name]:.3f}" for state in states.values()]
            rows.append((title, *values, better))
        return rows

    def _repr_html_(self) -> str:
        """Return the report as a table for notebooks."""
        from tabulate import tabulate

        text = f"{self.spec}, tuned on {self.corpus['n']:,} lines: {self.folder}"
        caption = f"<p>{html.escape(text)}</p>"
        rows = self.rows()
        if not rows:
            return caption
        return caption + tabulate(rows[1:], rows[0], tablefmt="html", disable_numparse=True)


def write_card(
    folder: Path, tuned: TunedEncoder, backbone: Path | None, transformer: Transformer
) -> None:
    """Write ``README.md``, which quotes none of the user's texts and does not name their file.

    Args:
        folder: the directory of the encoder, with its weights already in it.
        tuned: the report.
        backbone: the folder of the backbone; ``None`` if unknown.
        transformer: the tuned model.
    """
    from jinja2 import Environment, StrictUndefined

    layers = parse_layers(tuned.pooling.layers)
    first_layer = "" if layers.start is None else layers.start
    end_layer = "" if layers.stop is None else layers.stop
    opener = "AutoModel"
    model_class = type(transformer.model).__name__
    # AutoModel would also open the decoder.
    if model_class.endswith("EncoderModel"):
        opener = model_class
    # An adapter is opened on its backbone, which the card names; empty for a whole model.
    adapter = ""
    if backbone and is_adapted(transformer.adaptable_model):
        adapter = base_reference(backbone)["base_model_name_or_path"]
    dense_folders = [path.name for path in folder.glob("*_Dense")]
    _, transformation = split_post(tuned.spec, tuned=True)
    spec = tuned.spec
    # The name of a backbone's directory says what it is; its path would say whose it is.
    if spec.is_path:
        spec = replace(spec, backbone=f"./{Path(spec.backbone).name}")
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    text = template.render(
        metadata=_metadata(tuned, backbone),
        name=tuned.folder.resolve().name,
        tuned=tuned,
        spec=spec,
        report=tuned.held_out,
        recipe=tuned.recipe,
        pooling=tuned.pooling,
        prompt=prefix(tuned.pooling.prompt),
        max_length=kept_length(transformer, tuned.pooling),
        opener=opener,
        has_decoder=transformer.needs_decoder,
        pads=transformer.traits.pads,
        method=_PAPERS.get(tuned.spec.method, f"`{tuned.spec.method}`"),
        post=str(transformation),
        dense=dense_folders[0] if dense_folders else "",
        adapter=adapter,
        layers=f"{first_layer}:{end_layer}",
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _metadata(tuned: TunedEncoder, backbone: Path | None) -> str:
    """Return the card's metadata as YAML.

    The measures on held-out texts are not among them: the hub would show them as scores on a data set, with its name.
    """
    from huggingface_hub import ModelCardData

    name = tuned.spec.backbone
    hub_id = BACKBONES[name].hub_id if name in BACKBONES else name
    is_on_hub = not tuned.spec.is_path and hub_id != EMBEDDED and not Path(hub_id).exists()
    data = ModelCardData(
        model_name=tuned.folder.resolve().name,
        library_name="sentence-transformers",
        tags=[
            "sentence-transformers",
            "feature-extraction",
            "sentence-similarity",
            "mirrorbench",
            tuned.spec.method,
        ],
        pipeline_tag="sentence-similarity",
        base_model=hub_id if is_on_hub else None,
        license=licence_of(name, backbone),
    )
    return str(data.to_yaml()).strip()
