"""NumPy's `.npy` files of one column of integers: the header read without evaluating it, and written as NumPy does.

offset   size  content
0        6     b"\\x93NUMPY"
6        2     version: 1.0 (2.0 and 3.0 differ in the next field)
8        2     uint16 length H of the header (uint32 in versions 2 and 3)
10       H     a Python dict as text: descr, fortran_order, shape; spaces and a line feed up to a multiple of 64
10 + H         the values
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver.errors import FormatError

MAGIC = b"\x93NUMPY"
_LONGEST = 1 << 14
_ALIGNMENT = 64
# room that NumPy leaves for the count to grow
_DIGITS = 21
# possessive: a long run of spaces is looked at once
_ENTRY = r"'(descr|fortran_order|shape)'\s*+:\s*+('[^']{1,8}'|True|False|\(\s*+[0-9]{1,18}\s*+,?+\s*+\))"
_HEADER = re.compile(rf"\{{\s*+(?:{_ENTRY}\s*+,?+\s*+){{3}}\}}\s*+")
_DESCR = re.compile(r"[<>|=]?[iu][1248]")


@dataclass(frozen=True, slots=True)
class Column:
    """Where the values of a file lie."""

    dtype: np.dtype[Any]
    offset: int
    count: int


def read_header(path: Path, fd: int, size: int) -> Column:
    """The header of a file with one column of integers of any width and byte order, checked against the file's size;
    FormatError for everything else. No pickle is ever looked at."""
    head = os.pread(fd, _LONGEST, 0)
    if head[:6] != MAGIC:
        raise FormatError(f"{path}: magic at byte 0: got {head[:6]!r}, expected {MAGIC!r}")
    major = head[6] if len(head) > 6 else 0
    if major not in (1, 2, 3):
        raise FormatError(f"{path}: version at byte 6: got {major}, expected 1, 2 or 3")
    begin = 10 if major == 1 else 12
    offset = begin + int.from_bytes(head[8:begin], "little")
    if len(head) < min(offset, _LONGEST) or offset > _LONGEST:
        raise FormatError(f"{path}: header at byte {begin}: got {offset - begin} bytes, expected what {size} hold")
    text = head[begin:offset].decode("latin-1")
    fields = dict(re.findall(_ENTRY, text)) if _HEADER.fullmatch(text) else {}
    descr = fields.get("descr", "").strip("'")
    if len(fields) != 3 or _DESCR.fullmatch(descr) is None or fields["shape"][0] != "(":
        raise FormatError(f"{path}: header at byte {begin}: got {text[:100]!r}, expected one column of integers")
    count = int(fields["shape"].strip("(), \t\n"))
    column = Column(np.dtype(descr), offset, count)
    if size != offset + count * column.dtype.itemsize:
        raise FormatError(
            f"{path}: size: got {size} bytes, expected {offset + count * column.dtype.itemsize} for {count} values of "
            f"{column.dtype.name}"
        )
    return column


def header(dtype: np.dtype[Any], count: int) -> bytes:
    """The bytes before `count` values, as `numpy.save` writes them."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}"
    text += " " * (_DIGITS - len(str(count)))
    room = -(len(MAGIC) + 4 + len(text) + 1) % _ALIGNMENT
    text += " " * room + "\n"
    return MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin-1")
