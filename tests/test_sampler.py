import random
import subprocess
import sys

import numpy as np
import pytest

import naive_order
from tokenriver.errors import InputError, LimitError
from tokenriver.sampler import FEW, ORDERS, Sampler, check_rank, epoch_keys, permute, share, unpermute

SIZES = (1, 2, 3, 10, 1000, 65_535, 65_536, 65_537, 10**6, 10**9 + 7, 10**12, 2**48 - 1, 2**48, 2**50 + 1, 2**62)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", [0, 7, 2**63, -3])
def test_every_row_is_the_one_that_the_description_gives(size: int, seed: int) -> None:
    places = sorted({0, size // 3, size // 2, size - 1})
    keys = epoch_keys("tokenriver order 1", seed, 2, "")
    got = permute(np.array(places, np.int64), size, keys)
    assert got.tolist() == [naive_order.row(2 * size + p, size, seed) for p in places]


@pytest.mark.parametrize("size", [size for size in SIZES if size >= 65_536])
def test_few_points_go_where_many_go_and_come_back(size: int) -> None:
    keys = epoch_keys("tokenriver order 1", 5, 0, "")
    places = np.random.default_rng(size).integers(0, size, 4 * FEW)
    rows = permute(places, size, keys)
    assert unpermute(rows, size, keys).tolist() == places.tolist()
    for first, last in ((0, 0), (0, 1), (1, 1 + FEW), (2, 3 + FEW)):
        assert permute(places[first:last], size, keys).tolist() == rows[first:last].tolist()
        assert unpermute(rows[first:last], size, keys).tolist() == places[first:last].tolist()


def test_the_order_never_changes_from_one_version_to_the_next() -> None:
    small = Sampler(10, global_batch=1, seed=1)
    large = Sampler(10**9, global_batch=1, seed=1)
    wide = Sampler(2**50, global_batch=1, seed=1)
    assert small.locate(np.arange(10))[0].tolist() == [8, 6, 1, 2, 5, 3, 4, 9, 0, 7]
    assert large.locate(np.arange(3))[0].tolist() == [810340792, 491657993, 389822812]
    assert wide.locate(np.arange(3))[0].tolist() == [609826337558017, 37011860645721, 290354373243295]


def test_epochs_differ_and_are_whole_and_no_seed_has_the_epoch_of_another() -> None:
    orders = {}
    for seed in range(4):
        rows, epochs = Sampler(100, global_batch=1, seed=seed).locate(np.arange(400))
        assert epochs.tolist() == [g // 100 for g in range(400)]
        for epoch in range(4):
            order = rows[100 * epoch : 100 * (epoch + 1)].tolist()
            assert sorted(order) == list(range(100))
            orders[seed, epoch] = tuple(order)
    assert len(set(orders.values())) == 16


def test_sources_have_orders_of_their_own() -> None:
    web, code = (Sampler(1000, global_batch=1, source=name).locate(np.arange(1000))[0] for name in ("web", "code"))
    assert np.count_nonzero(web == code) < 10


def test_numbers_in_any_order_and_of_several_epochs() -> None:
    for size in (50, 70_000):
        sampler = Sampler(size, global_batch=1, seed=3)
        numbers = np.array([3 * size, 5, size + 1, 0, 3 * size - 1, 7])
        rows, epochs = sampler.locate(numbers)
        assert epochs.tolist() == [3, 0, 1, 0, 2, 0]
        assert rows.tolist() == [int(sampler.locate(np.array([g]))[0][0]) for g in numbers.tolist()]


def test_no_numbers_no_rows() -> None:
    assert [len(column) for column in Sampler(9, global_batch=2).locate(np.empty(0, np.int64))] == [0, 0]


def test_file_order() -> None:
    rows, epochs = Sampler(3, global_batch=1, order="sequential", seed=5).locate(np.arange(7))
    assert rows.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert epochs.tolist() == [0, 0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize("batch", range(1, 14))
@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 13, 20])
def test_ranks_share_a_step_in_order_and_evenly(batch: int, world_size: int) -> None:
    sampler = Sampler(17, global_batch=batch, seed=1)
    parts = [sampler.rows(11, rank, world_size).tolist() for rank in range(world_size)]
    assert [row for part in parts for row in part] == sampler.rows(11, 0, 1).tolist()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [len(part) for part in parts] == [
        stop - start for start, stop in (share(batch, r, world_size) for r in range(world_size))
    ]


@pytest.mark.parametrize(
    ("rank", "world_size"), [(-1, 2), (2, 2), (0, 0), (0, -1), (1.0, 2), (0, True), (None, 1), ("0", 1)]
)
def test_a_rank_outside_the_world_is_refused_with_both_values(rank: object, world_size: object) -> None:
    with pytest.raises(InputError) as error:
        check_rank(rank, world_size)
    assert f"got {rank!r}, {world_size!r}" in str(error.value)


def test_numpy_integers_are_ranks() -> None:
    assert check_rank(np.int32(1), np.int64(2)) == (1, 2)


def test_a_batch_larger_than_an_epoch_is_refused_with_its_rows() -> None:
    with pytest.raises(LimitError, match="got 11, expected 1 to 10, the rows of one epoch"):
        Sampler(10, global_batch=11)
    assert sorted(Sampler(10, global_batch=10).rows(0, 0, 1).tolist()) == list(range(10))


def test_an_unknown_order_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="got 'random', expected one of shuffled, sequential"):
        Sampler(10, global_batch=1, order="random")
    assert list(ORDERS) == ["shuffled", "sequential"]


def test_global_random_state_neither_matters_nor_changes() -> None:
    random.seed(1)
    np.random.seed(1)
    first = Sampler(70_000, global_batch=8, seed=4).rows(0, 0, 1).tolist()
    before = random.getstate(), str(np.random.get_state())
    assert Sampler(70_000, global_batch=8, seed=4).rows(0, 0, 1).tolist() == first
    assert (random.getstate(), str(np.random.get_state())) == before


def test_a_fresh_process_under_another_hash_seed_has_the_same_order() -> None:
    sizes = (8, 10**9)
    script = (
        "import numpy as np; from tokenriver.sampler import Sampler\n"
        f"print([Sampler(n, global_batch=1, seed=9).locate(np.arange(2 * n, 2 * n + 5))[0].tolist() for n in {sizes}])"
    )
    here = [Sampler(n, global_batch=1, seed=9).locate(np.arange(2 * n, 2 * n + 5))[0].tolist() for n in sizes]
    ran = subprocess.run([sys.executable, "-R", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(here)
