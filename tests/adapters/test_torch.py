import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from rivers import ArrayRiver
from tokenriver.adapters.huggingface import to_huggingface
from tokenriver.adapters.torch import TokenDataset, TorchBatch, _moved, to_torch
from tokenriver.batch import Batch
from tokenriver.corpus import open_corpus
from tokenriver.errors import InputError, MismatchError
from tokenriver.loader import Loader
from tokenriver.types import River

pytestmark = [
    pytest.mark.torch,
    # torch's word about more workers than this machine has cores, and torchdata's use of a deprecated name
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    # fork beside torch's own threads is DataLoader's default up to Python 3.13
    pytest.mark.filterwarnings("ignore:.*use of fork.. may lead to deadlocks:DeprecationWarning"),
]
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
STEPS = 7


def make(river: River | None = None, **options: object) -> Loader:
    """Rank 1 of 2 has five of ten rows: two micro-batches of three cells, one of them filler."""
    given: dict[str, Any] = {"seq_len": 8, "global_batch": 10, "micro_batch": 3, "rank": 1, "world_size": 2}
    given.update(seed=5, steps=STEPS, prefetch=0)
    given.update(options)
    return Loader(river or ArrayRiver(1000, [300, 700]), **given)


def assert_same(got: Iterable[TorchBatch], expected: Iterable[Batch]) -> None:
    for tensors, batch in zip(got, expected, strict=True):
        for name in ("input_ids", "targets", "sample_ids", "row_numbers"):
            assert np.array_equal(getattr(tensors, name).numpy(), getattr(batch, name)), name
        assert (tensors.state, tensors.step, tensors.num_targets) == (batch.state, batch.step, batch.num_targets)


def test_tensors_for_hugging_face() -> None:
    batch = make().batch(0)
    inputs = to_huggingface(to_torch(batch, sequences=True))
    assert torch.equal(inputs["shift_labels"], torch.from_numpy(batch.targets))
    assert torch.equal(inputs["position_ids"], torch.from_numpy(batch.position_ids))
    with pytest.raises(InputError, match="batch: got one without position_ids"):
        to_huggingface(to_torch(batch))


@pytest.mark.parametrize("workers", [0, 1, 4, 8])
def test_any_number_of_workers_gives_the_loaders_own_sequence(workers: int) -> None:
    assert_same(DataLoader(TokenDataset(make()), batch_size=None, num_workers=workers), make())


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_sizes_that_change_under_workers(workers: int) -> None:
    changes = [(1, {"global_batch": 20}), (2, {"seq_len": 4, "micro_batch": 5}), (4, {"seq_len": 8})]
    loader = make(schedule=changes)
    assert_same(DataLoader(TokenDataset(loader), batch_size=None, num_workers=workers), make(schedule=changes))


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_in_buckets_under_workers(workers: int) -> None:
    """Batches of several shapes and numbers of micro-batches a step."""
    sizes = [2 + place * place % 23 for place in range(60)]
    asked = {"buckets": [4, 8], "max_tokens_per_batch": 64}
    options: dict[str, Any] = {"packing": "document", "seq_len": 16, "micro_batch": 1, "packing_options": asked}
    loader = make(ArrayRiver(sum(sizes), sizes), global_batch=None, **options)
    loader.skip(1)
    assert len({batch.input_ids.shape for batch in loader.strided(0, 1)}) == 3
    assert_same(DataLoader(TokenDataset(loader), batch_size=None, num_workers=workers), loader)


