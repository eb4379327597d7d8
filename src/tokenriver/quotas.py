"""Weights of a mixture as an order of rows: integer quotas over a period, placed by earliest deadline.

Of q_s rows in a period of P, the j-th row of source s (from 0) may come from place floor(j * P / q_s) on and must have
come before ceil((j + 1) * P / q_s). Serving the earliest deadline first meets all of them, since the quotas sum to P,
and so no prefix of the run is ever a whole row away from a source's share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from math import gcd

import numpy as np

from tokenriver.errors import LimitError
from tokenriver.types import Int64

PERIOD = 1 << 17
"""Rows over which quotas are whole numbers, before common factors are taken out."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The order of one period: `sources` (P,) has the source at each place, `ranks` (P,) the rows of that source
    before it; `places` (P,) the places of each source's rows, source after source; `counts` (S,) sum to P."""

    counts: Int64
    sources: Int64
    ranks: Int64
    places: Int64

    @property
    def period(self) -> int:
        return len(self.sources)

    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(source, row of that source) of each row number, counted from the start of the quotas."""
        periods, places = np.divmod(numbers, self.period)
        sources = self.sources[places]
        return sources, periods * self.counts[sources] + self.ranks[places]

    def number(self, source: int, row: int) -> int:
        """The row number at which a source's row comes: the other way round."""
        return int(self.numbers(source, np.array([row], np.int64))[0])

    def numbers(self, source: int, rows: Int64) -> Int64:
        """The row numbers, (k,) int64, at which some rows of one source come."""
        periods, ranks = np.divmod(rows, self.counts[source])
        numbers: Int64 = periods * self.period + self.places[int(self.counts[:source].sum()) + ranks]
        return numbers

    def served(self, number: int) -> Int64:
        """(S,) rows of each source among the first `number` rows."""
        periods, place = divmod(number, self.period)
        return periods * self.counts + np.bincount(self.sources[:place], minlength=len(self.counts))


def make_quotas(weights: Sequence[Fraction], names: Sequence[str]) -> Quotas:
    """Quotas of rows for weights (positive, in rows) by largest remainders; LimitError for a source that gets none."""
    total = sum(weights)
    shares = [weight * PERIOD / total for weight in weights]
    counts = [int(share) for share in shares]
    left = PERIOD - sum(counts)
    # ties go to the earlier name, so that the order of a list does not matter
    by_rest = sorted(range(len(shares)), key=lambda s: (counts[s] - shares[s], names[s]))
    for source in by_rest[:left]:
        counts[source] += 1
    if 0 in counts:
        name, share = names[counts.index(0)], float(weights[counts.index(0)] / total)
        raise LimitError(
            f"mixture: source {name!r}: got a share of {share:.3g} of the rows, expected at least {1 / PERIOD:.3g}; "
            "raise its weight or leave it out"
        )
    common = gcd(*counts)
    return _place([count // common for count in counts])


def _place(counts: Sequence[int]) -> Quotas:
    period = sum(counts)
    released: list[list[int]] = [[] for _ in range(period)]
    for source in range(len(counts)):
        released[0].append(source)
    done = [0] * len(counts)
    waiting: list[tuple[int, int]] = []
    sources, ranks = np.empty(period, np.int64), np.empty(period, np.int64)
    for place in range(period):
        for source in released[place]:
            # the place by which its next row must have come
            heappush(waiting, (-(-(done[source] + 1) * period // counts[source]), source))
        released[place] = []
        _, source = heappop(waiting)
        sources[place], ranks[place] = source, done[source]
        done[source] += 1
        if done[source] < counts[source]:
            released[max(place + 1, done[source] * period // counts[source])].append(source)
    return Quotas(np.array(counts, np.int64), sources, ranks, np.argsort(sources, kind="stable"))
