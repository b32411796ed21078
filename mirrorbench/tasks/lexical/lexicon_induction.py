"""Bilingual lexicon induction: translation of words by a mapping that is learnt from a small dictionary.

The mappings are those of vecmap (Artetxe et al. 2016, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Unpack

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
"""Least variation along a direction, relative to the largest; less is due to the rounding of float32."""


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
    """Return ``pairs`` and, after them, the mutual nearest neighbours (by CSLS) among the first ``FREQUENT`` words.

    Each round learns the rotation from the pairs so far, and finds the neighbours anew (Artetxe et al., ACL 2018,
    section 3.3, without the stochastic part; Lample et al. 2018, section 2.2, "refinement"). With ``rounds`` 0,
    ``pairs`` are returned. Arguments are those of ``rotation``, the most frequent words first.
    """
    frequent_source = source[:FREQUENT]
    frequent_target = target[:FREQUENT]
    dictionary = pairs
    for _ in range(rounds):
        mapped = frequent_source @ rotation(source, target, dictionary)
        nearest_target = csls(mapped, frequent_target, 1, device)[:, 0]
        nearest_source = csls(frequent_target, mapped, 1, device)[:, 0]
        # Two words are mutual neighbours if the way from source to target and back ends at the same source word.
        way_back = nearest_source[nearest_target]
        mutual = np.flatnonzero(way_back == np.arange(len(frequent_source)))
        dictionary = np.concatenate([pairs, [mutual, nearest_target[mutual]]], axis=1)
    return dictionary


def map_orthogonal(source: Floats, target: Floats, pairs: IntArray) -> tuple[Floats, Floats]:
    """Map both spaces into one by the ``rotation`` of the source (vecmap: ``--orthogonal``)."""
    return source @ rotation(source, target, pairs), target


def map_supervised(source: Floats, target: Floats, pairs: IntArray) -> tuple[Floats, Floats]:
    """Map both spaces into one by whitening, rotation, re-weighting and de-whitening (vecmap: ``--supervised``).

    Arguments are those of ``rotation``; all vectors of the source and of the target are returned, mapped.

    Artetxe et al. (AAAI 2018, "Generalizing and Improving Bilingual Word Embedding Mappings with a Multi-Step Framework
    of Linear Transformations"), steps 1 to 4. As in the released code, both sides are re-weighted by the square root
    of the singular values, and each is de-whitened by its own training words. Directions in which the training words do
    not vary cannot be whitened (some encoders have dead dimensions), and are left out.
    """
    source_training = source[pairs[0]]
    target_training = target[pairs[1]]
    # Step 1: whiten each side by its training words.
    source_whitening = _whitening(source_training)
    target_whitening = _whitening(target_training)
    white_source = source_training @ source_whitening.matrix
    white_target = target_training @ target_whitening.matrix
    # Step 2: rotate both sides so that the components of translations correlate.
    source_rotation, correlations, target_transposed = np.linalg.svd(white_source.T @ white_target)
    target_rotation = target_transposed.T
    # Steps 3 and 4: re-weight the components by their correlation, and de-whiten. One matrix does all steps.
    weights = np.sqrt(correlations)
    source_mapping = _mapping_matrix(source_whitening, source_rotation, weights)
    target_mapping = _mapping_matrix(target_whitening, target_rotation, weights)
    return source @ source_mapping, target @ target_mapping


class _Whitening(NamedTuple):
    """A linear transformation that makes the components of words uncorrelated and of one size."""

    matrix: NDArray[np.float64]
    """Symmetric, shape (dimensions, dimensions)."""
    inverse: NDArray[np.float64]
    """The pseudo-inverse of ``matrix``."""


def _whitening(words: Floats) -> _Whitening:
    """Return the whitening of words, given as vectors (n, dimensions); directions without variation become 0."""
    _, scales, axes = np.linalg.svd(words, full_matrices=False)
    varies = scales > LEAST_VARIATION * scales[0]
    scales = scales[varies]
    axes = axes[varies]
    return _Whitening(matrix=axes.T / scales @ axes, inverse=axes.T * scales @ axes)


def _mapping_matrix(
    whitening: _Whitening, rotation: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the matrix that whitens vectors, rotates, re-weights and de-whitens them."""
    weighted = whitening.matrix @ rotation * weights
    matrix: NDArray[np.float64] = weighted @ rotation.T @ whitening.inverse @ rotation
    return matrix


MAPPINGS = {"orthogonal": map_orthogonal, "supervised": map_supervised}
"""Mappings of two spaces from training pairs, by their name in cards."""


class LexiconInduction(TaskKind[Lexicon]):
    """Translation by nearest neighbour after a linear mapping.

    All words of the dictionaries and the candidate translations are encoded. Candidates are the encoder's own
    vocabulary if it has one (static vectors), otherwise the lexicon's lists of words. Words are in lower case, and
    each is encoded once, with its language. Vectors are scaled to unit length, centred and scaled again. The mapping is
    the orthogonal Procrustes solution on the training pairs. Neighbours are ranked by CSLS among all candidates.

    Metrics: ``accuracy@1``, ``accuracy@5`` and ``mrr`` are means over source words, by the best of their translations
    (vecmap, MUSE); ``pair_accuracy@1`` and ``pair_mrr`` are means over pairs (xling-eval, which calls the latter MAP);
    ``nn_accuracy@1``, ``nn_accuracy@5`` and ``nn_mrr`` rank by cosine alone.

    A word with an all-zero vector is out of vocabulary: it is neither used for learning nor a candidate, and its pairs
    are not scored. The coverage is the share of the source words that are scored, 1 for encoders that read any text.

    Options of the card: ``train`` (size of the training dictionary: 1k, 3k, 5k), ``mapping`` (``orthogonal``, or
    ``supervised``: with whitening, re-weighting and de-whitening, vecmap's ``--supervised``), ``self_learning`` (rounds
    of extending the dictionary with orthogonal mappings, default 0), and for encoders without a vocabulary of their
    own: ``vocabulary``, corpora or text files of candidate words, the most frequent first, with ``{lang}`` for the
    language, and ``vocabulary_size``, the number of words of each (0: all).

    Args:
        name: the task's name.
        items: a ``Lexicon``, which holds the dictionaries and the candidate translations, or a function
            ``(DataStore) -> Lexicon``.
        self_learning: rounds of extending the training pairs by mutual nearest neighbours (default 0).
        mapping: ``orthogonal`` (default) or ``supervised``.
        **info: ``languages``, a source and a target (required), and other attributes of ``Task``: ``title`` (default:
            the name), ``level`` (``word``), ``corpus``, ``main_metric`` (``accuracy@1``), ``version`` (1) and
            ``identifies``.

    Raises:
        PluginError: there are not two languages.
        UsageError: there is no mapping of this name.
        DataFormatError: by ``load``, if there are no training pairs or no test pairs.
        EncodingError: by ``score``, if the encoder has no vectors for any training pair, or for any test pair.

    Example:
        A plugin makes the task in code and registers it with ``register_tasks``; mirrorbench makes it from a card of
        the kind ``lexicon-induction``. A subclass may override any method, and must implement none.

        >>> import numpy as np
        >>> from mirrorbench.plugin import Lexicon, LexiconInduction, Vectors
        >>> lexicon = Lexicon(
        ...     train=(("dog", "Hund"), ("cat", "Katze"), ("house", "Haus")),
        ...     test=(("mouse", "Maus"),),
        ... )
        >>> task = LexiconInduction("animals", lexicon, languages=("en", "de"))

        To try it without a plugin, with an encoder's vectors of the four source words and the four target words:

        >>> items = task.load(None)
        >>> source = np.eye(4, dtype=np.float32)
        >>> vectors = Vectors(task.inputs(items), np.concatenate([source, source[:, ::-1]]))
        >>> scores = task.score(items, vectors)
        >>> scores.ids, scores.metrics["accuracy@1"]
        (['mouse'], 1.0)
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
        source_list, target_list = _word_lists(card)
        return replace(
            lexicon,
            source_words=_read_word_list(source_list, card, data).texts,
            target_words=_read_word_list(target_list, card, data).texts,
        )

    def fetch(self, data: DataStore) -> None:
        """Fetch the dictionaries and the word lists."""
        super().fetch(data)
        for name in _word_lists(self.card):
            # All other lists are generated, or users' files.
            if name in builtin_cards():
                data.resolve(builtin_cards()[name])

    def identity(self, data: DataStore) -> dict[str, str]:
        """Return the checksums of dictionaries and word lists."""
        checksums = super().identity(data)
        for name in _word_lists(self.card):
            if name in builtin_cards():
                for path, sha256 in data.checksums(builtin_cards()[name]).items():
                    checksums[f"{name}/{path}"] = sha256
            elif self.card:
                checksums[name] = _read_word_list(name, self.card, data).sha256
        return checksums

    def written(self, items: Lexicon) -> str:
        """Return the dictionaries and the settings of the mapping, as text."""
        return repr((items, self.self_learning, self.mapping))

    def load(self, data: DataStore) -> Lexicon:
        """Load the checked dictionaries, in lower case."""
        return _lowered(super().load(data))

    def first(self, items: Lexicon, limit: int) -> Lexicon:
        """Return the first ``limit`` training pairs, test pairs and candidate words of each language."""
        return Lexicon(
            items.train[:limit],
            items.test[:limit],
            items.source_words[:limit],
            items.target_words[:limit],
        )

    def check(self, items: Lexicon) -> None:
        """Check that there are training pairs and test pairs."""
        if not items.train or not items.test:
            raise DataFormatError(f"task {self.name}: no training pairs, or no test pairs")

    def with_vocabulary(
        self, items: Lexicon, vocabulary: Callable[[str], Sequence[str]]
    ) -> Lexicon:
        """Replace the candidates by the encoder's own words."""
        source_language, target_language = self.languages
        source_words = tuple(vocabulary(source_language))
        target_words = tuple(vocabulary(target_language))
        return _lowered(replace(items, source_words=source_words, target_words=target_words))

    def inputs(self, items: Lexicon) -> list[TextInput]:
        """Return every word of both vocabularies, with its language."""
        source_language, target_language = self.languages
        source_words, target_words = _vocabularies(items)
        return _inputs(source_words, source_language) + _inputs(target_words, target_language)

    def texts(self, items: Lexicon) -> Mapping[str, tuple[str, ...]]:
        """Return each source word of the test pairs, with its translations."""
        translations: dict[str, tuple[str, ...]] = {}
        for word, translation in items.test:
            translations[word] = (*translations.get(word, (word,)), translation)
        return translations

    def score(self, items: Lexicon, vectors: Vectors, protocol: str = "paper") -> Scores:
        """Return the metrics and, for each covered source word, whether its nearest target word is right (1 or 0).

        Both protocols do the same.
        """
        source_language, target_language = self.languages
        source_words, target_words = _vocabularies(items)
        source = _Space(source_words, vectors(_inputs(source_words, source_language)))
        target = _Space(target_words, vectors(_inputs(target_words, target_language)))
        # Pairs whose words both have a vector, as rows of the two spaces, shape (2, pairs). Repeated test pairs count
        # once.
        train = _rows(items.train, source, target)
        test = _rows(dict.fromkeys(items.test), source, target)
        if not train.size or not test.size:
            raise EncodingError(
                f"task {self.name}: the encoder has no vectors for any pair of the dictionary"
            )

        device = vectors.device
        dictionary = self_learn(source.vectors, target.vectors, train, self.self_learning, device)
        map_spaces = MAPPINGS[self.mapping]
        mapped_source, mapped_target = map_spaces(source.vectors, target.vectors, dictionary)

        # CSLS ranks by the cosine less half of the target's crowding, its mean cosine with the nearest source words.
        queries = mapped_source[test[0]]
        crowding = neighbourhood(mapped_target, mapped_source, NEIGHBOURS, device)
        pair_ranks = ranks(queries, mapped_target, test[1], crowding / 2, device)
        pair_ranks_by_cosine = ranks(queries, mapped_target, test[1], device=device)
        # The rank of a word is that of its best translation. Words are in the order of their first pair.
        rank_of_word = _best_by_word(test[0], pair_ranks)
        rank_of_word_by_cosine = _best_by_word(test[0], pair_ranks_by_cosine)
        word_ranks = np.array(list(rank_of_word.values()))
        word_ranks_by_cosine = np.array(list(rank_of_word_by_cosine.values()))

        metrics: dict[str, float | None] = {
            "accuracy@1": accuracy_at(1, word_ranks),
            "accuracy@5": accuracy_at(5, word_ranks),
            "mrr": mean_reciprocal_rank(word_ranks),
            "nn_accuracy@1": accuracy_at(1, word_ranks_by_cosine),
            "nn_accuracy@5": accuracy_at(5, word_ranks_by_cosine),
            "nn_mrr": mean_reciprocal_rank(word_ranks_by_cosine),
            "pair_accuracy@1": accuracy_at(1, pair_ranks),
            "pair_mrr": mean_reciprocal_rank(pair_ranks),
        }
        note = (
            f"CSLS ({NEIGHBOURS} neighbours) among {len(target.words)} words, {self.mapping} mapping from "
            f"{train.shape[1]} of {len(items.train)} pairs; means over covered source words, any translation counts "
            f"(pair_: over covered pairs); out of vocabulary (all-zero vector): {source.n_missing} source, "
            f"{target.n_missing} target words"
        )
        n_test_words = len({word for word, _ in items.test})
        covered_words = [source.words[row] for row in rank_of_word]
        return Scores(
            metrics,
            ids=covered_words,
            scores=(word_ranks <= 1).astype(np.float64),
            gold=np.ones(len(word_ranks)),
            coverage=len(covered_words) / n_test_words,
            notes=(note,),
            extra={"rank": word_ranks, "nn_rank": word_ranks_by_cosine},
        )


def _inputs(words: Sequence[str], language: str) -> list[TextInput]:
    return [TextInput(word, language=language) for word in words]


def _word_lists(card: Card | None) -> list[str]:
    """Return the names of the lists of candidate words, one for each language; none without a card."""
    if card is None:
        return []
    pattern = str(card.options["vocabulary"])
    return [pattern.replace("{lang}", language) for language in card.languages]


def _read_word_list(name: str, card: Card, data: DataStore) -> Corpus:
    generated = {corpus.name: corpus for corpus in generated_corpora()}
    corpora: dict[str, Card | GeneratedCorpus] = {**builtin_cards(), **generated}
    return read_corpus(name, data, corpora, size=int(card.options.get("vocabulary_size", 0)))


class _Space:
    """The words of a vocabulary that have a vector (not all zeros), and their normalised vectors.

    Attributes:
        words: the n words with a vector, in the order of the vocabulary.
        vectors: the vectors of these words, shape (n, dimensions).
        row: the row of each word in ``vectors``.
        n_missing: number of words without a vector.
    """

    def __init__(self, words: list[str], vectors: NDArray[Any]) -> None:
        has_vector = np.any(vectors != 0, axis=1)
        if not has_vector.any():
            raise EncodingError(f"the encoder has no vector for any of {len(words)} words")
        self.words = [words[row] for row in np.flatnonzero(has_vector).tolist()]
        self.vectors = normalise(vectors[has_vector])
        self.row = {word: row for row, word in enumerate(self.words)}
        self.n_missing = len(words) - len(self.words)


def _lowered(lexicon: Lexicon) -> Lexicon:
    """Return the lexicon with all words in lower case."""
    train = tuple((source.lower(), target.lower()) for source, target in lexicon.train)
    test = tuple((source.lower(), target.lower()) for source, target in lexicon.test)
    source_words = tuple(word.lower() for word in lexicon.source_words)
    target_words = tuple(word.lower() for word in lexicon.target_words)
    return Lexicon(train, test, source_words, target_words)


def _vocabularies(lexicon: Lexicon) -> tuple[list[str], list[str]]:
    """Return the distinct words of the source and of the target: candidates in their order, then dictionary words."""
    pairs = lexicon.train + lexicon.test
    source_words = [*lexicon.source_words, *(word for word, _ in pairs)]
    target_words = [*lexicon.target_words, *(word for _, word in pairs)]
    return list(dict.fromkeys(source_words)), list(dict.fromkeys(target_words))


def _rows(pairs: Iterable[WordPair], source: _Space, target: _Space) -> IntArray:
    """Return the rows of source and target words, shape (2, n), of the pairs whose words both have a vector."""
    rows = []
    for source_word, target_word in pairs:
        if source_word in source.row and target_word in target.row:
            rows.append((source.row[source_word], target.row[target_word]))
    return np.array(rows, dtype=np.int64).reshape(-1, 2).T


def _best_by_word(source_rows: IntArray, pair_ranks: IntArray) -> dict[int, int]:
    """Return the rank of the best translation of each source word, by the word's row."""
    best: dict[int, int] = {}
    for row, rank in zip(source_rows.tolist(), pair_ranks.tolist(), strict=True):
        best[row] = min(rank, best.get(row, rank))
    return best
