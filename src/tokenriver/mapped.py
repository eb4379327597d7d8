"""The ids of a river, or of several end to end, where they lie in mapped files: cut out as they are stored, or spread
over the cells of a batch by compiled code."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tokenriver import compiled
from tokenriver.errors import FormatError
from tokenriver.extents import Cuts, Extents
from tokenriver.types import PADDING, Ids, Int64

KINDS = (2, 4, -4, 8, -8)
"""Bytes of the ids that compiled code reads, negative for those with a sign."""
# pieces of windows that are cut beforehand, 20 bytes each
MAX_PIECES = 1 << 18

Raw = Callable[[int, int], Ids]
Spread = Callable[[int, int, Int64, Int64], bool]


@dataclass(frozen=True, slots=True)
class Mapped:
    """All ids, of one dtype."""

    extents: Extents
    dtype: np.dtype[Any]

    def cut(self, starts: Int64, sizes: Int64 | int) -> Raw | None:
        """Look up where many windows or runs lie, for calls to come: raw(first, last) is the ids of those from first to
        last, one after another, as they are stored, and one more cell of any value, to be used as one likes. None where
        that gains nothing, or where one lies outside."""
        known = int(self.extents.ends[-2]) if len(self.extents) else 0
        lowest = 0 if isinstance(sizes, int) else PADDING
        if not len(starts) or starts.item(starts.argmin()) < lowest or int((starts + sizes).max()) > known:
            return None
        met = self.extents.met(starts, sizes)
        # of tiny extents a window has so many that nothing is gained
        if int(met[1].sum()) > MAX_PIECES:
            return None
        return partial(self._ids, self.extents.cut(starts, sizes, met))

    def _ids(self, cuts: Cuts, first: int, last: int) -> Ids:
        found: Ids = np.frombuffer(cuts.joined(first, last, self.dtype.itemsize), self.dtype)
        if self.dtype.kind == "i":
            refuse_negative(found[:-1])
        return found

    def spread(self, starts: Int64, sizes: Int64, *, chained: bool) -> Spread | None:
        """Compiled code for runs of `sizes` positions, which have one id more (or, where they are chained, as many
        ids), and of padding, which starts at -1: spread(first, last, inputs, targets) fills rows, (k, T + 1) int64
        both, with those from first to last. It is False, and the rows hold any values, if an id is negative or beyond
        int64. None where there is no such code."""
        kind = -self.dtype.itemsize if self.dtype.kind == "i" else self.dtype.itemsize
        code = compiled.COMPILED
        if code is None or kind not in KINDS or not self.dtype.isnative or not len(self.extents):
            return None
        views = self.extents.views
        # the last extent is zeros without an end
        which, shift, ends = (column[:-1] for column in (self.extents.which, self.extents.shift, self.extents.ends))
        return partial(code.spread, views, which, shift, ends, kind, not chained, starts, sizes)


def refuse_negative(ids: Ids) -> None:
    """FormatError for a negative id."""
    if ids.size and int(ids.min()) < 0:
        raise FormatError(f"id: got {int(ids.min())}, expected at least 0; the file holds something else than ids")
