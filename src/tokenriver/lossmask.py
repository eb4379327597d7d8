"""Loss masks on disk: `NAME.mask` beside a shard of our own, one bit an id, 1 where the id is trained.

Bit i % 8 (from the least significant, numpy's bitorder "little") of byte i // 8 is that of the shard's id i; bits
behind the last id are 0. A file of any other size is refused before a bit of it is used.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import FormatError
from tokenriver.files import naming
from tokenriver.recent import Recent
from tokenriver.types import Bools, Int64

SUFFIX = ".mask"
BLOCK_IDS = 1 << 20
MAPPED = 64
"""Files that stay mapped: a map holds a descriptor."""

Bytes = NDArray[np.uint8]


class Trained(Protocol):
    """Which ids of a river are trained."""

    def at(self, positions: Int64) -> Bools:
        """Of each river position, any shape: is the id there trained?"""


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
        self._open: Recent[Bytes] = Recent()

    def at(self, positions: Int64) -> Bools:
        """Of each river position, any shape, all inside the river: is the id there trained?"""
        if len(self._paths) == 1:
            return _bits(self._bytes(0), positions)
        shards = np.searchsorted(self._ends, positions, "right")
        found = np.empty(positions.shape, np.bool_)
        for shard in np.unique(shards).tolist():
            here = shards == shard
            found[here] = _bits(self._bytes(shard), positions[here] - self._begin(shard))
        return found

    def blocks(self, start: int, stop: int) -> Iterator[Bools]:
        """The bits of the ids [start, stop) of the river, in order, a million at a time."""
        while start < stop:
            shard = int(np.searchsorted(self._ends, start, "right"))
            begin = self._begin(shard)
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

    def _begin(self, shard: int) -> int:
        return int(self._ends[shard]) - self._sizes[shard]

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

    def at(self, positions: Int64) -> Bools:
        """Each source's by its own river."""
        which = np.searchsorted(self._ends, positions, "right")
        found = np.ones(positions.shape, np.bool_)
        for source in np.unique(which).tolist():
            mask = mask_of(self._rivers[source])
            if mask is not None:
                here = which == source
                begin = int(self._ends[source - 1]) if source else 0
                found[here] = mask.at(positions[here] - begin)
        return found


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
