"""Other loaders' orders (orders/*) as an order of rows: which call of the original makes which row, and where it lies.

An original's batch is a micro-batch here, and a micro-batch is one of its calls: with world size W, global batch G and
micro batch B each rank makes A = G / (W * B) calls a step, number s * A + a in micro-batch a of step s. Row numbers
count as ever, so g // G is the step, and the rank, micro-batch and cell follow from the rest. A sample is named by the
river position of its first id, since originals cut windows where they like.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from tokenriver import registry
from tokenriver.errors import InputError, LimitError
from tokenriver.ranges import distinct, expand
from tokenriver.sampler import ORDERS
from tokenriver.types import Int64, Packing, River

MOST_CALLS = 1 << 32
"""A call is reached by the draws before it; more than this would take hours, and no run makes as many."""


class Replay(Protocol):
    """What a module of orders/ makes; see there."""

    @property
    def num_rows(self) -> int: ...
    @property
    def balance(self) -> Mapping[str, int]: ...
    def starts(self, first: int, count: int, rank: int) -> Int64: ...


@dataclass(frozen=True, slots=True)
class Original:
    """The order of another loader, and the sizes that it was given."""

    name: str
    shards: Int64
    """(n,) ids of each shard."""
    seq_len: int
    global_batch: int
    micro_batch: int
    world_size: int
    seed: int

    def replay(self) -> Replay:
        """LimitError for shards that the original would not take."""
        module, batch, ranks = registry.load("orders", self.name), self.micro_batch, self.world_size
        made: Replay = module.replay(self.shards, seq_len=self.seq_len, batch=batch, world_size=ranks, seed=self.seed)
        return made


class Replayed:
    """Row number -> (river position of the row's first id, epoch 0). It pickles as the sizes alone."""

    def __init__(self, original: Original, *, seeded: bool) -> None:
        self._original, self._seeded = original, seeded
        self._replay = original.replay()
        self.num_rows = self._replay.num_rows
        self.balance = self._replay.balance
        self.global_batch = original.global_batch
        self.seed = original.seed if seeded else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._original, self._seeded)

    @property
    def order(self) -> str:
        """All that a state must agree with: another world size or batch would be another run of the original."""
        original = self._original
        sizes = f"batch {original.global_batch}, micro batch {original.micro_batch}"
        return f"{original.name} of world size {original.world_size}, {sizes}"

    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(positions, zeros) of row numbers, each (k,) int64; LimitError beyond MOST_CALLS."""
        original = self._original
        self._check_reach(int(numbers.max(initial=0)))
        share, batch = original.global_batch // original.world_size, original.micro_batch
        steps, rest = np.divmod(numbers, original.global_batch)
        ranks, rest = np.divmod(rest, share)
        micros, cells = np.divmod(rest, batch)
        calls = steps * (share // batch) + micros
        positions = np.empty_like(numbers)
        for rank in distinct(ranks):
            here = np.flatnonzero(ranks == rank)
            asked, which = np.unique(calls[here], return_inverse=True)
            positions[here] = self._starts(asked, rank)[which, cells[here]]
        return positions, np.zeros_like(numbers)

    def _starts(self, calls: Int64, rank: int) -> Int64:
        """(k, batch) positions of calls in ascending order, consecutive ones at a time."""
        runs = np.split(calls, np.flatnonzero(np.diff(calls) != 1) + 1)
        return np.concatenate([self._replay.starts(int(run[0]), len(run), rank) for run in runs])

    def check_row(self, row: int) -> None:
        """InputError for a state's row that is no step of this run, since a state counts steps; LimitError for one
        beyond MOST_CALLS."""
        self._check_reach(row)
        if row % self.global_batch:
            raise InputError(
                f"state: row: got {row}, expected a multiple of {self.global_batch}, the rows of a step; order "
                f"{self._original.name!r} goes on at whole steps alone"
            )

    def _check_reach(self, row: int) -> None:
        rows = self._original.micro_batch * self._original.world_size
        if row // rows >= MOST_CALLS:
            raise LimitError(
                f"row: got {row}, expected below {MOST_CALLS * rows}; order {self._original.name!r} comes to a row by "
                f"the draws before it, and the original makes no {MOST_CALLS} batches in any run"
            )

    def check_epochs(self, epochs: int | None) -> None:
        """InputError for a number of epochs; one, which is what a loader has unless told, is taken for none."""
        if epochs not in (None, 1):
            raise InputError(
                f"epochs: got {epochs} with order {self._original.name!r}, which never ends; leave it out or give steps"
            )


def _again(original: Original, seeded: bool) -> Replayed:
    return Replayed(original, seeded=seeded)


@dataclass(frozen=True, slots=True)
class Anywhere:
    """Windows of seq_len + 1 ids that start at any position: row i starts at id i."""

    seq_len: int
    num_rows: int
    balance: Mapping[str, int]
    tag: str
    windows: bool = True
    chained: bool = False

    @property
    def num_targets(self) -> int:
        return self.num_rows * self.seq_len

    def __len__(self) -> int:
        return self.num_rows

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """One span a row: (0..k-1, row, row + seq_len + 1), each (k,) int64."""
        return np.arange(len(rows), dtype=np.int64), rows, rows + self.seq_len + 1

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        return rows


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of seq_len ids that start at any position: row i starts at id i, and its last id has no target."""

    river: River
    seq_len: int
    num_rows: int
    balance: Mapping[str, int]
    windows: bool = False
    chained: bool = True

    @property
    def tag(self) -> str:
        return f"rows T={self.seq_len}"

    @property
    def num_targets(self) -> int:
        return self.num_rows * (self.seq_len - 1)

    def __len__(self) -> int:
        return self.num_rows

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        """One span a row, or where documents are known one for each that it shows: (row, start, stop), (m,) int64."""
        which, ends = np.arange(len(rows), dtype=np.int64), rows + self.seq_len
        if self.river.num_documents is None:
            return which, rows, ends
        first, last = self.river.documents_at(rows), self.river.documents_at(ends - 1)
        counts = last - first + 1
        which, documents = expand(first, counts)
        stops = np.minimum(self.river.ends_of(documents), ends[which])
        starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]])[: len(stops)]
        starts[np.cumsum(counts) - counts] = rows
        shown = starts < stops
        return which[shown], starts[shown], stops[shown]

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        return rows


