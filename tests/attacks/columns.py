"""Columns that do not fit together, given to compiled code: python -m attacks.columns LIBRARY ROUNDS

Each call either fills what a loop over lists fills, or raises, and in no case touches a cell around its outputs. The
library may be one that was compiled with sanitizers.
"""

import random
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

EDGES = (-(1 << 63), -(1 << 32), -2, -1, 0, 1, 2, 3, 1 << 31, 1 << 32, 1 << 58, 1 << 61, 1 << 62, (1 << 63) - 1)
DTYPES = {2: "<u2", 4: "<u4", -4: "<i4", 8: "<u8", -8: "<i8"}
MARK = 77
ERRORS = (ValueError, TypeError, IndexError)
Column = NDArray[Any]


def load(path: str) -> ModuleType:
    """The library at a path, whatever is installed."""
    spec = spec_from_loader("_compiled", ExtensionFileLoader("_compiled", path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fuzz(module: ModuleType, rounds: int, seed: int) -> dict[str, int]:
    """Calls that filled and calls that were refused, by function; AssertionError for one that did neither rightly."""
    draw, counts = random.Random(seed), dict.fromkeys(("spread", "runs", "sums"), 0)
    counts |= {f"{name} refused": 0 for name in tuple(counts)}
    for _ in range(rounds):
        for name, attempt in (("spread", _spread), ("runs", _runs), ("sums", _sums)):
            counts[name if attempt(module, draw) else f"{name} refused"] += 1
    return counts


def _changed(draw: random.Random, columns: Sequence[Column]) -> list[Column]:
    """Copies, of which often some have another value, another length or another dtype."""
    found = [column.copy() for column in columns]
    for _ in range(draw.choice([0, 0, 1, 1, 1, 2, 3])):
        at = draw.randrange(len(found))
        kind, column = draw.randrange(8), found[at]
        if not column.ndim or not column.size:
            continue
        if kind < 4:
            limits = np.iinfo(column.dtype)
            column[draw.randrange(len(column))] = min(max(draw.choice(EDGES), limits.min), limits.max)
        elif kind == 4:
            found[at] = column[: draw.randrange(len(column) + 1)]
        elif kind == 5:
            found[at] = column.astype(draw.choice(["<i2", "<i4", "<i8"]))
        elif kind == 6:
            found[at] = column[:: draw.choice([-1, 2])]
        else:
            found[at] = np.array(column[0])
    return found


def _alike(found: Sequence[Column], wanted: Sequence[Column]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


def _framed(shape: tuple[int, ...]) -> tuple[Column, Callable[[], bool]]:
    """Cells to fill, and whether those before and behind them are as they were."""
    whole = np.full((shape[0] + 8, *shape[1:]), MARK, np.int64)
    return whole[4:-4], lambda: bool((whole[:4] == MARK).all() and (whole[-4:] == MARK).all())


def _spread(module: ModuleType, draw: random.Random) -> bool:
    kind, chained, width = draw.choice(list(DTYPES)), draw.random() < 0.3, draw.randrange(1, 9)
    sizes, starts, cells = [], [], width + 1 if chained else width
    ids = [draw.randrange(50_000) for _ in range(draw.randrange(2, 40))]
    for _ in range(draw.randrange(4)):
        left = cells
        while left:
            n = draw.randrange(left + 1)
            room = len(ids) - n - (not chained)
            starts.append(-1 if room < 0 or draw.random() < 0.2 else draw.randrange(room + 1))
            sizes.append(n)
            left -= n
    cuts = sorted({0, len(ids), *(draw.randrange(len(ids)) for _ in range(draw.randrange(3)))})
    item, shift = abs(kind), draw.randrange(4)
    stored = np.array(ids, DTYPES[kind])
    views = [memoryview(b"\xee" * shift + stored[a:b].tobytes()) for a, b in pairwise(cuts)]
    which = np.arange(len(views), dtype=np.int32)
    shifts = np.array([shift - a * item for a in cuts[:-1]], np.int64)
    good: list[Column] = [
        which,
        shifts,
        np.array(cuts[1:], np.int64),
        np.array(starts, np.int64),
        np.array(sizes, np.int64),
    ]
    changed = _changed(draw, good)
    rows = sum(sizes) // cells
    shape = (rows + (draw.random() < 0.1), width + 1)
    (inputs, inputs_kept), (targets, targets_kept) = _framed(shape), _framed(shape)
    last = len(sizes) if draw.random() < 0.9 else draw.choice([-1, len(sizes) + 1, 1 << 62])
    try:
        filled = module.spread(views, *changed[:3], kind, not chained, *changed[3:], 0, last, inputs, targets)
    except ERRORS:
        assert (inputs == MARK).all(), "refused behind the first cell"
        return False
    finally:
        assert inputs_kept()
        assert targets_kept()
    if _alike(changed, good):
        assert filled
        wanted = _naive(ids, starts, sizes, chained, shape)
        tail = not chained
        assert inputs[:, : width + 1 - tail].tolist() == wanted[0]
        assert targets[:, tail:].tolist() == wanted[1]
    return True


def _naive(
    ids: list[int], starts: list[int], sizes: list[int], chained: bool, shape: tuple[int, int]
) -> tuple[list[list[int]], list[list[int]]]:
    """(rows of inputs, rows of targets), by lists."""
    inputs, targets = [], []
    for start, size in zip(starts, sizes, strict=True):
        inputs += ids[start : start + size] if start >= 0 else [0] * size
        first = start + (not chained)
        targets += ids[first : first + size] if start >= 0 else [-100] * size
    width = shape[1] if chained else shape[1] - 1
    lines = range(0, len(inputs), width)
    return [inputs[at : at + width] for at in lines], [targets[at : at + width] for at in lines]


def _runs(module: ModuleType, draw: random.Random) -> bool:
    tail, width = draw.random() < 0.7, draw.randrange(1, 9)
    table: list[list[tuple[int, int]]] = []
    for _ in range(draw.randrange(1, 5)):
        left, spans = width, []
        while left and draw.random() < 0.8:
            size = draw.randrange(1, left + 1)
            spans.append((draw.randrange(1 << 40), size + tail))
            left -= size
        table.append(spans)
    spans = [span for row in table for span in row]
    pairs = np.array(spans, np.int64).reshape(-1, 2)
    starts, sizes = (
        (pairs[:, 0], pairs[:, 1]) if draw.random() < 0.5 else (pairs[:, 0].copy(), pairs[:, 1].astype("<i4"))
    )
    numbers = [draw.randrange(len(table)) for _ in range(draw.randrange(30))]
    good: list[Column] = [np.cumsum([len(row) for row in table]), starts, sizes, np.array(numbers, np.int64)]
    changed = _changed(draw, good)
    ends, ends_kept = _framed((len(numbers),))
    count = sum(len(table[number]) + 1 for number in numbers)
    (out_starts, starts_kept), (out_sizes, sizes_kept) = _framed((count + (draw.random() < 0.1),)), _framed((count,))
    try:
        module.count_runs(*changed, ends)
        module.fill_runs(*changed, width, tail, out_starts, out_sizes)
    except ERRORS:
        return False
    finally:
        assert ends_kept()
        assert starts_kept()
        assert sizes_kept()
    assert (out_sizes >= 0).all()
    if _alike(changed, good):
        wanted = []
        for number in numbers:
            row = [(start, size - tail) for start, size in table[number]]
            wanted += [*row, (-1, width - sum(size for _, size in row))]
        assert list(zip(out_starts.tolist(), out_sizes.tolist(), strict=True)) == wanted
        assert ends.tolist() == np.cumsum([len(table[number]) + 1 for number in numbers]).tolist()
    return True


def _sums(module: ModuleType, draw: random.Random) -> bool:
    sizes = [draw.choice([0, 0, 1, 2, 5]) for _ in range(draw.randrange(12))]
    good = np.array(sizes, np.int64)
    (changed,) = _changed(draw, [good])
    edges, edges_kept = _framed((len(sizes) + draw.choice([0, 1, 1, 1, 2]),))
    numbers, numbers_kept = _framed((sum(sizes),))
    try:
        count = module.add_up(changed, edges)
        (some,) = _changed(draw, [edges[: count + 1]])
        module.count_up(some, numbers)
    except ERRORS:
        return False
    finally:
        assert edges_kept()
        assert numbers_kept()
    if np.array_equal(changed, good) and np.array_equal(some, edges[: count + 1]):
        assert edges[: count + 1].tolist() == [0, *np.cumsum([size for size in sizes if size]).tolist()]
        assert numbers.tolist() == [place for size in sizes for place in range(size)]
    return True


if __name__ == "__main__":
    sys.stdout.write(f"{fuzz(load(sys.argv[1]), int(sys.argv[2]), 1)}\n")
