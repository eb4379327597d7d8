"""Which options an order of another loader takes, and how its calls become rows."""

import json
from typing import Any

import pytest

from rivers import ArrayRiver, ShardedRiver
from tokenriver import registry
from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture
from tokenriver.types import IGNORE

RIVER = ShardedRiver(101, 77, 60)


def make(**options: object) -> Loader:
    given: dict[str, Any] = {"seq_len": 4, "global_batch": 4, "order": "llmc", "prefetch": 0, **options}
    return Loader(RIVER, **given)


def take(loader: Loader, count: int) -> list[list[int]]:
    return [batch.sample_ids.tolist() for _, batch in zip(range(count), loader, strict=False)]


def test_sizes() -> None:
    loader = make(micro_batch=1, world_size=2)
    assert (loader.micros_per_step, loader.num_steps) == (2, None)
    # a global batch of the original is two rows: 12, 9 and 7 of them in the shards
    assert (loader.num_rows, loader.steps_per_epoch) == (2 * (12 + 9 + 7), 14)
    assert loader.balance == {"river": 238, "served": 4 * 56 + 3, "unused": 11}
    assert "llmc of world size 2, batch 4, micro batch 1, rank 0 of 2: 56 rows an epoch, endless steps" in repr(loader)
    assert make(order="nanogpt").num_rows == 238 - 4


@pytest.mark.parametrize("order", registry.names("orders"))
def test_it_never_ends_but_after_steps(order: str) -> None:
    for epochs in (1, None):
        assert make(order=order, epochs=epochs).num_steps is None
    loader = make(order=order, steps=30)
    assert loader.num_steps == 30
    passes = [take(loader, 1000), take(loader, 1000)]
    assert [len(rows) for rows in passes] == [30, 30]
    assert [row for rows in passes for row in rows] == take(make(order=order), 60)
    # the last id of a file's row is no input with a target
    targets = 12 if order.startswith("hdf5-sft") else 16
    assert all(batch.num_targets == targets for batch in make(order=order, steps=30))


def test_micro_batches_are_the_originals_calls() -> None:
    for rank in (0, 1):
        calls = take(make(global_batch=2, rank=rank, world_size=2), 60)
        assert take(make(global_batch=6, micro_batch=1, rank=rank, world_size=2), 60) == calls


def test_row_numbers_count_over_ranks_as_ever() -> None:
    got = [make(global_batch=8, micro_batch=2, rank=rank, world_size=2).batch(3, 1) for rank in (0, 1)]
    assert [batch.row_numbers.tolist() for batch in got] == [[26, 27], [30, 31]]


def test_documents_are_known() -> None:
    river = ArrayRiver(60, [7, 13, 40])
    batch = Loader(river, seq_len=4, global_batch=2, order="nanogpt", prefetch=0).batch(5)
    for start, documents in zip(batch.sample_ids.tolist(), batch.document_ids.tolist(), strict=True):
        assert documents == [river.document_at(start + place) for place in range(4)]


def test_one_batch_again_and_again() -> None:
    step = make().batch(2).sample_ids.tolist()
    assert take(make(repeat_batch=2), 5) == [step] * 5
    assert len(take(make(repeat_batch=2, steps=7), 50)) == 7


def test_the_seed_counts_where_the_original_has_one() -> None:
    state = make(seed=1).batch(3).state
    other = make(seed=2)
    other.load_state_dict(state)
    assert take(other, 1) == [make().batch(4).sample_ids.tolist()]
    with pytest.raises(MismatchError, match=r"^state: seed: got "):
        make(order="nanogpt", seed=2).load_state_dict(make(order="nanogpt", seed=1).batch(3).state)
    # an equal state of a shuffled run is no state of this one
    with pytest.raises(MismatchError, match=r"^state: order: got "):
        make().load_state_dict(make(order="shuffled").batch(3).state)


@pytest.mark.parametrize("order", ["nanogpt", "hdf5-shards"])
def test_any_whole_seed(order: str) -> None:
    """Torch keeps 32 bits of a seed, Python all of its size and not its sign."""
    rows = {seed: take(make(order=order, seed=seed), 5) for seed in (-1, 1, 2**32 - 1, 2**32 + 1, 2**61)}
    torch = order == "nanogpt"
    assert (rows[-1] == rows[2**32 - 1]) == torch
    assert (rows[1] == rows[2**32 + 1]) == torch
    assert (rows[-1] == rows[1]) != torch


def test_a_state_that_is_no_whole_step_is_refused_even_if_the_order_may_differ() -> None:
    state = make(global_batch=6).batch(0).state
    with pytest.warns(UserWarning, match="order"), pytest.raises(InputError, match="row: got 6, expected a multiple"):
        make().load_state_dict(state, allow=["order"])
    state = make(global_batch=8).batch(0).state
    loader = make()
    with pytest.warns(UserWarning, match="order"):
        loader.load_state_dict(state, allow=["order"])
    assert take(loader, 1) == [make().batch(2).sample_ids.tolist()]


