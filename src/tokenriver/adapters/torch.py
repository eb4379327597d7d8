"""Batches as torch tensors, and a dataset for torch's DataLoader.

    loader = Loader(corpus, seq_len=1024, global_batch=512, micro_batch=32, seed=1, rank=rank, world_size=world_size)
    for batch in DataLoader(TokenDataset(loader), batch_size=None, num_workers=4):
        ...                                       # batch.input_ids, batch.targets: (32, 1024) int64
    loader.load_state_dict(batch.state)           # then a new DataLoader, with any number of workers

DataLoader takes batches from its workers in turn, so worker k of w makes every w-th micro-batch from the k-th, and the
sequence is that of the loader itself. Save the state of the last batch that was used: what workers have made ahead is
not in it. StatefulDataLoader saves the workers' own places instead; it goes on exactly with as many workers.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from tokenriver.batch import Batch
from tokenriver.errors import MismatchError
from tokenriver.loader import Loader
from tokenriver.types import Int64


@dataclass(frozen=True, slots=True)
class TorchBatch:
    """What a Batch holds, under the same names, as tensors on one device."""

    input_ids: torch.Tensor
    """(B, T) int64."""
    targets: torch.Tensor
    """(B, T) int64, already shifted: a loss takes them as they are; -100 (torch's ignore_index) where none is due."""
    sample_ids: torch.Tensor
    """(B,) int64 on the CPU."""
    row_numbers: torch.Tensor
    """(B,) int64 on the CPU."""
    num_targets: int
    step: int
    state: dict[str, Any]
    position_ids: torch.Tensor | None = None
    """(B, T) int64; this and the rest only where `sequences` were asked for."""
    document_ids: torch.Tensor | None = None
    """(B, T) int64."""
    cu_seqlens: torch.Tensor | None = None
    """(n + 1,) int32."""
    max_seqlen: int | None = None

    def pin_memory(self) -> "TorchBatch":
        """The same in page-locked memory: what DataLoader(pin_memory=True) calls."""
        return self._moved(lambda tensor: tensor.pin_memory())

    def to(self, device: torch.device | str, *, non_blocking: bool = True) -> "TorchBatch":
        """The same on another device, but for sample_ids and row_numbers, which stay on the CPU; asynchronous for a
        pinned batch."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def _moved(self, move: Callable[[torch.Tensor], torch.Tensor]) -> "TorchBatch":
        inputs, targets = self.input_ids, self.targets
        if inputs.untyped_storage().data_ptr() == targets.untyped_storage().data_ptr():
            # both are views of one (B, T + 1): half as much to move
            rows, width = inputs.shape
            whole = move(inputs.as_strided((rows, width + 1), inputs.stride(), inputs.storage_offset()))
            inputs, targets = whole[:, :-1], whole[:, 1:]
        else:
            inputs, targets = move(inputs), move(targets)
        others = {name: move(getattr(self, name)) for name in SEQUENCES if getattr(self, name) is not None}
        return replace(self, input_ids=inputs, targets=targets, **others)


SEQUENCES = ("position_ids", "document_ids", "cu_seqlens")


def to_torch(batch: Batch, device: torch.device | str = "cpu", *, sequences: bool = False) -> TorchBatch:
    """A Batch as tensors on a device. On the CPU they share the batch's memory, which is not used again while they
    live; to a CUDA device they go by page-locked memory and an asynchronous copy. `sequences` adds position_ids,
    document_ids, cu_seqlens and max_seqlen, for attention inside documents."""
    inputs, targets = _pair(batch.input_ids, batch.targets)
    found = TorchBatch(
        inputs,
        targets,
        torch.from_numpy(batch.sample_ids),
        torch.from_numpy(batch.row_numbers),
        batch.num_targets,
        batch.step,
        batch.state,
    )
    if sequences:
        tensors = {name: torch.from_numpy(getattr(batch, name)) for name in SEQUENCES}
        found = replace(found, **tensors, max_seqlen=batch.max_seqlen)
    wanted = torch.device(device)
    if wanted.type == "cpu":
        return found
    return (found.pin_memory() if wanted.type == "cuda" else found).to(wanted)


def _pair(inputs: Int64, targets: Int64) -> tuple[torch.Tensor, torch.Tensor]:
    """Both arrays as tensors, of one storage where they are views of one buffer."""
    if inputs.base is None or inputs.base is not targets.base:
        return torch.from_numpy(inputs), torch.from_numpy(targets)
    whole = torch.from_numpy(inputs.base)
    return whole[:, :-1], whole[:, 1:]


class TokenDataset(IterableDataset):
    """The rest of a loader's run as TorchBatches, for DataLoader(..., batch_size=None) with any number of workers.

    Each iteration begins where the loader stands (the start of its unfinished step) and leaves it there; move it with
    `loader.load_state_dict`. The workers' own prefetch thread is off: DataLoader makes batches ahead itself."""

    def __init__(self, loader: Loader, *, sequences: bool = False) -> None:
        """`sequences` as in to_torch."""
        self.loader = loader
        self.sequences = sequences

    def __iter__(self) -> "WorkerBatches":
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return WorkerBatches(self.loader, worker, workers, self.sequences)


class WorkerBatches:
    """What one of `workers` workers makes: every workers-th micro-batch. Its state is for StatefulDataLoader."""

    def __init__(self, loader: Loader, worker: int, workers: int, sequences: bool) -> None:
        # a loader of its own: a restored state must not move the user's
        self._loader = copy.copy(loader)
        self._worker = worker
        self._workers = workers
        self._sequences = sequences
        self._taken = 0
        self._batches: Iterator[Batch] | None = None

    def __iter__(self) -> "WorkerBatches":
        return self

    def __next__(self) -> TorchBatch:
        if self._batches is None:
            self._batches = self._loader.strided(self._worker + self._taken * self._workers, self._workers)
        batch = to_torch(next(self._batches), sequences=self._sequences)
        self._taken += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The loader's state where the iteration began, and how many batches this worker has made since."""
        return {"start": self._loader.state_dict(), "workers": self._workers, "taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """MismatchError for another number of workers; those may change through TorchBatch.state."""
        if state["workers"] != self._workers:
            raise MismatchError(
                f"num_workers: got {self._workers}, expected {state['workers']}, as when this state was saved; "
                "to change it, load the state of the last batch into the loader instead"
            )
        self._loader.load_state_dict(state["start"])
        self._taken = int(state["taken"])
        self._batches = None
