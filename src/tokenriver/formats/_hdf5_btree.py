"""Where the chunks of an HDF5 dataset lie, as its B-tree of version 1 tells it: the index of all files that do not ask
for a newer one. The C library calls back for each chunk, 2.5 s a million; whole levels at once take a twentieth.

    node   0  4  TREE            8   16  neighbours
           4  1  1, of chunks    24      key 0, child 0, key 1, child 1, ...
           5  1  level, 0 leaf   key     4 stored bytes, 4 filters left out, 8 a dimension the first element, 8 zero
           6  2  children        child   8 address, of a node or a chunk
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import FormatError
from tokenriver.formats._hdf5_head import NONE
from tokenriver.formats._hdf5_messages import LAYOUT, OutsideError, cut, messages, number
from tokenriver.types import Int64

NODE_BYTES = 24
MAX_LEVEL = 8
CHUNKED = 2
_AT_ONCE = 1 << 16
ARRAYS = {3: (b"FAHD", 1, 8), 4: (b"EAHD", 5, 44)}
"""Indexes that are arrays: (signature, bytes of settings before the address in the message, place of the count)."""
ALONE = (1, 2)
"""No index: one chunk, or all of them in a row."""
Bytes = NDArray[np.uint8]


def root_of(view: memoryview, header: int) -> int | None:
    """The address of the B-tree of the dataset whose header starts at byte `header`; None if it has another index."""
    for kind, message in messages(view, header):
        if kind == LAYOUT and number(message, 0, 1) == 3 and number(message, 1, 1) == CHUNKED:
            return number(message, 3, 8)
    return None


def check_index(view: memoryview, header: int, limit: int, where: str) -> None:
    """Let the C library walk an index of another kind only where no number in it can lead it astray: an array's count
    of elements, which it goes through one by one, must be at most `limit`; a B-tree of version 2 divides by zero when
    it is damaged. FormatError."""
    for kind, message in messages(view, header):
        if kind != LAYOUT:
            continue
        version, at = number(message, 0, 1), 5 + number(message, 3, 1) * number(message, 4, 1)
        index = number(message, at, 1) if version in (4, 5) else 0
        if index not in (*ALONE, *ARRAYS):
            raise FormatError(
                f"{where}: got an index of kind {index} in a layout of version {version}, expected one dimension that "
                "grows, in a layout of version 3 to 5; write the file again with another maxshape"
            )
        if index in ARRAYS:
            _check_array(view, number(message, at + 1 + ARRAYS[index][1], 8), index, limit)


def _check_array(view: memoryview, address: int, index: int, limit: int) -> None:
    signature, _, place = ARRAYS[index]
    if address != NONE:
        count = number(cut(view, address, 8 + place), place, 8)
        if bytes(cut(view, address, 4)) != signature or count > limit:
            raise OutsideError(f"an index of {count} chunks, expected up to {limit}")


def chunks(data: Bytes, root: int, rank: int, limit: int) -> NDArray[np.int64]:
    """(4 + rank - 1, k) columns of at most `limit` chunks: byte, stored bytes, filters left out, first element in each
    dimension. OutsideError for a tree that is none."""
    key = 8 * (rank + 2)
    fields: list[tuple[Any, ...]] = [("size", "<u4"), ("mask", "<u4"), ("first", "<u8", (rank,)), ("zero", "<u8")]
    layout = np.dtype([*fields, ("child", "<u8")])
    nodes, level = np.array([root], np.int64), None
    while level != 0:
        level, children = _heads(data, nodes, level)
        if not 0 < int(children.sum()) <= limit:
            raise OutsideError(f"{children.sum()} chunks, expected 1 to {limit}")
        found = _records(data, nodes, children, layout, key)
        nodes = _addresses(found["child"], len(data))
    columns = [found["size"].astype(np.int64), found["mask"].astype(np.int64)]
    columns += [_addresses(found["first"][:, axis], 2**62) for axis in range(rank)]
    return np.stack([nodes, *columns])


def _heads(data: Bytes, nodes: Int64, above: int | None) -> tuple[int, Int64]:
    """The level of some nodes, one below that of the nodes above, and how many children each has."""
    if int(nodes.max()) > len(data) - NODE_BYTES:
        raise OutsideError(f"a node at byte {nodes.max()} of {len(data)}")
    heads = data[nodes[:, None] + np.arange(8)]
    level = int(heads[0, 5])
    expected = level if above is None else above - 1
    right = np.array([*b"TREE", 1, expected], np.uint8)
    if level > MAX_LEVEL or not (heads[:, :6] == right).all():
        raise OutsideError("no node of chunks where one is expected")
    return level, heads[:, 6] + heads[:, 7].astype(np.int64) * 256


def _records(data: Bytes, nodes: Int64, children: Int64, layout: np.dtype[Any], key: int) -> NDArray[Any]:
    """The keys and children of some nodes, one after another."""
    if int((nodes + NODE_BYTES + children * layout.itemsize + key).max()) > len(data):
        raise OutsideError("a node that is cut off")
    within = np.arange(int(children.sum())) - np.repeat(np.cumsum(children) - children, children)
    starts = np.repeat(nodes + NODE_BYTES, children) + within * layout.itemsize
    out = np.empty(len(starts), layout)
    for at in range(0, len(starts), _AT_ONCE):
        some = starts[at : at + _AT_ONCE]
        out[at : at + _AT_ONCE] = data[some[:, None] + np.arange(layout.itemsize)].view(layout)[:, 0]
    return out


def _addresses(values: NDArray[np.uint64], end: int) -> Int64:
    if values.size and int(values.max()) >= end:
        raise OutsideError(f"{values.max()}, expected below {end}")
    return values.astype(np.int64)
