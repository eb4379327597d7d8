"""The 32-bit words of a Mersenne Twister (MT19937), by their place: what every order of this folder draws from."""

from collections.abc import Sequence

import numpy as np

from tokenriver.mersenne import seeded
from tokenriver.types import Int64

SKIP = 1 << 22
"""Words passed over in one call: between two calls a person may interrupt."""


class Words:
    """word(0), word(1), ... of one seed. A place further on is reached by drawing up to it, about 5 ns a word; one
    further back by starting anew."""

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._seed = seed if isinstance(seed, int) else list(seed)
        # the generator and its place, if nobody is using it: taken away meanwhile, so that threads need no lock
        self._idle: list[tuple[int, np.random.MT19937]] = []

    def at(self, place: int, count: int) -> Int64:
        """(count,) int64: the words place .. place + count - 1."""
        reached, generator = self._take(place)
        while reached < place:
            step = min(SKIP, place - reached)
            generator.random_raw(step, output=False)
            reached += step
        words: Int64 = generator.random_raw(count).view(np.int64)
        self._idle[:] = [(place + count, generator)]
        return words

    def _take(self, place: int) -> tuple[int, np.random.MT19937]:
        """A generator that stands at or before a place."""
        try:
            reached, generator = self._idle.pop()
        except IndexError:
            reached = place + 1
        if reached > place:
            reached, generator = 0, seeded(self._seed)
        return reached, generator


def shuffle(items: list[int], words: Int64) -> None:
    """llm.c's shuffle, in place: from the last item to the second, swapped with the one at word mod (place + 1)."""
    picks = (words % np.arange(len(items), 1, -1)).tolist()
    for place, pick in zip(range(len(items) - 1, 0, -1), picks, strict=True):
        items[place], items[pick] = items[pick], items[place]
