"""The certificate of ``mirrorbench same``: whether a second encoder's vectors are the first one's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mirrorbench.agreement.diagnosis import Cause, Side, diagnose
from mirrorbench.agreement.included_texts import included_texts
from mirrorbench.agreement.measures import SAME_COSINE, Agreement
from mirrorbench.agreement.readings import ModelReader
from mirrorbench.core.encoder_protocol import Array, Encoder, TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.readers.inputs import read_inputs
from mirrorbench.own_data.evaluation import computed_evaluation
from mirrorbench.own_data.planning import Data, evaluation_plan, specs_by_name
from mirrorbench.reports.renderers.verdicts import names_of, sentence
from mirrorbench.reports.statistics.equality import requested_equality
from mirrorbench.runs.single_encoder import EncodedTexts, encode_cached

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.table import Verdict
    from mirrorbench.runs.compute import Compute
    from mirrorbench.runs.folders import Folders
    from mirrorbench.runs.outcomes import Failure, Reporter

EQUAL = "equal"
DIFFERENT = "different"
CANNOT_SAY = "cannot say"
STORED_VECTORS = "vectors"
"""Name of the encoder of stored vectors, which cannot encode a text alone."""
COSINES = (0.9999, 0.999, 0.99)
"""Cosines of which the certificate states the share of texts above."""
WORST = 10
"""Number of texts with the smallest cosines that the certificate holds."""


@dataclass(frozen=True)
class TaskAgreement:
    """Whether two encoders score equally on labelled data.

    Attributes:
        title: name of the data.
        metric: the measure.
        verdict: ``equal`` (within the margin), ``different`` or ``cannot say``.
        sentence: the verdict with difference, interval and p-values.
        difference: the second encoder's score minus the first one's; ``None`` if undefined.
    """

    title: str
    metric: str
    verdict: str
    sentence: str
    difference: float | None


@dataclass(frozen=True)
class Certificate:
    """Whether a second encoder's vectors are the first one's.

    Attributes:
        first: spec of the first encoder.
        second: spec of the second encoder.
        source: where the texts come from.
        texts: the distinct texts.
        agreement: how far the vectors of the texts agree.
        cosine: a text whose vectors have a larger cosine has the same vector.
        margin: scores that differ by less are equal.
        cause: what a difference of the vectors comes from; ``None`` if they are the same.
        tasks: the verdicts on labelled data; empty without data.
        failures: what could not be scored.
    """

    first: str
    second: str
    source: str
    texts: Sequence[str]
    agreement: Agreement
    cosine: float
    margin: float
    cause: Cause | None
    tasks: tuple[TaskAgreement, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def has_same_vectors(self) -> bool:
        """Whether every text has the same vector by both encoders."""
        return self.agreement.are_same(self.cosine)

    @property
    def verdict(self) -> str:
        """``equal``, ``different`` or ``cannot say``.

        Equal vectors are equal whatever their number of items can show. Vectors that differ are as equal as their
        scores on the labelled data, if there are any.
        """
        verdicts = {task.verdict for task in self.tasks}
        if DIFFERENT in verdicts:
            return DIFFERENT
        if self.has_same_vectors:
            return EQUAL
        if not self.tasks:
            return DIFFERENT
        return EQUAL if verdicts == {EQUAL} else CANNOT_SAY

    def to_json(self, with_texts: bool = True) -> dict[str, Any]:
        """Return the certificate as a JSON object; the worst texts only ``with_texts``."""
        agreement = self.agreement
        worst = []
        for row in agreement.worst(WORST):
            entry: dict[str, Any] = {
                "row": row,
                "cosine": float(agreement.cosines[row]),
                "characters": len(self.texts[row]),
            }
            if with_texts:
                entry["text"] = self.texts[row]
            worst.append(entry)
        return {
            "a": self.first,
            "b": self.second,
            "verdict": self.verdict,
            "texts": {
                "source": self.source,
                "number": len(self.texts),
                "same": self.has_same_vectors,
                "share_above": {str(value): agreement.share_above(value) for value in COSINES},
                "least_cosine": float(agreement.cosines.min()),
                "neighbours": agreement.neighbours,
                "dimensions": list(agreement.dimensions),
                "mean_lengths": [
                    float(agreement.first_lengths.mean()),
                    float(agreement.second_lengths.mean()),
                ],
                "worst": worst,
            },
            "cause": None if self.cause is None else asdict(self.cause),
            "tasks": [asdict(task) for task in self.tasks],
            "failures": [str(failure) for failure in self.failures],
        }


def completed_spec(spec: EncoderSpec, file: str, column: str) -> EncoderSpec:
    """Return the spec of a ``.npy`` file of vectors with the user's file of texts; other specs as they are."""
    params = dict(spec.params)
    is_without_texts = str(params.get("path", "")).endswith(".npy") and "texts" not in params
    if spec.backbone != STORED_VECTORS or not is_without_texts or not file:
        return spec
    if column:
        return spec.with_params(texts=file, column=column)
    return spec.with_params(texts=file)


