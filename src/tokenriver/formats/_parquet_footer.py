"""The footer of a Parquet file, read by ourselves: which columns there are, and how many ids each row group has.

What pyarrow's metadata gives is not enough: the number of ids of a column of lists stands in a statistic that it does
not show, and to ask it about a damaged column can end the process. Fields have the numbers of parquet.thrift.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from tokenriver.errors import FormatError
from tokenriver.formats import _thrift
from tokenriver.formats._thrift import Struct

MAX_FOOTER_BYTES = 1 << 26

_MAGIC = b"PAR1"
_REQUIRED, _REPEATED = 0, 2


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of single values."""

    number: int
    path: tuple[bytes, ...]
    definition: int
    """The definition level of a value that is there."""
    repeated: bool


@dataclass(frozen=True, slots=True)
class Group:
    """One leaf's part of a row group."""

    num_rows: int
    num_values: int
    """Values, and a place for each empty list and each null."""
    num_ids: int | None
    """None where the footer does not tell."""
    num_bytes: int
    """As they lie in the file."""


def read_footer(path: Path, fd: int, size: int) -> Struct:
    """The FileMetaData of an open file, by field numbers; FormatError."""
    head, tail = os.pread(fd, 4, 0), os.pread(fd, 8, max(0, size - 8))
    if size < 12 or head != _MAGIC:
        raise FormatError(f"{path}: magic at byte 0 of {size}: got {head!r}, expected {_MAGIC!r}")
    if tail[4:] != _MAGIC:
        raise FormatError(f"{path}: magic at byte {size - 4}: got {tail[4:]!r}, expected {_MAGIC!r}; truncated?")
    length, most = int.from_bytes(tail[:4], "little"), min(MAX_FOOTER_BYTES, size - 12)
    if not 0 < length <= most:
        raise FormatError(f"{path}: footer length at byte {size - 8}: got {length}, expected 1 to {most}")
    try:
        return _thrift.read_struct(os.pread(fd, length, size - 8 - length))
    except (ValueError, IndexError) as error:
        raise FormatError(f"{path}: footer at byte {size - 8 - length}: got {error}, expected Thrift") from error


@dataclass(slots=True)
class _Branch:
    """A group of columns, of which `missing` children are still to come."""

    missing: int
    path: tuple[bytes, ...] = ()
    definition: int = 0
    repeated: bool = False


def leaves(path: Path, footer: Struct) -> list[Leaf]:
    """The columns of single values, in order."""
    where = f"{path}: schema"
    root, *elements = _list(where, footer, 2) or [None]
    found: list[Leaf] = []
    branches = [_Branch(_integer(where, root, 5))]
    for element in elements:
        above = branches[-1] if branches else _Branch(0)
        above.missing -= 1
        if above.missing < 0:
            raise FormatError(f"{where}: got {len(elements)} elements, expected fewer by their children")
        kind, children = _integer(where, element, 3, _REQUIRED), _integer(where, element, 5, 0)
        names = (*above.path, _bytes(where, element, 4))
        definition, repeated = above.definition + (kind != _REQUIRED), above.repeated or kind == _REPEATED
        if children > 0:
            branches.append(_Branch(children, names, definition, repeated))
        else:
            found.append(Leaf(len(found), names, definition, repeated))
        while branches and branches[-1].missing == 0:
            branches.pop()
    if any(branch.missing for branch in branches):
        raise FormatError(f"{where}: got {len(elements)} elements, expected more by their children")
    return found


def groups(path: Path, footer: Struct, leaf: Leaf, num_leaves: int, size: int) -> list[Group]:
    """A leaf's part of each row group, checked against the file's `size` bytes."""
    writer = footer.get(6)
    # parquet-cpp counts empty lists among the nulls; whoever may not is not believed
    counts_nulls = isinstance(writer, bytes) and writer.startswith(b"parquet-cpp")
    found = []
    for number, group in enumerate(_list(f"{path}: footer", footer, 4)):
        where = f"{path}: row group {number}"
        chunks = _list(where, group, 1)
        if len(chunks) != num_leaves:
            raise FormatError(f"{where}: got {len(chunks)} columns, expected {num_leaves} by the schema")
        for chunk in chunks:  # pyarrow takes for granted that each has one
            _struct(where, chunk, 3)
        rows, chunk = _integer(where, group, 3), chunks[leaf.number]
        if isinstance(chunk, dict) and (1 in chunk or 8 in chunk):
            raise FormatError(f"{where}: got a column that is encrypted or lies in another file, expected it here")
        found.append(_group(where, rows, _struct(where, chunk, 3), leaf, size))
        if found[-1].num_ids is None and counts_nulls:
            found[-1] = replace(found[-1], num_ids=_less_nulls(where, _struct(where, chunk, 3)))
    return found


def _group(where: str, rows: int, data: Struct, leaf: Leaf, size: int) -> Group:
    names = tuple(_list(where, data, 3))
    if names != leaf.path:
        raise FormatError(f"{where}: got the column {repr(names)[:100]}, expected {leaf.path!r}")
    values, length = _integer(where, data, 5), _integer(where, data, 7)
    start = _integer(where, data, 11, 0) or _integer(where, data, 9)
    if (start < 4 and values) or length < 0 or start + length > size - 8:
        raise FormatError(f"{where}: got the bytes {start} to {start + length}, expected them in {size} bytes")
    if rows < 0 or values < rows or (values > rows and not leaf.repeated):
        raise FormatError(f"{where}: got {values} values in {rows} rows, expected at least one a row")
    if leaf.definition == 0:
        return Group(rows, values, values, length)
    levels = _struct(where, data, 16, {}).get(3)
    if (
        isinstance(levels, list)
        and len(levels) == leaf.definition + 1
        and all(type(n) is int and n >= 0 for n in levels)
    ):
        return Group(rows, values, levels[-1] if sum(levels) == values else None, length)
    return Group(rows, values, None, length)


def _less_nulls(where: str, data: Struct) -> int | None:
    nulls, values = _struct(where, data, 12, {}).get(3), _integer(where, data, 5)
    return values - nulls if isinstance(nulls, int) and 0 <= nulls <= values else None


def _field(struct: object, number: int) -> object:
    return struct.get(number) if isinstance(struct, dict) else None


def _integer(where: str, struct: object, number: int, default: int | None = None) -> int:
    found = _field(struct, number)
    found = default if found is None else found
    if type(found) is not int:
        raise FormatError(f"{where}: field {number}: got {repr(found)[:100]}, expected an integer")
    return found


def _bytes(where: str, struct: object, number: int) -> bytes:
    found = _field(struct, number)
    if not isinstance(found, bytes):
        raise FormatError(f"{where}: field {number}: got {repr(found)[:100]}, expected a text")
    return found


def _list(where: str, struct: object, number: int) -> list[object]:
    found = _field(struct, number)
    if not isinstance(found, list):
        raise FormatError(f"{where}: field {number}: got {repr(found)[:100]}, expected a list")
    return found


def _struct(where: str, struct: object, number: int, default: Struct | None = None) -> Struct:
    found = _field(struct, number)
    found = default if found is None else found
    if not isinstance(found, dict):
        raise FormatError(f"{where}: field {number}: got {repr(found)[:100]}, expected a struct")
    return found
