"""Batches of every loader as torch tensors, and a dataset for torch's DataLoader.

    loader = Loader(corpus, seq_len=1024, global_batch=512, micro_batch=32, seed=1, rank=rank, world_size=world_size)
    for batch in DataLoader(TokenDataset(loader), batch_size=None, num_workers=4):
        ...                                       # batch.input_ids, batch.targets: (32, 1024) int64
    loader.load_state_dict(batch.state)           # then a new DataLoader, with any number of workers

A PairLoader or a PromptLoader stands in a Loader's place. DataLoader takes batches from its workers in turn, so worker
k of w makes every w-th micro-batch from the k-th, and the sequence is that of the loader itself. Save the state of the
last batch that was used: what workers have made ahead is not in it. StatefulDataLoader saves the workers' own places
instead; it goes on exactly with as many workers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, overload

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from tokenriver.batch import Batch
from tokenriver.choiceloader import EvalBatch
from tokenriver.errors import InputError, MismatchError
from tokenriver.loader import Loader
from tokenriver.pairloader import PairBatch, PairLoader
from tokenriver.promptloader import PromptBatch, PromptLoader
from tokenriver.types import IGNORE

SEQUENCES = ("position_ids", "document_ids", "cu_seqlens", "max_seqlen")
STAY = ("sample_ids", "row_numbers", "example_ids", "choice_ids", "labels", "cut", "gold")
"""What no model reads: it stays on the CPU."""

T = TypeVar("T", "TorchBatch", "TorchPairBatch", "TorchPromptBatch", "TorchEvalBatch")


def _pin_memory(batch: T) -> T:
    """The same in page-locked memory: what DataLoader(pin_memory=True) calls."""
    return _moved(batch, lambda tensor: tensor.pin_memory())


def _to(batch: T, device: torch.device | str, *, non_blocking: bool = True) -> T:
    """The same on another device, but for what no model reads, which stays on the CPU; asynchronous for a pinned
    batch."""
    return _moved(batch, lambda tensor: tensor.to(device, non_blocking=non_blocking))


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
    pin_memory = _pin_memory
    to = _to


@dataclass(frozen=True, slots=True)
class TorchPairBatch:
    """What a PairBatch holds, under the same names, as tensors on one device; rows and targets are made of the first
    three."""

    ids: torch.Tensor
    """(2, B, L) int64: chosen, rejected."""
    mask: torch.Tensor
    """(2, B, L) bool: is the id part of the answer, and trained?"""
    lengths: torch.Tensor
    """(2, B) int64."""
    sample_ids: torch.Tensor
    """(B,) int64 on the CPU, as row_numbers."""
    row_numbers: torch.Tensor
    num_targets: int
    step: int
    state: dict[str, Any]
    pin_memory = _pin_memory
    to = _to

    @property
    def chosen_ids(self) -> torch.Tensor:
        """(B, L), a view, as the five that follow; lengths are (B,)."""
        return self.ids[0]

    @property
    def rejected_ids(self) -> torch.Tensor:
        return self.ids[1]

    @property
    def chosen_mask(self) -> torch.Tensor:
        return self.mask[0]

    @property
    def rejected_mask(self) -> torch.Tensor:
        return self.mask[1]

    @property
    def chosen_lengths(self) -> torch.Tensor:
        return self.lengths[0]

    @property
    def rejected_lengths(self) -> torch.Tensor:
        return self.lengths[1]

    @property
    def input_ids(self) -> torch.Tensor:
        """(2 B, L - 1): the chosen rows, then the rejected ones, without their last ids."""
        return self.ids.flatten(0, 1)[:, :-1]

    @property
    def targets(self) -> torch.Tensor:
        """(2 B, L - 1): the id that follows each of input_ids; -100 outside of answers."""
        return torch.where(self.mask, self.ids, IGNORE).flatten(0, 1)[:, 1:]


@dataclass(frozen=True, slots=True)
class TorchPromptBatch:
    """What a PromptBatch holds, under the same names, as tensors on one device."""

    input_ids: torch.Tensor
    """(B, L) int64, filled up on the left."""
    attention_mask: torch.Tensor
    """(B, L) bool."""
    lengths: torch.Tensor
    """(B,) int64."""
    gold: torch.Tensor
    """(B,) float64 on the CPU, as sample_ids and row_numbers are."""
    prompts: list[str]
    sample_ids: torch.Tensor
    row_numbers: torch.Tensor
    step: int
    state: dict[str, Any]
    pin_memory = _pin_memory
    to = _to


@dataclass(frozen=True, slots=True)
class TorchEvalBatch:
    """What an EvalBatch holds, under the same names, as tensors on one device; ChoiceScores takes the EvalBatch."""

    input_ids: torch.Tensor
    """(B, T) int64."""
    targets: torch.Tensor
    """(B, T) int64, already shifted; -100 outside of the choice."""
    example_ids: torch.Tensor
    """(B,) int64 on the CPU, as the three that follow."""
    choice_ids: torch.Tensor
    labels: torch.Tensor
    cut: torch.Tensor
    num_targets: int
    pin_memory = _pin_memory
    to = _to


KINDS: dict[type, Any] = {
    Batch: TorchBatch,
    PairBatch: TorchPairBatch,
    PromptBatch: TorchPromptBatch,
    EvalBatch: TorchEvalBatch,
}


@overload
def to_torch(batch: Batch, device: torch.device | str = ..., *, sequences: bool = ...) -> TorchBatch: ...
@overload
def to_torch(batch: PairBatch, device: torch.device | str = ...) -> TorchPairBatch: ...
@overload
def to_torch(batch: PromptBatch, device: torch.device | str = ...) -> TorchPromptBatch: ...
@overload
def to_torch(batch: EvalBatch, device: torch.device | str = ...) -> TorchEvalBatch: ...
def to_torch(batch: object, device: torch.device | str = "cpu", *, sequences: bool = False) -> object:
    """A batch of any loader as tensors on a device. On the CPU they share the batch's memory, which is not used again
    while they live; to a CUDA device they go by page-locked memory and an asynchronous copy. `sequences` adds
    position_ids, document_ids, cu_seqlens and max_seqlen to a Batch, for attention inside documents. InputError for
    what is no batch, or has no sequences."""
    kind = KINDS.get(type(batch))
    if kind is None or (sequences and kind is not TorchBatch):
        raise InputError(
            f"batch: got {type(batch).__name__}{' with sequences' if sequences else ''}, expected a batch of a loader, "
            "and sequences of a Batch alone"
        )
    names = [field.name for field in fields(kind) if sequences or field.name not in SEQUENCES]
    values = {name: getattr(batch, name) for name in names}
    arrays = {name: torch.from_numpy(value) for name, value in values.items() if isinstance(value, np.ndarray)}
    found = kind(**{**values, **arrays, **_pair(values)})
    wanted = torch.device(device)
    if wanted.type == "cpu":
        return found
    return (found.pin_memory() if wanted.type == "cuda" else found).to(wanted)


def _pair(values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Inputs and targets of one storage, where they are views of one buffer."""
    inputs, targets = values.get("input_ids"), values.get("targets")
    if inputs is None or targets is None or inputs.base is None or inputs.base is not targets.base:
        return {}
    whole = torch.from_numpy(inputs.base)
    return {"input_ids": whole[:, :-1], "targets": whole[:, 1:]}


