"""What an HDF5 file says about one of its datasets of ids, as columns: where each chunk lies, and how it was stored.

The C library (through h5py) is asked for the structure alone, with the file open for this call only; no handle is left
for a fork to share, and ids are read from a map of the same file. What may lead out of the file is refused before it is
followed: links that are not hard, external storage, virtual datasets, filters that would load a plug-in.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from h5py import h5d, h5f, h5o, h5p, h5s, h5t

from tokenriver.errors import FormatError
from tokenriver.formats import _hdf5_attributes, _hdf5_filters
from tokenriver.formats._hdf5_chunks import ChunkTable
from tokenriver.formats._hdf5_head import CURE
from tokenriver.formats._hdf5_open import File, library
from tokenriver.types import Ids, Int64


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of rows x columns ids (one column if it is 1-D), of which the first `count`, row by row, count."""

    dtype: np.dtype[Any]
    """As stored; may be big-endian."""
    count: int
    columns: int
    flat: Ids | int | None
    """Without chunks: the ids themselves, or the byte where they start; None if there are chunks."""
    chunk: tuple[int, int]
    """Rows and columns of a chunk."""
    offsets: Int64
    """(k,) byte of each chunk, bands of rows one after another; only those that hold one of the first `count` ids."""
    sizes: Int64
    """(k,) stored bytes of each chunk."""
    masks: Int64
    """(k,) filters left out, by bit."""
    filters: tuple[int, ...]


def read_dataset(file: File, name: str) -> Dataset:
    """All about the dataset `name` of an open file, checked; FormatError."""
    path = file.path
    with library(path, name):
        found, header = open_hard(file, name)
        creation = found.get_create_plist()
        _check_inside(path, name, creation)
        dtype = _integer_type(path, name, found.get_type())
        shape = found.shape
        if len(shape) not in (1, 2):
            raise FormatError(f"{path}: {name}: got {len(shape)} dimensions, expected 1 or 2")
        rows, columns = shape if len(shape) == 2 else (shape[0], 1)
        count = _cut(path, file.handle, found, name, rows * columns)
        if creation.get_layout() == h5d.CHUNKED:
            table = ChunkTable(file, name, found, header)
            chunks = table.read(count, columns, dtype.itemsize)
            return Dataset(dtype, count, columns, None, table.chunk, *chunks, table.filters)
        flat = _unchunked(f"{path}: {name}", found, creation, count * dtype.itemsize, len(file.view))
        none = np.empty(0, np.int64)
        return Dataset(dtype, count, columns, flat, (0, 0), none, none, none, ())


def has_dataset(file: File, name: str) -> bool:
    with library(file.path, name):
        return bool(file.handle.links.exists(name.encode()))


def open_hard(file: File, name: str) -> tuple[h5d.DatasetID, int]:
    """The dataset `name`, which no link may lead to but its own, and the address of its header; FormatError. What else
    the library would tell of an object (H5Oget_info) it reads from indexes that crash it when damaged."""
    path, root, key = file.path, file.handle, name.encode()
    if not root.links.exists(key):
        raise FormatError(f"{path}: got no dataset {name!r}, expected one of ids; check what the file holds")
    link = root.links.get_info(key)
    if link.type != 0:  # soft, external and user-defined links have other numbers
        raise FormatError(f"{path}: {name}: got a soft or external link, expected a dataset in the file; copy it there")
    found = h5o.open(root, key)
    if not isinstance(found, h5d.DatasetID):
        raise FormatError(f"{path}: {name}: got a group or a type, expected a dataset")
    return found, link.u


def _check_inside(path: Path, name: str, creation: h5p.PropDCID) -> None:
    layout = creation.get_layout()
    if layout not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
        raise FormatError(f"{path}: {name}: got a virtual dataset, expected ids in the file itself; copy them there")
    if creation.get_external_count():
        raise FormatError(f"{path}: {name}: got external storage, expected ids in the file itself; copy them there")
    for number in range(creation.get_nfilters()):
        code = creation.get_filter(number)[0]
        if code not in _hdf5_filters.NAMES:
            raise FormatError(
                f"{path}: {name}: got filter {code}, expected {', '.join(_hdf5_filters.NAMES.values())} or none; "
                "write the file again without it"
            )


def _integer_type(path: Path, name: str, kind: h5t.TypeID) -> np.dtype[Any]:
    bits = 8 * kind.get_size()
    whole = kind.get_class() == h5t.INTEGER and kind.get_precision() == bits and kind.get_offset() == 0
    if not whole or bits not in (8, 16, 32, 64):
        raise FormatError(f"{path}: {name}: got values of another type, expected integers of 1, 2, 4 or 8 bytes")
    order = ">" if kind.get_order() == h5t.ORDER_BE else "<"
    return np.dtype(f"{order}{'i' if kind.get_sign() == h5t.SGN_2 else 'u'}{bits // 8}")


def _cut(path: Path, file: h5f.FileID, found: h5d.DatasetID, name: str, total: int) -> int:
    """How many of `total` ids count: `token_count` of the dataset, or else of the file."""
    told = [
        count
        for count in (_hdf5_attributes.integer(path, place, b"token_count") for place in (found, file))
        if count is not None
    ]
    count = told[0] if told else total
    if any(other != count for other in told):
        raise FormatError(f"{path}: token_count: got {told[0]} at the dataset and {told[1]} at the file, expected one")
    if count > total:
        raise FormatError(
            f"{path}: {name}: got {total} ids, expected the {count} of token_count: its writer died; {CURE}"
        )
    if count < 1:
        raise FormatError(f"{path}: {name}: got {count} ids, expected at least 1; its writer died, or wrote none")
    return count


def _unchunked(where: str, found: h5d.DatasetID, creation: h5p.PropDCID, needed: int, size: int) -> Ids | int:
    if creation.get_layout() == h5d.COMPACT:
        stored = found.get_storage_size()
        total = math.prod(found.shape) * found.get_type().get_size()
        if not needed <= total <= stored <= size:
            raise FormatError(f"{where}: got {stored} bytes in the header, expected {total}; {CURE}")
        values = np.empty(found.shape, found.dtype)
        found.read(h5s.ALL, h5s.ALL, values)
        return values.reshape(-1)
    offset = found.get_offset()
    if offset is None:
        raise FormatError(f"{where}: got no ids, expected {needed} bytes of them: its writer died; {CURE}")
    if not 0 < offset <= size - needed:
        raise FormatError(f"{where}: got {needed} bytes of ids at byte {offset}, expected them below {size}")
    return int(offset)