def texts_to_compare(
    file: str, column: str, data: Mapping[str, Data], specs: Sequence[EncoderSpec]
) -> tuple[str, list[str]]:
    """Return where the texts come from, and the distinct texts.

    Args:
        file: the user's file of texts; empty for those of the data, else of a file of vectors, else the included ones.
        column: the column of the texts in the file; empty for the default one.
        data: labelled data by name.
        specs: the encoders.

    Raises:
        UsageError: there are no texts.
    """
    if not file and not data:
        for spec in specs:
            if spec.backbone == STORED_VECTORS and spec.get("texts"):
                file = str(spec.get("texts"))
                column = str(spec.get("column", ""))
    if file:
        source = file
        texts = [line.input.text for line in read_inputs(file, column)]
    elif data:
        source = ", ".join(data_set.title for data_set in data.values())
        texts = []
        for data_set in data.values():
            texts += [item.text for item in data_set.task.inputs(data_set.items)]
    else:
        source = "included texts"
        texts = included_texts()
    texts = list(dict.fromkeys(texts))
    if not texts:
        raise UsageError(f"{source} has no texts", "Name a file of texts: --texts FILE")
    return source, texts


def certify(
    first: EncoderSpec,
    second: EncoderSpec,
    source: str,
    texts: Sequence[str],
    data: Mapping[str, Data],
    margin: float,
    plugins: Plugins,
    folders: Folders,
    compute: Compute,
    reporter: Reporter,
    cosine: float = SAME_COSINE,
) -> Certificate:
    """Compare two encoders on texts, and on labelled data if there are any.

    Args:
        first: the encoder whose vectors the other's should be.
        second: the other one.
        source: where the texts come from.
        texts: the texts, without repeats.
        data: labelled data by name.
        margin: scores that differ by less are equal.
        plugins: the registered encoders, tasks and metrics.
        folders: the folders of results, data and cache.
        compute: device and precisions.
        reporter: receives progress and notes.
        cosine: a text whose vectors have a larger cosine has the same vector.

    Raises:
        UsageError: both are the same encoder, ``margin`` or ``cosine`` is out of range, or a spec is wrong.
    """
    if first == second:
        raise UsageError(f"{first} is compared with itself", "Name two encoders.")
    if not 0 < cosine < 1:
        raise UsageError(f"a cosine of {cosine:g} is not between 0 and 1", "Such as --cosine .999")
    equality = requested_equality(margin)
    for data_set in data.values():
        reporter.note(data_set.equality_sentence(margin))
    encoded = []
    for spec in (first, second):
        encoded.append(encode_cached(spec, texts, plugins, folders, compute, reporter))
    agreement = Agreement.of(encoded[0].vectors, encoded[1].vectors)
    cause = None
    if not agreement.are_same(cosine):
        reporter.stage("diagnosing", f"{first} and {second}")
        sides = (_side("A", encoded[0], texts), _side("B", encoded[1], texts))
        cause = diagnose(texts, *sides, agreement, cosine)
    certificate = Certificate(
        str(first), str(second), source, texts, agreement, cosine, margin, cause
    )
    if not data:
        return certificate

    rows = specs_by_name([first, second], plugins, folders)
    plan = evaluation_plan(rows, data, plugins, folders, compute, reporter)
    evaluation = computed_evaluation(
        plan, rows, data, plugins, folders, compute, reporter, equality=equality
    )
    table = evaluation.leaderboard.table
    tasks = []
    for verdict in evaluation.encoder_verdicts:
        _, words = sentence(verdict, names_of(table, verdict))
        data_set = data[verdict.column]
        tasks.append(
            TaskAgreement(
                data_set.title,
                data_set.task.main_metric,
                _verdict_on_task(verdict),
                words,
                verdict.difference,
            )
        )
    return replace(certificate, tasks=tuple(tasks), failures=tuple(evaluation.leaderboard.failures))


def _verdict_on_task(verdict: Verdict) -> str:
    if verdict.answer == "equal":
        return EQUAL
    return DIFFERENT if verdict.answer in ("better", "worse") else CANNOT_SAY


def _side(name: str, encoded: EncodedTexts, texts: Sequence[str]) -> Side:
    """Return one of the encoders as the diagnosis reads it, with the texts in the order of its vectors."""
    encoder = encoded.encoder
    encode_alone = None
    if encoded.spec.backbone != STORED_VECTORS:

        def encode_alone(text: str, encoder: Encoder = encoder) -> Array:
            vectors: Array = encoder.encode([TextInput(text)])[0]
            return vectors

    return Side(name, encoded.vectors, ModelReader.of(encoder, texts), encode_alone)
