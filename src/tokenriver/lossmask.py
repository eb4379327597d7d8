"""Loss masks on disk: `NAME.mask` beside a shard of our own, one bit an id, 1 where the id is trained.

Bit i % 8 (from the least significant, numpy's bitorder "little") of byte i // 8 is that of the shard's id i; bits
behind the last id are 0. A file of any other size is refused before a bit of it is used.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import FormatError
from tokenriver.files import naming
from tokenriver.ranges import distinct
from tokenriver.recent import Recent
from tokenriver.types import PADDING, Bools, Int64

SUFFIX = ".mask"
BLOCK_IDS = 1 << 20
MAPPED = 64
"""Files that stay mapped: a map holds a descriptor."""

Bytes = NDArray[np.uint8]
Trains = Callable[[int, int], Bools]


class Trained(Protocol):
    """Which ids of a river are trained."""

    def cut(self, starts: Int64, sizes: Int64) -> Trains:
        """Look up where many runs of a river lie: f(first, last) is then the mask of those [first, last), one run
        after another, (n,). A start of PADDING stands for ids that are not trained."""


def mask_name(file: str) -> str:
    """The file name of a shard's mask: `tokens_train_000000.bin` has `tokens_train_000000.mask`."""
    return str(PurePosixPath(file).with_suffix(SUFFIX))


