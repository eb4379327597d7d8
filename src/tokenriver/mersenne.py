"""What Python's own generator of a seed draws, for files that another project made with it; never for an order of ours.

It is a Mersenne Twister (MT19937) spread from the 32-bit words of the seed. A number below n takes as many of a word's
upper bits as n has, and draws again while it is too large.
"""

from typing import TypeVar

import numpy as np

Item = TypeVar("Item")

AT_ONCE = 1 << 10
"""Words that are drawn in one call."""


def seeded(seed: int | list[int]) -> np.random.MT19937:
    """The generator at its first word. A whole seed is spread as C++, torch, numpy's legacy generator and llm.c do; a
    list of words as Python's `random` does."""
    generator = np.random.MT19937(0)
    np.random.RandomState(generator).seed(seed)
    return generator


class Dice:
    """The draws of `random.Random(seed)`, one after another."""

    def __init__(self, seed: int) -> None:
        size = abs(seed)
        words = [size >> shift & 0xFFFFFFFF for shift in range(0, max(1, size.bit_length()), 32)]
        self._generator = seeded(words)
        self._words: list[int] = []

    def below(self, size: int) -> int:
        """A whole number of [0, size); size is below 2^32."""
        spare = 32 - size.bit_length()
        while (number := self._word() >> spare) >= size:
            pass
        return number

    def shuffle(self, items: list[Item]) -> None:
        """Shuffle a list in place."""
        for place in range(len(items) - 1, 0, -1):
            other = self.below(place + 1)
            items[place], items[other] = items[other], items[place]

    def _word(self) -> int:
        if not self._words:
            self._words = self._generator.random_raw(AT_ONCE).tolist()[::-1]
        return self._words.pop()
