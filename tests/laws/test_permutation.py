"""Every order is a permutation, and as good a shuffle as Fisher-Yates by every measure that we know.

Seeds and the alarm level are fixed: no measure here may lie more than ALARM standard deviations from what a uniform
permutation gives. Fisher-Yates passes the same battery, and orders known to be bad must not.
"""

import itertools
from collections.abc import Callable, Iterator
from math import sqrt

import numpy as np
import pytest

from tokenriver import sampler
from tokenriver.errors import InputError
from tokenriver.sampler import Sampler, epoch_keys, permute, unpermute
from tokenriver.types import Int64

ALARM = 4.5
Order = Callable[[int, int], Int64]


def feistel(size: int, seed: int) -> Int64:
    """The network by itself, also where the product sorts."""
    points = np.arange(size, dtype=np.uint64)
    sampler._walk(points, size, epoch_keys("test", seed, 0, ""))
    return points.astype(np.int64)


def keyed(size: int, seed: int) -> Int64:
    """What the product does for this size."""
    return permute(np.arange(size, dtype=np.int64), size, epoch_keys("test", seed, 0, ""))


def fisher_yates(size: int, seed: int) -> Int64:
    return np.random.default_rng(seed).permutation(size)


def affine(size: int, seed: int) -> Int64:
    """A linear congruence: a bijection (size is prime) and no shuffle."""
    return (np.arange(size, dtype=np.int64) * (2 * seed + 1001) + 17 * seed) % size


def two_rounds(size: int, seed: int) -> Int64:
    points = np.arange(size, dtype=np.uint64)
    sampler._walk(points, size, epoch_keys("test", seed, 0, "")[:2])
    return points.astype(np.int64)


# ------------------------------------------------------------------------------------------- bijection


def is_bijection(order: Int64) -> bool:
    return bool(np.array_equal(np.bincount(order, minlength=len(order)), np.ones(len(order), np.int64)))


@pytest.mark.parametrize("wide", [False, True])
def test_the_network_is_a_bijection_for_every_small_size(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "WIDE_FROM", 0 if wide else 1 << 48)
    assert [size for size in range(1, 3001) if not is_bijection(feistel(size, size))] == []


def test_the_order_is_a_bijection_for_every_small_size() -> None:
    assert [size for size in range(1, 3001) if not is_bijection(keyed(size, size))] == []


@pytest.mark.parametrize("power", range(2, 21))
def test_sizes_beside_powers_of_two(power: int) -> None:
    for size in (2**power - 1, 2**power, 2**power + 1):
        assert is_bijection(keyed(size, 1)), size
        assert is_bijection(feistel(size, 2)), size


@pytest.mark.parametrize("size", [2**40 + 1, 10**15, 2**62])
def test_no_row_comes_twice_in_a_stretch_of_a_huge_epoch(size: int) -> None:
    places = np.concatenate([np.arange(200_000), size - 1 - np.arange(200_000)])
    rows = permute(places, size, epoch_keys("test", 0, 0, ""))
    assert len(np.unique(rows)) == len(places)
    assert rows.min() >= 0
    assert rows.max() < size


@pytest.mark.parametrize("wide", [False, True])
def test_the_way_back_of_the_network(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "WIDE_FROM", 0 if wide else 1 << 48)
    for size in range(1, 600):
        points = feistel(size, size).astype(np.uint64)
        sampler._walk(points, size, epoch_keys("test", size, 0, ""), backwards=True)
        assert np.array_equal(points, np.arange(size)), size


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 65_535, 65_536, 65_537, 10**6 + 3, 2**40 + 1, 10**15 + 37, 2**62])
def test_the_way_back(size: int) -> None:
    count, keys = min(size, 30_000), epoch_keys("test", 3, 0, "")
    places = np.unique(np.concatenate([np.arange(count), size - 1 - np.arange(count)]))
    assert np.array_equal(unpermute(permute(places, size, keys), size, keys), places)
    assert np.array_equal(permute(unpermute(places, size, keys), size, keys), places)


@pytest.mark.parametrize("order", ["shuffled", "sequential"])
@pytest.mark.parametrize("size", [1, 7, 1000, 70_000])
def test_row_numbers_of_rows(order: str, size: int) -> None:
    numbers = np.arange(3 * size, 5 * size, dtype=np.int64)[::-7]
    made = Sampler(size, global_batch=1, seed=4, order=order, source="a")
    assert np.array_equal(made.numbers(*made.locate(numbers)), numbers)


def test_an_order_without_a_way_back_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sampler.ORDERS, "one-way", Sampler._sequential)
    made = Sampler(5, global_batch=1, order="one-way")
    with pytest.raises(InputError, match="order: got 'one-way', expected shuffled or sequential"):
        made.numbers(np.arange(2), np.zeros(2, np.int64))


# ------------------------------------------------------------------------------------------- quality


def chi_square(counts: np.ndarray, expected: np.ndarray, freedom: int) -> float:
    """Deviation in standard deviations, by Wilson and Hilferty's cube root."""
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom)))


