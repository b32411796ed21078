"""The corpora of a plan, on which models are tuned and transformations are fitted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.data.corpora import Corpus, GeneratedCorpus, check_corpus, read_corpus
from mirrorbench.data.readers.line_parts import have_parts
from mirrorbench.data.store import DataStore
from mirrorbench.runs.backbone_files import Lookups
from mirrorbench.runs.cells import CorpusRef


class TuningCorpora:
    """Corpora, each read once.

    Args:
        plugins: the plugins that register corpora.
        data: holds the files of built-in corpora.
        note: receives remarks on how a file is read.

    Attributes:
        by_ref: the corpora read so far, each under its ``CorpusRef``.
    """

    def __init__(self, plugins: Plugins, data: DataStore, note: Callable[[str], None]) -> None:
        self.plugins = plugins
        self.data = data
        self.note = note
        self.by_ref: dict[CorpusRef, Corpus] = {}
        self._lookups = Lookups()

    def read(
        self,
        spec: EncoderSpec,
        name: str | GeneratedCorpus,
        clean: bool = True,
        for_fitting: bool = False,
    ) -> CorpusRef:
        """Read a corpus for an encoder, or the subset of it that the encoder's spec asks for.

        ``corpus_size`` is the number of texts, 0 for all. ``corpus_sample`` is the number of a random draw of them, 0
        for the first ones.

        Args:
            spec: spec of the encoder.
            name: name or path of the corpus, or own texts.
            clean: whether repeated strings, and white space at both ends, are removed.
            for_fitting: whether a transformation is to be fitted on it; then each text of a pair becomes a string by
                itself.

        Returns:
            The reference under which ``by_ref`` holds the corpus.

        Raises:
            UsageError: the corpus is unknown, or its size or sample is not a non-negative integer.
        """
        size = spec.get("corpus_size", 0)
        sample = spec.get("corpus_sample", 0)
        for key, value in (("corpus_size", size), ("corpus_sample", sample)):
            if type(value) is not int or value < 0:
                raise UsageError(f"{key} must be a non-negative integer, not {value}")
        check_corpus(name, self.plugins.corpora)
        reading = partial(
            read_corpus,
            name,
            self.data,
            self.plugins.corpora.by_name(),
            size=size,
            sample=sample,
            deduplicate=clean,
            strip=clean,
            note=self.note,
        )
        corpus = self._lookups.once((name, size, sample, clean), reading)
        if for_fitting:
            # The distinct texts of its pairs, each alone.
            corpus = corpus.alone()
        has_parts = have_parts(corpus.texts)
        ref = CorpusRef(corpus.name, size, corpus.sha256, len(corpus.texts), has_parts)
        self.by_ref[ref] = corpus
        return ref