def test_what_no_run_reaches_is_refused_and_not_waited_for() -> None:
    state = json.loads(json.dumps(make().state_dict()))
    with pytest.raises(LimitError, match=r"^row: got 4611686018427387904, expected below "):
        make().load_state_dict({**state, "row": 1 << 62, "step": 1 << 60})
    with pytest.raises(LimitError, match=r"^row: got \d+, expected below "):
        make().batch(10**15)


OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"order": "random"}, InputError, "expected one of shuffled, sequential, hdf5-iterator, hdf5-sft, "),
    ({"order": "hdf5_shards"}, InputError, "order: got 'hdf5_shards', expected one of"),
    ({"order": "_words"}, InputError, "order: got '_words', expected one of"),
    ({"order": None}, InputError, "order: got None, expected one of"),
    ({"order": 1.5}, InputError, "order: got 1.5, expected one of"),
    ({"order": ""}, InputError, "order: got '', expected one of"),
    ({"order": "no.such"}, InputError, "orders: cannot import 'no.such'"),
    ({"packing": "sliding"}, InputError, "packing: got 'sliding' with order 'llmc', expected 'concat'"),
    ({"packing": "sliding", "stride": 2}, InputError, "packing: got 'sliding' with order 'llmc'"),
    ({"phase_shift": True}, InputError, "phase_shift: got True with order 'llmc'"),
    ({"overflow": "drop"}, InputError, "overflow: got 'drop'"),
    ({"epochs": 2}, InputError, "epochs: got 2 with order 'llmc', which never ends"),
    ({"global_batch": 5, "world_size": 2}, InputError, "global_batch: got 5 over 2 ranks"),
    ({"global_batch": 6, "micro_batch": 4}, InputError, "in micro-batches of 4, expected a multiple of"),
    ({"global_batch": 1, "world_size": 2}, InputError, "global_batch: got 1 over 2 ranks"),
    ({"global_batch": 2, "micro_batch": 4}, InputError, "global_batch: got 2 over 1 ranks in micro-batches of 4"),
    ({"global_batch": 15}, LimitError, "shard 2: got 60 ids, expected at least 61"),
    ({"order": "llmc-sequential", "global_batch": 15}, LimitError, "shard 2: got 60 ids, expected at least 61"),
    ({"order": "nanogpt", "seq_len": 238}, LimitError, "needs at least 239 ids, and the corpus has 238"),
    ({"order": "hdf5-iterator", "global_batch": 60}, LimitError, "global_batch: got 60, expected 1 to 59"),
    ({"order": "hdf5-iterator", "seed": -1}, InputError, "seed: got -1, expected 0 to 4294967295"),
    ({"order": "hdf5-iterator", "seed": 1 << 32}, InputError, "seed: got 4294967296, expected 0 to 4294967295"),
    ({"order": "hdf5-iterator", "world_size": 2}, InputError, "world_size: got 2 with order 'hdf5-iterator'"),
    ({"order": "hdf5-shards", "world_size": 2}, InputError, "world_size: got 2 with order 'hdf5-shards', expected 1"),
    ({"order": "hdf5-shards", "seq_len": 1}, LimitError, "seq_len: got 1, expected at least 2"),
    ({"order": "hdf5-sft", "overflow": "drop"}, InputError, "overflow: got 'drop' with order 'hdf5-sft', expected 's"),
    ({"order": "hdf5-sft", "global_batch": 60}, LimitError, "global_batch: got 60 rows a rank, expected 1 to 59"),
]


@pytest.mark.parametrize(("options", "kind", "text"), OPTIONS, ids=[str(options) for options, _, _ in OPTIONS])
def test_options_that_make_no_sense(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as error:
        make(**options)
    assert text in str(error.value)


def test_a_mixture_is_refused() -> None:
    with pytest.raises(InputError, match="order: got 'llmc' with a mixture, expected one of shuffled, sequential"):
        Loader(Mixture({"a": (RIVER, 1.0)}), seq_len=4, global_batch=4, order="llmc")


def test_the_smallest_rivers() -> None:
    """One window is enough for each, and is all that there is."""
    for order in registry.names("orders"):
        seq_len = 4
        loader = Loader(ArrayRiver(5), seq_len=seq_len, global_batch=1, order=order, prefetch=0)
        assert take(loader, 20) == [[0]] * 20
        assert loader.batch(7).targets.tolist() == [[1, 2, 3, IGNORE if order.startswith("hdf5-sft") else 4]]