def table(first: Int64, second: Int64, size: int, bins: int) -> np.ndarray:
    cells = (first * bins // size) * bins + second * bins // size
    return np.bincount(cells, minlength=bins * bins)


def widths(size: int, bins: int) -> np.ndarray:
    return np.bincount(np.arange(size) * bins // size, minlength=bins)


def battery(order: Order, size: int, seeds: int) -> Iterator[tuple[str, float]]:
    """(measure, deviation in standard deviations) over the orders of so many consecutive seeds."""
    orders = [order(size, seed) for seed in range(seeds)]
    whole, pairs = np.concatenate(orders), np.concatenate([o[: size // 2 * 2].reshape(-1, 2) for o in orders])
    places = np.tile(np.arange(size), seeds)
    for bins in (16, 32):
        wide = widths(size, bins)
        yield (
            f"place x row, {bins}",
            chi_square(table(places, whole, size, bins), np.outer(wide, wide).ravel() * seeds / size, (bins - 1) ** 2),
        )
        # two places never hold one row: a cell on the diagonal has one row fewer to give
        both = (np.outer(wide, wide) - np.diag(wide)).ravel() * len(pairs) / (size * (size - 1))
        yield (
            f"neighbours, {bins}",
            chi_square(table(pairs[:, 0], pairs[:, 1], size, bins), both, bins * bins - 1 - (bins - 1)),
        )
    yield "gaps", gap_law(np.abs(np.diff(pairs, axis=1)).ravel(), size)
    low = (pairs[:, 0] & 7) * 8 + (pairs[:, 1] & 7)
    of = np.bincount(np.arange(size) & 7)
    yield (
        "low bits of neighbours",
        chi_square(
            np.bincount(low, minlength=64),
            (np.outer(of, of) - np.diag(of)).ravel() * len(pairs) / (size * (size - 1)),
            56,
        ),
    )
    triples = np.concatenate([o[: size // 3 * 3].reshape(-1, 3) & 1 for o in orders]) @ np.array([4, 2, 1])
    yield "parity of three", chi_square(np.bincount(triples, minlength=8), parities(size) * len(triples), 6)
    yield "fixed points", (sum(int((o == np.arange(size)).sum()) for o in orders) - seeds) / sqrt(seeds)
    same = sum(int((a == b).sum()) for a, b in itertools.pairwise(orders))
    yield "agreement of seeds", (same - (seeds - 1)) / sqrt(seeds - 1)
    serial = np.array([np.corrcoef(o[:-1], o[1:])[0, 1] for o in orders]) * sqrt(size)
    yield "serial correlation", float(serial.sum()) / sqrt(seeds)
    yield "spread of serial correlation", (float(serial.std()) - 1) * sqrt(2 * seeds)


def gap_law(gaps: Int64, size: int) -> float:
    """A gap of d has probability 2 (size - d) / (size (size - 1)); 32 cells of about equal probability."""
    d = np.arange(1, size)
    law = 2 * (size - d) / (size * (size - 1))
    cell = np.minimum((np.cumsum(law) * 32).astype(np.int64), 31)
    counts = np.bincount(cell[gaps - 1], minlength=32)
    return chi_square(counts, np.bincount(cell, law) * len(gaps), 31)


def parities(size: int) -> np.ndarray:
    """Probability of each pattern of low bits of three rows drawn without return."""
    left = [(size + 1) // 2, size // 2]
    found = []
    for pattern in range(8):
        have, total, chance = left.copy(), size, 1.0
        for bit in (pattern >> 2 & 1, pattern >> 1 & 1, pattern & 1):
            chance *= have[bit] / total
            have[bit] -= 1
            total -= 1
        found.append(chance)
    return np.array(found)


@pytest.mark.parametrize(
    ("order", "size", "seeds"),
    [
        (fisher_yates, 4_099, 1_500),
        (keyed, 4_099, 1_500),
        (feistel, 4_099, 1_500),
        (fisher_yates, 100_003, 120),
        (keyed, 100_003, 120),
    ],
)
def test_no_measure_tells_the_order_from_a_uniform_one(order: Order, size: int, seeds: int) -> None:
    found = dict(battery(order, size, seeds))
    assert {name: z for name, z in found.items() if not abs(z) < ALARM} == {}
    assert len(found) == 11


@pytest.mark.parametrize("order", [affine, two_rounds])
def test_the_battery_tells_a_bad_order(order: Order) -> None:
    assert sum(not abs(z) < ALARM for _, z in battery(order, 4_099, 300)) >= 3


@pytest.mark.parametrize("size", [10**9, 10**12])
def test_batches_of_a_huge_epoch_vary_as_draws_without_return_do(size: int) -> None:
    """How many of a batch's rows lie in a block of 2 % of the epoch: the variance over 400 batches of 512."""
    share, batches, rows = 0.02, 400, 512
    ratios = []
    for seed in range(12):
        drawn = Sampler(size, global_batch=rows, seed=seed).locate(np.arange(batches * rows))[0].reshape(batches, rows)
        for begin in (0.0, 0.31, 0.77):
            inside = (drawn >= begin * size) & (drawn < (begin + share) * size)
            ratios.append(inside.sum(axis=1).var() / (rows * share * (1 - share)))
    assert abs(np.mean(ratios) - 1) < ALARM * sqrt(2 / batches / len(ratios))


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_every_permutation_of_a_few_rows_is_equally_likely(size: int) -> None:
    count = int(np.prod(np.arange(1, size + 1)))
    trials = 30 * count
    codes = [int(keyed(size, seed) @ (10 ** np.arange(size))) for seed in range(trials)]
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == count
    assert abs(chi_square(counts, np.full(count, 30.0), count - 1)) < ALARM


def test_epochs_of_one_seed_agree_no_more_than_chance() -> None:
    for size in (4_099, 100_003):
        rows = Sampler(size, global_batch=1, seed=1).locate(np.arange(30 * size))[0].reshape(30, size)
        same = sum(int((a == b).sum()) for a, b in itertools.pairwise(rows))
        assert abs(same - 29) < ALARM * sqrt(29)