def _moved(batch: T, move: Callable[[torch.Tensor], torch.Tensor]) -> T:
    """The batch with all that a model reads moved."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch) if field.name not in STAY}
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    moved: dict[str, Any] = {}
    inputs, targets = tensors.get("input_ids"), tensors.get("targets")
    if inputs is not None and targets is not None and _storage(inputs) == _storage(targets):
        # both are views of one (B, T + 1): half as much to move
        rows, width = inputs.shape
        whole = move(inputs.as_strided((rows, width + 1), inputs.stride(), inputs.storage_offset()))
        moved = {"input_ids": whole[:, :-1], "targets": whole[:, 1:]}
    moved |= {name: move(tensor) for name, tensor in tensors.items() if name not in moved}
    return replace(batch, **moved)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


class TokenDataset(IterableDataset):
    """The rest of a loader's run as tensors (see to_torch), for DataLoader(..., batch_size=None) with any number of
    workers.

    Each iteration begins where the loader stands (the start of its unfinished step) and leaves it there; move it with
    `loader.load_state_dict`. The workers' own prefetch thread is off: DataLoader makes batches ahead itself."""

    def __init__(self, loader: Loader | PairLoader | PromptLoader, *, sequences: bool = False) -> None:
        """`sequences` as in to_torch, which only a Loader's batches have."""
        self.loader = loader
        self.sequences = sequences

    def __iter__(self) -> "WorkerBatches":
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return WorkerBatches(self.loader, worker, workers, self.sequences)


class WorkerBatches:
    """What one of `workers` workers makes: every workers-th micro-batch. Its state is for StatefulDataLoader."""

    def __init__(self, loader: Loader | PairLoader | PromptLoader, worker: int, workers: int, sequences: bool) -> None:
        self._loader = loader
        self._worker = worker
        self._workers = workers
        self._sequences = sequences
        self._taken = 0
        self._start = loader.state_dict()
        # from where the loader stands now, wherever it goes meanwhile
        self._batches: Iterator[Any] = loader.strided(worker, workers)

    def __iter__(self) -> "WorkerBatches":
        return self

    def __next__(self) -> TorchBatch | TorchPairBatch | TorchPromptBatch:
        batch = next(self._batches)
        found = to_torch(batch, sequences=True) if self._sequences else to_torch(batch)
        self._taken += 1
        return found

    def state_dict(self) -> dict[str, Any]:
        """The loader's state where the iteration began, and how many batches this worker has made since."""
        return {"start": self._start, "workers": self._workers, "taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """MismatchError for another number of workers; those may change through TorchBatch.state."""
        if state["workers"] != self._workers:
            raise MismatchError(
                f"num_workers: got {self._workers}, expected {state['workers']}, as when this state was saved; "
                "to change it, load the state of the last batch into the loader instead"
            )
        self._start, self._taken = state["start"], int(state["taken"])
        first = self._worker + self._taken * self._workers
        self._batches = self._loader.strided(first, self._workers, self._start)
