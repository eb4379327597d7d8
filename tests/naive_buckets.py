"""Runs in buckets, written again from docs/packing.md alone: Python lists, one row at a time."""

from dataclasses import dataclass
from itertools import combinations

import naive_order


@dataclass
class Step:
    """One step of a run: the rows that it shows, and the shape that it has room for."""

    width: int
    rows: list[int]
    room: int


def width_of(positions: int, widths: list[int]) -> int:
    """The narrowest that is wide enough."""
    return min(width for width in widths if width >= positions)


def epoch(sizes: list[int], widths: list[int], most: dict[int, int], order: str, seed: int, number: int) -> list[Step]:
    """The steps of an epoch of rows of these sizes; most[w] rows a step in the bucket of width w."""
    steps: list[Step] = []
    for width in widths:
        rows = [row for row, size in enumerate(sizes) if width_of(size, widths) == width]
        if not rows:
            continue
        if order == "shuffled":
            name, many = f"rows of bucket {width}", len(rows)
            rows = [rows[naive_order.row(number * many + place, many, seed, name)] for place in range(many)]
        count = -(-len(rows) // most[width])
        few, more = divmod(len(rows), count)
        for step in range(count):
            take = few + (step < more)
            steps.append(Step(width, rows[:take], few + (more > 0)))
            rows = rows[take:]
    if order == "shuffled":
        many = len(steps)
        name = "steps of buckets"
        steps = [steps[naive_order.row(number * many + place, many, seed, name)] for place in range(many)]
    return steps


def least_padding(sizes: list[int], candidates: list[int], most: int) -> int:
    """The least padding that so many of the widths can have, by trying them all."""
    top = min(width for width in candidates if width >= max(sizes))
    below = [width for width in candidates if width < top]
    return min(
        sum(width_of(size, [*chosen, top]) - size for size in sizes)
        for count in range(min(most - 1, len(below)) + 1)
        for chosen in combinations(below, count)
    )
