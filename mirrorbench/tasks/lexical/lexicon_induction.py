"""Bilingual lexicon induction: translation of words by a mapping that is learnt from a small dictionary.

The mappings are those of vecmap (Artetxe et al. 2016, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, EncodingError, PluginError, unknown_name
from mirrorbench.core.vectors import unit
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.corpora import Corpus, GeneratedCorpus, read_corpus
from mirrorbench.data.generated_corpora import generated_corpora
from mirrorbench.data.items import Lexicon, WordPair
from mirrorbench.tasks.base import Scores, TaskInfo, TaskKind, Vectors
from mirrorbench.tasks.lexical.nearest_neighbours import (
    NEIGHBOURS,
    Floats,
    IntArray,
    csls,
    neighbourhood,
    ranks,
)
from mirrorbench.tasks.metrics import accuracy_at, mean_reciprocal_rank

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.store import DataStore

FREQUENT = 10_000
"""Number of most frequent words of each language that self-learning uses."""
LEAST_VARIATION = 1e-6
"""Least variation along a direction, relative to the first; less is the rounding of float32."""


def normalise(vectors: Floats) -> NDArray[np.float64]:
    """Scale to unit length, then to mean zero over all words, then to unit length (vecmap: ``unit center unit``)."""
    units = unit(vectors)
    return unit(units - units.mean(axis=0))


def rotation(source: Floats, target: Floats, pairs: IntArray) -> NDArray[np.float64]:
    """Return the orthogonal matrix W with ``source @ W`` nearest to ``target`` (least squares, Schönemann 1966).

    ``source`` and ``target`` are normalised vectors; ``pairs`` are rows of both, shape (2, p).
    """
    from scipy.linalg import orthogonal_procrustes

    result: NDArray[np.float64] = orthogonal_procrustes(source[pairs[0]], target[pairs[1]])[0]
    return result


def self_learn(
    source: Floats, target: Floats, pairs: IntArray, rounds: int, device: str = "cpu"
) -> IntArray:
    """Extend pairs in rounds by mutual nearest neighbours (by CSLS) among the first ``FREQUENT`` words.

    Each round learns the rotation again (Artetxe et al., ACL 2018, section 3.3, without the stochastic part; Lample et
    al. 2018, section 2.2, "refinement"). Arguments are those of ``rotation``, the most frequent words first.
    """
    sources, targets = source[:FREQUENT], target[:FREQUENT]
    dictionary = pairs
    for _ in range(rounds):
        mapped = sources @ rotation(source, target, dictionary)
        forward, backward = (
            csls(mapped, targets, 1, device)[:, 0],
            csls(targets, mapped, 1, device)[:, 0],
        )
        mutual = np.flatnonzero(backward[forward] == np.arange(len(sources)))
        dictionary = np.concatenate([pairs, [mutual, forward[mutual]]], axis=1)
    return dictionary


def map_orthogonal(source: Floats, target: Floats, pairs: IntArray) -> tuple[Floats, Floats]:
    """Map both spaces by the ``rotation`` of the source (vecmap: ``--orthogonal``)."""
    return source @ rotation(source, target, pairs), target


def map_supervised(source: Floats, target: Floats, pairs: IntArray) -> tuple[Floats, Floats]:
    """Map both spaces by whitening, rotation, re-weighting and de-whitening (vecmap: ``--supervised``).

    Artetxe et al. (AAAI 2018, "Generalizing and Improving Bilingual Word Embedding Mappings with a Multi-Step Framework
    of Linear Transformations"), steps 1 to 4; as in the released code both sides are re-weighted by the square root
    of the singular values, and de-whitened each by its own training words. Directions without training words, which
    cannot be whitened (some encoders have dead dimensions), are left out.
    """
    left, right = source[pairs[0]], target[pairs[1]]
    (whiten_left, dewhiten_left), (whiten_right, dewhiten_right) = map(_whitening, (left, right))
    turn_left, strength, back = np.linalg.svd((left @ whiten_left).T @ (right @ whiten_right))
    turn_right, weights = back.T, np.sqrt(strength)
    return (
        source @ (whiten_left @ turn_left * weights @ turn_left.T @ dewhiten_left @ turn_left),
        target @ (whiten_right @ turn_right * weights @ turn_right.T @ dewhiten_right @ turn_right),
    )


def _whitening(words: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The symmetric matrix that makes the components of words uncorrelated and of one size, and its inverse."""
    _, scales, axes = np.linalg.svd(words, full_matrices=False)
    kept = scales > LEAST_VARIATION * scales[0]
    scales, axes = scales[kept], axes[kept]
    return axes.T / scales @ axes, axes.T * scales @ axes


MAPPINGS = {"orthogonal": map_orthogonal, "supervised": map_supervised}
"""Mappings of two spaces from training pairs, by their name in cards."""


class LexiconInduction(TaskKind[Lexicon]):
    """Translation by nearest neighbour after a linear mapping.

    All words of the dictionaries and the candidate translations are encoded: the encoder's own vocabulary if it has one
    (static vectors), otherwise the further words of the lexicon; all in lower case, each word once. Each is encoded
    with its language; vectors are scaled to unit length, centred and scaled again. The mapping is the orthogonal
    Procrustes solution on the training pairs. Neighbours are ranked by CSLS among all candidates.

    Metrics: ``accuracy@1``, ``accuracy@5`` and ``mrr`` are means over source words, by the best of their translations
    (vecmap, MUSE); ``pair_accuracy@1`` and ``pair_mrr`` are means over pairs (xling-eval, which calls the latter MAP);
    ``nn_accuracy@1``, ``nn_accuracy@5`` and ``nn_mrr`` rank by cosine alone.

    A word with an all-zero vector is out of vocabulary: it is neither used for learning nor a candidate, and its pairs
    are not scored. The coverage is the share of the other source words, 1 for encoders that read any text.

    Options of the card: ``train`` (size of the training dictionary: 1k, 3k, 5k), ``mapping`` (``orthogonal``, or
    ``supervised``: with whitening, re-weighting and de-whitening, vecmap's ``--supervised``), ``self_learning`` (rounds
    of extending the dictionary with orthogonal mappings, default 0), and for encoders without a vocabulary of their
    own: ``vocabulary``, corpora or text files of candidate words, the most frequent first, with ``{lang}`` for the
    language, and ``vocabulary_size``, the number of words of each (0: all).

    Args:
        name: the task's name.
        items: the dictionaries, or a function that reads them from a ``DataStore``.
        self_learning: rounds of self-learning.
        mapping: a name in ``MAPPINGS``.
        **info: languages (source and target), title, level, corpus, main_metric and version, see ``Task``.
    """

    items_name = "lexicon"
    item_class = Lexicon
    one_object = True
    level = "word"
    main_metric = "accuracy@1"
    from_options = ("self_learning", "mapping")
    settable: ClassVar[Mapping[str, Any]] = {
        "train": "5k",
        "vocabulary": "",
        "vocabulary_size": 0,
        "self_learning": 0,
        "mapping": "orthogonal",
    }

    def __init__(
        self,
        name: str,
        items: Any,
        self_learning: int = 0,
        mapping: str = "orthogonal",
        **info: Unpack[TaskInfo],
    ) -> None:
        super().__init__(name, items, **info)
        if len(self.languages) != 2:
            raise PluginError(
                f"the task {name!r} has the languages {self.languages}",
                "Name a source and a target.",
            )
        if mapping not in MAPPINGS:
            raise unknown_name("mapping", mapping, list(MAPPINGS))
        self.self_learning = int(self_learning)
        self.mapping = mapping

    @classmethod
    def parsed(cls, card: Card, data: DataStore) -> Lexicon:
        """Read the dictionaries in a card's files, and its candidate words."""
        lexicon: Lexicon = super().parsed(card, data)
        source, target = (_words(card, name, data).texts for name in _word_lists(card))
        return replace(lexicon, source_words=source, target_words=target)

    def fetch(self, data: DataStore) -> None:
        """Fetch the dictionaries and the word lists."""
        super().fetch(data)
        for name in _word_lists(self.card):
            if name in builtin_cards():
                data.resolve(builtin_cards()[name])

    def identity(self, data: DataStore) -> dict[str, str]:
        """Return the checksums of dictionaries and word lists."""
        checksums = super().identity(data)
        for name in _word_lists(self.card):
            if name in builtin_cards():
                checksums |= {
                    f"{name}/{path}": sha
                    for path, sha in data.checksums(builtin_cards()[name]).items()
                }
            elif self.card:
                checksums[name] = _words(self.card, name, data).sha256
        return checksums

    def written(self, items: Lexicon) -> str:
        """Return the dictionaries and the settings of the mapping, as text."""
        return repr((items, self.self_learning, self.mapping))

    def load(self, data: DataStore) -> Lexicon:
        """Load the checked dictionaries, in lower case."""
        return _lowered(super().load(data))

    def first(self, items: Lexicon, limit: int) -> Lexicon:
        """Return the first pairs of both parts, and the first further words."""
        return Lexicon(
            items.train[:limit],
            items.test[:limit],
            items.source_words[:limit],
            items.target_words[:limit],
        )

    def check(self, items: Lexicon) -> None:
        """Check that there are training pairs and test pairs."""
        if not items.train or not items.test:
            raise DataFormatError(f"task {self.name}: no pairs to learn from, or none to find")

    def with_vocabulary(
        self, items: Lexicon, vocabulary: Callable[[str], Sequence[str]]
    ) -> Lexicon:
        """Replace the candidates by the encoder's own words."""
        source, target = (tuple(vocabulary(language)) for language in self.languages)
        return _lowered(replace(items, source_words=source, target_words=target))

    def inputs(self, items: Lexicon) -> list[TextInput]:
        """Return every word of both vocabularies, with its language."""
        source, target = _vocabularies(items)
        return [*self._inputs(source, 0), *self._inputs(target, 1)]

    def texts(self, items: Lexicon) -> Mapping[str, tuple[str, ...]]:
        """Return each source word of the test pairs, with its translations."""
        translations: dict[str, tuple[str, ...]] = {}
        for word, translation in items.test:
            translations[word] = (*translations.get(word, (word,)), translation)
        return translations

    def _inputs(self, words: list[str], side: int) -> list[TextInput]:
        return [TextInput(word, language=self.languages[side]) for word in words]

    def score(self, items: Lexicon, vectors: Vectors, protocol: str = "paper") -> Scores:
        """Map the source words, rank their translations, and average; both protocols do the same."""
        source, target = (
            _Space(words, vectors(self._inputs(words, side)))
            for side, words in enumerate(_vocabularies(items))
        )
        train, test = (
            _rows(pairs, source, target) for pairs in (items.train, dict.fromkeys(items.test))
        )
        if not train.size or not test.size:
            raise EncodingError(
                f"task {self.name}: the encoder has no vectors for any pair of the dictionary"
            )
        device = vectors.device
        learnt = self_learn(source.vectors, target.vectors, train, self.self_learning, device)
        mapped, keys = MAPPINGS[self.mapping](source.vectors, target.vectors, learnt)
        crowding = neighbourhood(keys, mapped, NEIGHBOURS, device)
        by_csls = ranks(mapped[test[0]], keys, test[1], crowding / 2, device)
        by_cosine = ranks(mapped[test[0]], keys, test[1], device=device)
        first, nearest = (_best_by_word(test[0], pair_ranks) for pair_ranks in (by_csls, by_cosine))
        metrics: dict[str, float | None] = {}
        for prefix, best in (("", first), ("nn_", nearest)):
            metrics |= {f"{prefix}accuracy@{k}": accuracy_at(k, [*best.values()]) for k in (1, 5)}
            metrics[f"{prefix}mrr"] = mean_reciprocal_rank([*best.values()])
        metrics |= {
            "pair_accuracy@1": accuracy_at(1, by_csls),
            "pair_mrr": mean_reciprocal_rank(by_csls),
        }
        note = (
            f"CSLS ({NEIGHBOURS} neighbours) among {len(target.words)} words, {self.mapping} mapping from "
            f"{train.shape[1]} of {len(items.train)} pairs; means over covered source words, any translation counts "
            f"(pair_: over covered pairs); out of vocabulary (all-zero vector): {source.n_missing} source, "
            f"{target.n_missing} target words"
        )
        return Scores(
            metrics,
            [source.words[row] for row in first],
            np.array([rank <= 1 for rank in first.values()]),
            np.ones(len(first)),
            coverage=len(first) / len({word for word, _ in items.test}),
            notes=(note,),
            extra={"rank": np.array([*first.values()]), "nn_rank": np.array([*nearest.values()])},
        )


def _word_lists(card: Card | None) -> list[str]:
    return (
        [str(card.options["vocabulary"]).replace("{lang}", code) for code in card.languages]
        if card
        else []
    )


def _words(card: Card, name: str, data: DataStore) -> Corpus:
    generated = {corpus.name: corpus for corpus in generated_corpora()}
    known: dict[str, Card | GeneratedCorpus] = {**builtin_cards(), **generated}
    return read_corpus(name, data, known, size=int(card.options.get("vocabulary_size", 0)))


class _Space:
    """The words of a vocabulary that have a vector (not all zeros), and their normalised vectors."""

    def __init__(self, words: list[str], vectors: NDArray[Any]) -> None:
        known = np.any(vectors != 0, axis=1)
        if not known.any():
            raise EncodingError(f"the encoder has no vector for any of {len(words)} words")
        self.words = [word for word, is_known in zip(words, known, strict=True) if is_known]
        self.vectors = normalise(vectors[known])
        self.row = {word: row for row, word in enumerate(self.words)}
        self.n_missing = len(words) - len(self.words)


def _lowered(lexicon: Lexicon) -> Lexicon:
    train, test = (
        tuple((s.lower(), t.lower()) for s, t in pairs) for pairs in (lexicon.train, lexicon.test)
    )
    source, target = (
        tuple(word.lower() for word in words)
        for words in (lexicon.source_words, lexicon.target_words)
    )
    return Lexicon(train, test, source, target)


def _vocabularies(lexicon: Lexicon) -> tuple[list[str], list[str]]:
    """All words of each language, without repeats: the candidates in their order, then those of the dictionaries."""
    pairs = lexicon.train + lexicon.test
    source = dict.fromkeys([*lexicon.source_words, *(word for word, _ in pairs)])
    target = dict.fromkeys([*lexicon.target_words, *(word for _, word in pairs)])
    return list(source), list(target)


def _rows(pairs: Iterable[WordPair], source: _Space, target: _Space) -> IntArray:
    """Rows of source and target words, shape (2, n), of the pairs whose words both have a vector."""
    rows = ((source.row.get(left), target.row.get(right)) for left, right in pairs)
    return np.array([row for row in rows if None not in row], dtype=np.int64).reshape(-1, 2).T


def _best_by_word(words: IntArray, pair_ranks: IntArray) -> dict[int, int]:
    """The rank of the best translation of each source word."""
    best: dict[int, int] = {}
    for word, rank in zip(words.tolist(), pair_ranks.tolist(), strict=True):
        best[word] = min(rank, best.get(word, rank))
    return best