@pytest.mark.parametrize(("before", "after"), [(0, 4), (4, 0), (1, 3), (3, 1)])
def test_saved_with_some_workers_and_restored_with_others(before: int, after: int) -> None:
    whole = list(make())
    for cut in (1, 4, 5, 13):
        first = DataLoader(TokenDataset(make()), batch_size=None, num_workers=before)
        taken = [batch for _, batch in zip(range(cut), first, strict=False)]
        loader = make()
        loader.load_state_dict(json.loads(json.dumps(taken[-1].state)))
        # a state within a step is the step's start
        assert_same(DataLoader(TokenDataset(loader), batch_size=None, num_workers=after), whole[cut // 2 * 2 :])


@pytest.mark.parametrize("workers", [0, 2])
def test_every_iteration_begins_where_the_loader_stands(workers: int) -> None:
    loader = make()
    loader.skip(3)
    data = DataLoader(TokenDataset(loader), batch_size=None, num_workers=workers)
    for _ in range(2):
        next(iter(data))
        assert_same(data, make().strided(6, 1))
    assert loader.state_dict()["step"] == 3


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("cut", [1, 4, 5, 13])
def test_stateful_dataloader_goes_on_with_as_many_workers(workers: int, cut: int) -> None:
    first = StatefulDataLoader(TokenDataset(make()), batch_size=None, num_workers=workers)
    taken = [batch for _, batch in zip(range(cut), first, strict=False)]
    state = first.state_dict()
    second = StatefulDataLoader(TokenDataset(make()), batch_size=None, num_workers=workers)
    second.load_state_dict(state)
    assert_same([*taken, *second], make())


def test_a_workers_place_is_refused_by_another_number_of_workers_or_another_seed() -> None:
    state = iter(TokenDataset(make())).state_dict()
    with pytest.raises(MismatchError, match="num_workers: got 1, expected 4"):
        iter(TokenDataset(make())).load_state_dict({**state, "workers": 4})
    loader = make(seed=6)
    with pytest.raises(MismatchError, match=r"^state: seed"):
        iter(TokenDataset(loader)).load_state_dict(state)
    assert loader.state_dict()["row"] == 0


def test_a_corpus_on_disk_and_workers_that_start_afresh(tmp_path: Path) -> None:
    np.random.default_rng(1).integers(0, 50_000, 5_000, dtype=np.uint16).tofile(tmp_path / "train.bin")
    corpus = open_corpus(tmp_path / "train.bin")
    data = DataLoader(TokenDataset(make(corpus)), batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert_same(data, make(corpus))


def test_on_the_cpu_tensors_share_the_batchs_memory_and_keep_it() -> None:
    stream = iter(make(global_batch=6, micro_batch=3))
    batch = next(stream)
    tensors = to_torch(batch)
    assert tensors.input_ids.data_ptr() == batch.input_ids.ctypes.data
    assert tensors.targets.data_ptr() == batch.targets.ctypes.data
    assert tensors.input_ids.untyped_storage().data_ptr() == tensors.targets.untyped_storage().data_ptr()
    before = tensors.input_ids.clone()
    row = tensors.targets[1]
    ids = row.tolist()
    del batch, tensors
    for _ in stream:
        pass
    assert row.tolist() == ids
    assert before[1, 1:].tolist() == ids[:-1]


def test_sequences_on_request() -> None:
    batch = make().batch(2, 1)
    plain, full = to_torch(batch), to_torch(batch, sequences=True)
    assert plain.position_ids is plain.document_ids is plain.cu_seqlens is plain.max_seqlen is None
    for name in ("position_ids", "document_ids", "cu_seqlens"):
        assert np.array_equal(getattr(full, name).numpy(), getattr(batch, name)), name
    assert full.cu_seqlens is not None
    assert full.cu_seqlens.dtype == torch.int32
    assert full.max_seqlen == batch.max_seqlen
    data = DataLoader(TokenDataset(make(), sequences=True), batch_size=None, num_workers=2)
    for got, expected in zip(data, make(), strict=True):
        assert np.array_equal(got.document_ids.numpy(), expected.document_ids)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("micro", [0, 1])
def test_every_device_gets_the_same_ids(device: str, micro: int) -> None:
    batch = make().batch(0, micro)
    there = to_torch(batch, device, sequences=True)
    assert there.input_ids.device.type == device
    assert_same([there.to("cpu", non_blocking=False)], [batch])


def test_moving_a_batch_moves_its_one_buffer_once() -> None:
    moved: list[tuple[int, ...]] = []

    def move(tensor: torch.Tensor) -> torch.Tensor:
        moved.append(tuple(tensor.shape))
        return tensor.clone()

    whole = to_torch(make().batch(0, 0))
    assert_same([_moved(whole, move)], [make().batch(0, 0)])
    assert moved == [(3, 9)]
    # a batch with filler rows has two buffers
    assert_same([_moved(to_torch(make().batch(0, 1)), move)], [make().batch(0, 1)])
    assert moved[1:] == [(3, 8), (3, 8)]


def test_a_loss_takes_the_targets_as_they_are() -> None:
    """ignore_index is -100, and a filler row adds nothing."""
    tensors = to_torch(make().batch(0, 1))
    logits = torch.randn(3, 8, 1000, generator=torch.Generator().manual_seed(0))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tensors.targets.flatten(), reduction="sum")
    picked = torch.log_softmax(logits, -1)[:2].gather(-1, tensors.targets[:2, :, None])
    assert torch.allclose(loss, -picked.sum())
    assert tensors.num_targets == 16
