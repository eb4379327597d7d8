"""MDS columns: which of them holds the ids, and how its values are encoded.

    encoding               a value of the column
    ndarray:DTYPE:COUNT    COUNT values, nothing else
    ndarray:DTYPE          one byte (1 << 2 | k), a count of 2^k bytes, the values
    ndarray                a byte that names the dtype, then as ndarray:DTYPE
    bytes                  the values; their dtype is nowhere written down

Columns whose values may differ in size have a null among the column sizes (formats.md, section 14).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import rules
from tokenriver.errors import FormatError
from tokenriver.formats import _json_index
from tokenriver.formats._mapping import DTYPES, id_dtype

NAMES = ("tokens", "input_ids", "ids")
CODES = {8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 32: "uint32", 33: "int32", 64: "uint64", 65: "int64"}
VERSION = 2
MAX_BYTES = 2**32 - 1
"""Offsets in a shard are uint32."""

COLUMNS: rules.Table = {
    "column_encodings": rules.LIST,
    "column_names": rules.LIST,
    "column_sizes": rules.LIST,
    "compression": rules.or_none(rules.TEXT),
    "format": ("'mds'", lambda value: value == "mds"),
    "hashes": rules.LIST,
    "size_limit": rules.or_none(rules.POSITIVE),
    "version": rules.integer(VERSION, VERSION),
}
_SIZE = rules.or_none(rules.integer(0, MAX_BYTES))


@dataclass(frozen=True, slots=True)
class Column:
    """The column of the ids in samples of several: its number, encoding, and what that says (dtype None: nothing, or
    each sample says; count None: each sample says)."""

    name: str
    number: int
    encoding: str
    dtype: np.dtype[Any] | None
    count: int | None
    sizes: tuple[int | None, ...]
    """Bytes of a value of each column; None where they differ."""

    @property
    def variable(self) -> int:
        """Columns whose values may differ in size."""
        return self.sizes.count(None)

    def with_dtype(self, path: Path, asked: str | None) -> np.dtype[Any] | None:
        """The dtype by the file, else the one asked for; FormatError where the two differ or neither is there."""
        wanted = None if asked is None else id_dtype(asked)
        if self.dtype is not None and wanted not in (None, self.dtype):
            raise FormatError(f"{path}: dtype: got {self.encoding!r}, expected {asked}; leave dtype out")
        if self.encoding == "bytes" and wanted is None:
            raise FormatError(
                f"{path}: column {self.name!r}: got encoding 'bytes', expected a dtype of its ids; say it with dtype"
            )
        return self.dtype or wanted


def find_column(path: Path, row: dict[str, Any]) -> Column:
    """The column of the ids by a checked table of COLUMNS: the only one, or the one called tokens, input_ids or ids;
    FormatError for anything else, and for columns that only Python's pickle can read."""
    names, encodings, sizes = row["column_names"], row["column_encodings"], row["column_sizes"]
    same = len(names) == len(encodings) == len(sizes)
    if not same or not all(map(rules.TEXT[1], [*names, *encodings])) or len(set(names)) != len(names):
        raise FormatError(f"{path}: columns: got {str(names)[:200]}, expected names, encodings and sizes of each")
    if not all(map(_SIZE[1], sizes)):
        raise FormatError(f"{path}: column_sizes: got {str(sizes)[:200]}, expected each {_SIZE[0]}")
    if "pkl" in encodings:
        name = names[encodings.index("pkl")]
        raise FormatError(
            f"{path}: column {name!r}: got encoding 'pkl', expected one that is data, not a program; write the set "
            "again without it"
        )
    wanted = names if len(names) == 1 else [name for name in NAMES if name in names]
    if len(wanted) != 1:
        raise FormatError(
            f"{path}: columns: got {', '.join(map(repr, names))[:300]}, expected only one, or one of {', '.join(NAMES)}"
        )
    number = names.index(wanted[0])
    return _column(path, (wanted[0], number), encodings[number], tuple(sizes))


def _column(path: Path, named: tuple[str, int], encoding: str, sizes: tuple[int | None, ...]) -> Column:
    kind, *words = encoding.split(":")
    size = sizes[named[1]]
    if encoding in ("bytes", "ndarray") and size is None:
        return Column(*named, encoding, None, None, sizes)
    dtype = DTYPES.get(words[0]) if kind == "ndarray" and words else None
    if dtype is not None and len(words) == 1 and size is None:
        return Column(*named, encoding, dtype, None, sizes)
    if dtype is not None and len(words) == 2 and words[1].isascii() and words[1].isdigit() and len(words[1]) < 11:
        count = int(words[1])
        if size == count * dtype.itemsize and count > 0:
            return Column(*named, encoding, dtype, count, sizes)
    raise FormatError(
        f"{path}: column {named[0]!r}: got encoding {encoding[:100]!r} of {size} bytes, expected ids: bytes, ndarray, "
        "ndarray:DTYPE or ndarray:DTYPE:COUNT with a dtype of integers"
    )


def embedded_columns(path: Path, data: bytes) -> dict[str, Any]:
    """The table that a shard carries itself; FormatError."""
    return rules.check(path, "the shard's own columns", _json_index.parse(path, data), COLUMNS)
