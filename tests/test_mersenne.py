"""The draws of Python's own generator, beside Python's own generator."""

import random

import pytest

from tokenriver.mersenne import Dice


@pytest.mark.parametrize("seed", [0, 1, 7, 123, -5, 2**32 - 1, 2**32, 2**70 + 3])
def test_numbers_and_shuffles(seed: int) -> None:
    theirs, ours = random.Random(seed), Dice(seed)
    for size in [1, 2, 3, 4, 21, 255, 256, 257, 2**20, 2**31, 2**32 - 1] * 30:
        assert ours.below(size) == theirs.randrange(size)
    assert [ours.below(21) for _ in range(3000)] == [theirs.randint(0, 20) for _ in range(3000)]
    for length in (0, 1, 2, 33, 1500):
        mine, other = list(range(length)), list(range(length))
        ours.shuffle(mine)
        theirs.shuffle(other)
        assert mine == other
    assert [theirs.choice("+-*") for _ in range(50)] == ["+-*"[ours.below(3)] for _ in range(50)]
