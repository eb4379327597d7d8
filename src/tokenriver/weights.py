"""Loss masks that lie in the files of another format, as one weight an id: 1 where the id is trained, else 0."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tokenriver.errors import FormatError
from tokenriver.lossmask import Trains
from tokenriver.river import Out, River
from tokenriver.types import Bools, Int64


class WeightMask:
    """A river of weights beside a river of ids; threads may share it."""

    def __init__(self, path: Path, weights: River) -> None:
        """`path` names the corpus in errors."""
        self._path, self._weights = path, weights

    def at(self, positions: Int64) -> Bools:
        """Of each river position, any shape, all inside the river: is the id there trained? FormatError for a weight
        that is neither 0 nor 1."""
        found: Out = np.empty((positions.size, 1), self._weights.dtype)
        if positions.size:
            self._weights.gather(positions.reshape(-1), 1, found)
        return self._trained(found).reshape(positions.shape)

    def cut(self, starts: Int64, sizes: Int64) -> Trains:
        """See lossmask.Trained; FormatError as `at`."""
        return lambda first, last: self._take(starts[first:last], sizes[first:last])

    def _take(self, starts: Int64, sizes: Int64) -> Bools:
        found: Out = np.empty((1, int(sizes.sum())), self._weights.dtype)
        self._weights.take(starts, sizes, found)
        return self._trained(found).reshape(-1)

    def blocks(self, start: int, stop: int) -> Iterator[Bools]:
        """The mask of the ids [start, stop) of the river, in order, a million at a time."""
        return map(self._trained, self._weights.blocks(start, stop))

    def count(self) -> int:
        """How many ids of the river are trained; reads all weights."""
        return sum(int(np.count_nonzero(block)) for block in self.blocks(0, self._weights.num_tokens))

    def _trained(self, weights: Out) -> Bools:
        if weights.size and int(weights.max()) > 1:
            raise FormatError(
                f"{self._path}: loss_mask: got a weight of {int(weights.max())}, expected 0 or 1; make the file anew"
            )
        trained: Bools = weights != 0
        return trained
