"""Serve one epoch by different numbers of ranks, with stops and resumes, and count every row."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import tokenriver
from tokenriver.batch import Batch
from tokenriver.corpus import Corpus
from tokenriver.loader import Loader
from tokenriver.types import Int64

SEQ_LEN, GLOBAL_BATCH, SEED = 256, 30, 1


@dataclass(slots=True)
class Epoch:
    """All rows that some ranks were given, by the row's place in the run."""

    ranks: str
    samples: Int64
    """(N,) which sample the row showed; -1 while it was not served."""
    sums: Int64
    """(N,) checksum of the row's ids."""
    repeats: int = 0
    filler: int = 0
    uneven: int = 0
    """Steps at which the ranks did not agree on the state or on whether there is a batch."""
    state_bytes: int = 0

    @property
    def served(self) -> int:
        return len(self.samples) - self.missed

    @property
    def missed(self) -> int:
        return int(np.count_nonzero(self.samples < 0))

    def exactly_once(self) -> bool:
        """Was every sample of the epoch served, and none twice?"""
        every = np.arange(len(self.samples))
        return not self.repeats and not self.uneven and bool(np.array_equal(np.sort(self.samples), every))

    def same_as(self, other: "Epoch") -> bool:
        """Did each row show the same sample with the same ids?"""
        return bool(np.array_equal(self.samples, other.samples) and np.array_equal(self.sums, other.sums))


def serve(corpus: Corpus, world_sizes: Sequence[int]) -> Epoch:
    """One epoch, in equal parts by each of `world_sizes` in turn; the state travels as JSON text between them."""
    steps = _loader(corpus, 0, 1).steps_per_epoch
    num_rows = _loader(corpus, 0, 1).num_rows
    epoch = Epoch(" > ".join(map(str, world_sizes)), np.full(num_rows, -1, np.int64), np.zeros(num_rows, np.int64))
    text = ""
    for part, world_size in enumerate(world_sizes):
        loaders = [_loader(corpus, rank, world_size) for rank in range(world_size)]
        for loader in loaders:
            if text:
                loader.load_state_dict(json.loads(text))
        last = part == len(world_sizes) - 1
        stop = None if last else steps // len(world_sizes)
        text = _run(loaders, stop, epoch)
        epoch.state_bytes = max(epoch.state_bytes, len(text))
    return epoch


def _loader(corpus: Corpus, rank: int, world_size: int) -> Loader:
    return tokenriver.Loader(
        corpus,
        seq_len=SEQ_LEN,
        global_batch=GLOBAL_BATCH,
        seed=SEED,
        rank=rank,
        world_size=world_size,
        epochs=1,
        prefetch=0,
    )


def _run(loaders: Sequence[Loader], stop: int | None, epoch: Epoch) -> str:
    """Take `stop` steps (None: to the end) on all ranks in step; the last state as JSON."""
    text, done = "", 0
    streams = [iter(loader) for loader in loaders]
    while stop is None or done < stop:
        batches = [batch for stream in streams if (batch := next(stream, None)) is not None]
        if not batches:
            break
        states = {json.dumps(batch.state) for batch in batches}
        epoch.uneven += len(batches) != len(loaders) or len(states) != 1
        text = states.pop()
        for batch in batches:
            _record(batch, epoch)
        done += 1
    return text


def _record(batch: Batch, epoch: Epoch) -> None:
    real = batch.sample_ids >= 0
    rows = batch.row_numbers[real]
    epoch.filler += int(np.count_nonzero(~real))
    epoch.repeats += int(np.count_nonzero(epoch.samples[rows] >= 0))
    epoch.samples[rows] = batch.sample_ids[real]
    weights = np.arange(1, SEQ_LEN + 1, dtype=np.int64)
    epoch.sums[rows] = batch.input_ids[real] @ weights + batch.targets[real] @ weights[::-1] * 3
