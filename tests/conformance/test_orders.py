"""What holds for every order of another loader: a new file in orders/ is tested by being there."""

import numpy as np
import pytest

from tokenriver import registry
from tokenriver.replaying import Replay

SHARDS = ([41], [1000, 1537, 801], [64, 300, 31, 90])
every = pytest.mark.parametrize("name", registry.names("orders"))
shards = pytest.mark.parametrize("shards", SHARDS, ids=str)


def make(name: str, shards: list[int], batch: int = 2, seed: int = 3) -> Replay:
    module = registry.load("orders", name)
    made: Replay = module.replay(np.array(shards), seq_len=5, batch=batch, world_size=ranks(name), seed=seed)
    return made


def ranks(name: str) -> int:
    return 3 if registry.load("orders", name).RANKS else 1


@every
@shards
def test_windows_lie_in_the_river(name: str, shards: list[int]) -> None:
    order = make(name, shards)
    assert order.num_rows > 0
    assert order.balance["river"] == sum(shards)
    for rank in range(ranks(name)):
        starts = order.starts(0, 500, rank)
        assert starts.dtype == np.int64
        assert starts.shape == (500, 2)
        ids = 5 + (not getattr(registry.load("orders", name), "ROWS", False))
        assert 0 <= starts.min() <= starts.max() <= sum(shards) - ids


@every
@shards
def test_calls_do_not_depend_on_what_was_asked_before(name: str, shards: list[int]) -> None:
    for rank in range(ranks(name)):
        whole = make(name, shards).starts(0, 90, rank).tolist()
        order = make(name, shards)
        for first, count in ((0, 90), (30, 7), (31, 1), (89, 1), (2, 88), (0, 1), (60, 0), (60, 30), (59, 31)):
            assert order.starts(first, count, rank).tolist() == whole[first : first + count]


@every
def test_ranks_and_seeds_differ_where_they_are_known(name: str) -> None:
    module = registry.load("orders", name)
    first = make(name, [1000, 1537]).starts(0, 40, 0).tolist()
    assert (make(name, [1000, 1537], seed=4).starts(0, 40, 0).tolist() != first) == module.SEEDED
    for rank in range(1, ranks(name)):
        assert make(name, [1000, 1537]).starts(0, 40, rank).tolist() != first
