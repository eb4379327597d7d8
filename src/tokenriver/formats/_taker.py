"""Columns that come in blocks of one size and are taken in pieces of another."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Taker:
    """Parallel columns that come in blocks, taken in other pieces."""

    def __init__(self, blocks: Iterator[tuple[NDArray[Any], ...]]) -> None:
        self._blocks = blocks
        self._left: tuple[NDArray[Any], ...] | None = None

    def take(self, count: int) -> tuple[NDArray[Any], ...]:
        """The next `count` values of each column: views if they lie in one block."""
        left = self._left or next(self._blocks)
        parts, have = [tuple(column[:count] for column in left)], min(count, len(left[0]))
        while have < count:
            left = next(self._blocks)
            parts.append(tuple(column[: count - have] for column in left))
            have += len(parts[-1][0])
        self._left = tuple(column[len(parts[-1][0]) :] for column in left)
        return parts[0] if len(parts) == 1 else tuple(map(np.concatenate, zip(*parts, strict=True)))