def mask_bytes(num_ids: int) -> int:
    """Size of the mask of so many ids."""
    return -(-num_ids // 8)


def pack(blocks: Iterable[Bools]) -> Iterator[bytes]:
    """The bytes of a mask file, from masks of consecutive ids of any lengths."""
    rest = np.empty(0, np.bool_)
    for block in blocks:
        bits = np.concatenate([rest, block]) if len(rest) else block
        whole = len(bits) - len(bits) % 8
        if whole:
            yield np.packbits(bits[:whole], bitorder="little").tobytes()
        rest = bits[whole:]
    if len(rest):
        yield np.packbits(rest, bitorder="little").tobytes()


def check_listed(path: Path, shards: Mapping[str, int], files: Mapping[str, int]) -> None:
    """FormatError unless all shards (ids by file name) have a mask of their size among the files (bytes by name), or
    none has one."""
    wanted = {mask_name(file): mask_bytes(ids) for file, ids in shards.items()}
    masks = {name: size for name, size in files.items() if name.endswith(SUFFIX)}
    if masks and masks != wanted:
        name = sorted({name for name, _ in masks.items() ^ wanted.items()})[0]
        got, expected = masks.get(name, "no mask"), wanted.get(name, "no such file")
        raise FormatError(f"{path}: files: {name}: num_bytes: got {got}, expected {expected}, one bit an id of a shard")


class LossMask:
    """The masks of a river's shards, mapped when they are used; threads may share it."""

    def __init__(self, paths: Sequence[Path], sizes: Sequence[int]) -> None:
        """`paths` of the mask files, `sizes` in ids of their shards."""
        self._paths, self._sizes = tuple(paths), tuple(sizes)
        self._ends: Int64 = np.cumsum(sizes, dtype=np.int64)
        self._begins: Int64 = np.append(0, self._ends[:-1])
        self._open: Recent[Bytes] = Recent()

    def at(self, positions: Int64) -> Bools:
        """Of each river position, any shape, all inside the river: is the id there trained?"""
        if len(self._paths) == 1:
            return _bits(self._bytes(0), positions)
        shards = np.searchsorted(self._ends, positions, "right")
        found = np.empty(positions.shape, np.bool_)
        for shard in distinct(shards):
            here = shards == shard
            found[here] = _bits(self._bytes(shard), positions[here] - self._begins[shard])
        return found

    def cut(self, starts: Int64, sizes: Int64) -> Trains:
        """See Trained; all runs lie inside the river."""
        return _Cut(self._pieces(starts, sizes), self._bytes)

    def _pieces(self, starts: Int64, sizes: Int64) -> "_Pieces":
        """Where runs lie, those that cross shards cut where one ends."""
        last = len(self._ends) - 1
        padding = (starts < 0) | (sizes == 0)
        shards = np.where(padding, PADDING, np.minimum(np.searchsorted(self._ends, starts, "right"), last))
        edges = None
        if (starts + sizes > np.where(padding, starts + sizes, self._ends[shards])).any():
            counts = np.where(padding, 1, np.searchsorted(self._ends, starts + sizes, "left") - shards + 1)
            edges = np.append(0, np.cumsum(counts))
            which = np.repeat(np.arange(len(starts)), counts)
            shards = shards[which] + np.arange(len(which)) - edges[which]
            padding, stops = padding[which], (starts + sizes)[which]
            starts = np.where(padding, starts[which], np.maximum(starts[which], self._begins[shards]))
            sizes = np.where(padding, sizes[which], np.minimum(stops, self._ends[shards]) - starts)
        local = np.where(padding, 0, starts - self._begins[shards])
        return _Pieces(shards, local, sizes, edges)

    def blocks(self, start: int, stop: int) -> Iterator[Bools]:
        """The bits of the ids [start, stop) of the river, in order, a million at a time."""
        while start < stop:
            shard = int(np.searchsorted(self._ends, start, "right"))
            begin = int(self._begins[shard])
            end = min(stop, int(self._ends[shard]), start + BLOCK_IDS)
            first = (start - begin) // 8
            packed = self._bytes(shard)[first : mask_bytes(end - begin)]
            bits = np.unpackbits(packed, bitorder="little").view(np.bool_)
            yield bits[start - begin - 8 * first : end - begin - 8 * first]
            start = end

    def count(self) -> int:
        """How many ids of the river are trained; reads all masks."""
        stop = int(self._ends[-1]) if len(self._ends) else 0
        return sum(int(np.count_nonzero(block)) for block in self.blocks(0, stop))

    def _bytes(self, shard: int) -> Bytes:
        found = self._open.take(shard)
        if found is None:
            found = _map(self._paths[shard], self._sizes[shard])
        self._open.keep(shard, found, MAPPED)
        return found


class JoinedMask:
    """The masks of rivers end to end; of a river without one every id is trained."""

    def __init__(self, rivers: Sequence[Any], ends: Int64) -> None:
        self._rivers, self._ends = tuple(rivers), ends

    def cut(self, starts: Int64, sizes: Int64) -> Trains:
        """Each source's by its own river; no run lies in two."""
        which = np.where(starts < 0, PADDING, np.searchsorted(self._ends, starts, "right"))
        sources: dict[int, tuple[Int64, Trains]] = {}
        for source in distinct(which):
            here = np.flatnonzero(which == source)
            mask = mask_of(self._rivers[source]) if 0 <= source < len(self._rivers) else None
            first = int(self._ends[source - 1]) if source > 0 else 0
            own = _all_alike(sizes[here], source >= 0) if mask is None else mask.cut(starts[here] - first, sizes[here])
            sources[source] = here, own
        return lambda first, last: _joined(sources, which[first:last], sizes[first:last], first)


def _all_alike(sizes: Int64, trained: bool) -> Trains:
    return lambda first, last: np.full(int(sizes[first:last].sum()), trained)


def _joined(sources: Mapping[int, tuple[Int64, Trains]], which: Int64, sizes: Int64, first: int) -> Bools:
    """What the sources of some runs say of them, in the order of the runs; they are the runs from `first` on."""
    begins, done = np.empty_like(sizes), 0
    found = []
    for source in distinct(which):
        runs, trains = sources[source]
        here = which == source
        low = int(np.searchsorted(runs, first))
        found.append(trains(low, low + int(np.count_nonzero(here))))
        begins[here] = done + np.cumsum(sizes[here]) - sizes[here]
        done += len(found[-1])
    return _slices(np.concatenate([np.zeros(0, np.bool_), *found]), begins, sizes)


class _Pieces(NamedTuple):
    """Runs of bits, each in one shard: its number (PADDING: none), the first bit in it, and how many."""

    shards: Int64
    starts: Int64
    sizes: Int64
    edges: Int64 | None
    """(k + 1,) the pieces of each run that was asked for; None: one each."""


class _Cut:
    """Runs looked up beforehand, some of which are unpacked at a time."""

    def __init__(self, pieces: _Pieces, mapped: Callable[[int], Bytes]) -> None:
        self._shards, self._starts, self._sizes, self._edges = pieces
        starts = self._starts
        self._mapped = mapped
        self._padding = self._shards == PADDING
        self._firsts = starts >> 3
        self._lasts = np.where(self._padding, self._firsts, starts + self._sizes + 7 >> 3)
        counts = self._lasts - self._firsts
        self._before: Int64 = np.append(0, np.cumsum(counts))
        self._places = 8 * self._before[:-1] + (starts & 7)
        self._nothing = bytes(mask_bytes(int(self._sizes[self._padding].max(initial=0))))
        shards = self._shards[~self._padding]
        self._only = int(shards[0]) if len(shards) and bool((shards == shards[0]).all()) else None
        self._size = _only_size(self._sizes) if len(shards) == len(self._sizes) else 0

    def __call__(self, first: int, last: int) -> Bools:
        """(n,) of the runs from first to last."""
        if self._edges is not None:
            first, last = int(self._edges[first]), int(self._edges[last])
        here = slice(first, last)
        if self._size and self._only is not None and first < last:
            mapped, count = self._mapped(self._only), mask_bytes(self._size) + 1
            if count <= len(mapped):
                return self._alike(here, mapped, count)
        packed = b"".join([*self._packed(here), self._nothing])
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little").view(np.bool_)
        places = self._places[here] - 8 * self._before[first]
        if self._nothing:
            places[self._padding[here]] = 8 * (len(packed) - len(self._nothing))
        return _slices(bits, places, self._sizes[here])

    def _alike(self, here: slice, mapped: Bytes, count: int) -> Bools:
        """The same of runs of one length in one shard, as windows are: so many bytes are gathered for each."""
        begins = np.minimum(self._firsts[here], len(mapped) - count)
        bits = np.unpackbits(_rows(mapped, count)[begins], bitorder="little").view(np.bool_)
        places = self._starts[here] - 8 * begins + 8 * count * np.arange(len(begins))
        return _slices(bits, places, self._sizes[here])

    def _packed(self, here: slice) -> "list[memoryview] | list[bytes]":
        """The bytes in which the pieces lie."""
        runs = zip(self._firsts[here].tolist(), self._lasts[here].tolist(), strict=True)
        if self._only is not None:
            view = self._mapped(self._only).data
            return [view[first:last] for first, last in runs]
        shards = self._shards[here].tolist()
        different = dict.fromkeys(shards)
        if len(different) <= MAPPED:
            views = {shard: self._view(shard) for shard in different}
            return [views[shard][first:last] for shard, (first, last) in zip(shards, runs, strict=True)]
        # a view keeps its file mapped
        return [bytes(self._view(shard)[first:last]) for shard, (first, last) in zip(shards, runs, strict=True)]

    def _view(self, shard: int) -> memoryview:
        return memoryview(b"") if shard == PADDING else self._mapped(shard).data


def _slices(bits: Bools, begins: Int64, sizes: Int64) -> Bools:
    """bits[b : b + n] of each begin and size, end to end."""
    size = _only_size(sizes)
    if size:
        found: Bools = _rows(bits, size)[begins].reshape(-1)
        return found
    view = bits.data
    runs = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
    return np.frombuffer(b"".join([view[begin:end] for begin, end in runs]), np.bool_)


def _only_size(sizes: Int64) -> int:
    """The size that all have, or 0."""
    return int(sizes[0]) if len(sizes) and bool((sizes == sizes[0]).all()) else 0


def _rows(column: NDArray[Any], size: int) -> NDArray[Any]:
    """A view of a column with a row of that size for each place where one may begin."""
    return np.ndarray((len(column) - size + 1, size), column.dtype, column.data, strides=column.strides * 2)


def mask_of(river: object) -> Trained | None:
    """The loss mask that a river has, or None."""
    found: Trained | None = getattr(river, "loss_mask", None)
    return found


def _map(path: Path, num_ids: int) -> Bytes:
    """The bytes of a mask file, mapped read-only; FormatError for a file that is not the mask of so many ids."""
    with naming(path, "read"):
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path}: got a link, folder or device, expected a file; put the file itself there")
        if status.st_size != mask_bytes(num_ids):
            raise FormatError(
                f"{path}: size: got {status.st_size} bytes, expected {mask_bytes(num_ids)}, one bit for each of "
                f"{num_ids} ids; restore it, or make the corpus anew"
            )
        found: Bytes = np.asarray(np.memmap(path, np.uint8, "r"))
    if num_ids % 8 and int(found[-1]) >> num_ids % 8:
        raise FormatError(f"{path}: got bits behind the last of {num_ids} ids, expected none; make the corpus anew")
    return found


def _bits(packed: Bytes, positions: Int64) -> Bools:
    found: Bools = ((packed[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1).view(np.bool_)
    return found