def replayed(
    river: River, packing: tuple[str, int, dict[str, Any]], order: str, sizes: tuple[int, int | None, int]
) -> tuple[Anywhere | FileRows, Replayed]:
    """Windows and order of another loader over a river; `sizes` are global batch, micro batch and world size. Raises
    InputError for options that the original has not, LimitError for a river that it would not take."""
    name, seq_len, options = packing
    module = _find(order)
    wanted = {"packing": "concat", "phase_shift": False, "overflow": "split"}
    for option, expected in wanted.items():
        got = options.get(option, name)
        if got != expected:
            raise InputError(f"{option}: got {got!r} with order {order!r}, expected {expected!r}; leave it out")
    rows: bool = getattr(module, "ROWS", False)
    length = getattr(river, "row_length", None)
    if rows and length not in (None, seq_len):
        raise InputError(f"seq_len: got {seq_len} with order {order!r}, expected {length}, the ids of the file's rows")
    batch, micro, ranks = sizes
    if not module.RANKS and ranks != 1:
        raise InputError(
            f"world_size: got {ranks} with order {order!r}, expected 1; the original knows no ranks: give each process "
            "rank 0 of 1 and a seed of its own"
        )
    share = batch // ranks
    if batch % ranks or share < 1 or share % (micro or share):
        raise InputError(
            f"global_batch: got {batch} over {ranks} ranks in micro-batches of {micro}, expected a multiple of "
            f"world_size * micro_batch; order {order!r} has no uneven batches"
        )
    shards = np.array([shard.num_tokens for shard in getattr(river, "shards", ())] or [river.num_tokens], np.int64)
    original = Original(order, shards, seq_len, batch, micro or share, ranks, options["seed"])
    if rows:
        sampler = Replayed(original, seeded=module.SEEDED)
        return FileRows(river, seq_len, sampler.num_rows, sampler.balance), sampler
    windows: Packing = registry.load("packing", name).pack(river, seq_len=seq_len, **options)
    sampler = Replayed(original, seeded=module.SEEDED)
    return Anywhere(seq_len, sampler.num_rows, sampler.balance, windows.tag), sampler


def _find(order: object) -> ModuleType:
    """The module of an order; InputError with all that there are."""
    known = registry.names("orders")
    if not isinstance(order, str) or (order not in known and "." not in order):
        every = ", ".join((*ORDERS, *known))
        raise InputError(f"order: got {order!r}, expected one of {every}; choose one of these")
    return registry.load("orders", order)
