from __future__ import annotations

import numpy as np
import pytest
from augmented import AUGMENTATIONS

from mirrorbench.core.errors import TuningError
from mirrorbench.core.inputs import TextInput
from mirrorbench.training.methods import PairMaker, pairs_preset, text_pairs


def maker() -> PairMaker:
    recipe = pairs_preset("sentence", "bert", "paper")
    return PairMaker(recipe, np.random.default_rng(0), "[MASK]", "paper", AUGMENTATIONS)


def test_the_two_texts_are_the_views() -> None:
    made = text_pairs(["a cat\tthe cat", "x || y"], maker())
    assert [item for item in made.left] == [TextInput("a cat"), TextInput("x")]
    assert [item for item in made.right] == [TextInput("the cat"), TextInput("y")]


def test_pairs_that_share_a_text_are_one_group() -> None:
    lines = ["a||b", "c||d", "b||e", "f||g", "e||c", "h||h"]
    made = text_pairs(lines, maker())
    # by hand: a-b, b-e, e-c and c-d hang together
    together = [0, 1, 2, 4]
    groups = list(made.groups)
    assert len({groups[row] for row in together}) == 1
    assert len(set(groups)) == 3


@pytest.mark.parametrize("line", ["alone", "a||b||c", "a||", "\tb", "a\tb\tc"])
def test_no_pair(line: str) -> None:
    with pytest.raises(TuningError, match="no pair"):
        text_pairs(["a||b", line], maker())


def test_the_recipe_is_the_level_s_without_a_mask() -> None:
    recipe = pairs_preset("word", "roberta", "paper")
    assert (recipe.temperature, recipe.rate("span_mask"), recipe.rate("dropout")) == (0.2, 0, 0.1)
