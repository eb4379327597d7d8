"""Mixtures, written again from docs/mixtures.md alone: one row at a time, in whole numbers."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

Weights = Mapping[str, Fraction]
"""Shares of the rows by name, of any sum."""


class NoRowError(Exception):
    """A source's share rounds to no row of a period."""


def counts(weights: Weights, period: int) -> dict[str, int]:
    """Whole rows of a period, by largest remainders, of equal ones the earlier name's."""
    total = sum(weights.values())
    exact = {name: weights[name] * period / total for name in sorted(weights)}
    whole = {name: int(share) for name, share in exact.items()}
    left = period - sum(whole.values())
    for name in sorted(exact, key=lambda name: (whole[name] - exact[name], name))[:left]:
        whole[name] += 1
    if not all(whole.values()):
        raise NoRowError
    return whole


def placed(weights: Weights, period: int) -> Iterator[str]:
    """The source of each row, for ever. Of q rows in a period of P, row j may come from place j P / q on, and must have
    come before (j + 1) P / q; of those that may come that comes next which must come first."""
    whole, rows, place = counts(weights, period), dict.fromkeys(sorted(weights), 0), 0
    total = sum(whole.values())
    while True:
        waiting = [name for name, row in rows.items() if row * total // whole[name] <= place]
        name = min(waiting, key=lambda name: (-(-(rows[name] + 1) * total // whole[name]), name))
        rows[name] += 1
        place += 1
        yield name


def endless(stages: Sequence[tuple[int, Weights]], period: int) -> Iterator[str]:
    """The source of each row where sources are repeated; other weights from some row numbers on."""
    ends = [row for row, _ in stages[1:]]
    for _, weights in stages:
        counts(weights, period)
    for (first, weights), end in zip(stages, [*ends, None], strict=True):
        run = placed(weights, period)
        if end is None:
            yield from run
        for _ in range(first, end or first):
            yield next(run)


def turn(weights: Weights, sizes: Mapping[str, int], exhausted: str, period: int) -> list[str]:
    """The source of each row until a source has been served once ("stop"), or all have ("renormalise")."""
    found: list[str] = []
    left = dict(sizes)
    while left:
        for name in placed({name: weights[name] for name in left}, period):
            found.append(name)
            left[name] -= 1
            if not left[name]:
                break
        if exhausted == "stop":
            break
        left = {name: rows for name, rows in left.items() if rows}
    return found
