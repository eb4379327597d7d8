"""The first bytes of an HDF5 file, checked before the C library sees any of it: the superblock.

    version 0 (1)      version 2, 3   size  content
    0                  0              8     \\x89 H D F \\r \\n \\x1a \\n
    8                  8              1     version of the superblock
    13                 9              1     bytes of an address, 8
    14                 10             1     bytes of a length, 8
    -                  11             1     flags: bit 0, a writer has the file open; bit 2, in SWMR mode
    24 (28)            12             8     address of the file's start, 0
    40 (44)            28             8     address of the file's end: its size
    48 (52)            -              8     address of a driver's block, none
    64 (68)            36             8     address of the root group's header

A closed file is exactly as long as it says. One that is longer or shorter was cut off, or its writer died.
"""

from pathlib import Path

from tokenriver.errors import FormatError
from tokenriver.files import Buffer
from tokenriver.formats._mapping import read_head

SIGNATURE = b"\x89HDF\r\n\x1a\n"
HEAD_BYTES = 64
NONE = 2**64 - 1
WRITING, SWMR = 1, 4
VERSION, FLAGS = 8, 11
SIZES = {0: 13, 1: 13, 2: 9, 3: 9}
BASE = {0: 24, 1: 28, 2: 12, 3: 12}
END = {0: 40, 1: 44, 2: 28, 3: 28}
DRIVER = {0: 48, 1: 52}
ROOT = {0: 64, 1: 68, 2: 36, 3: 36}
CURE = "make it anew"


def has_signature(path: Path) -> bool:
    """Is it a regular file that starts as HDF5 files do?"""
    return read_head(path, len(SIGNATURE)) == SIGNATURE


def check_head(path: Path, head: bytes, size: int) -> None:
    """Check the superblock of a file of `size` bytes, given its first HEAD_BYTES; FormatError."""
    if head[:VERSION] != SIGNATURE:
        raise FormatError(f"{path}: signature at byte 0: got {head[:VERSION]!r}, expected {SIGNATURE!r}")
    if len(head) < HEAD_BYTES:
        raise FormatError(f"{path}: size: got {size} bytes, expected an HDF5 file of over {HEAD_BYTES}; {CURE}")
    version = head[VERSION]
    if version not in END:
        raise FormatError(f"{path}: superblock version at byte {VERSION}: got {version}, expected 0 to 3")
    at = SIZES[version]
    if head[at : at + 2] != b"\x08\x08":
        raise FormatError(f"{path}: sizes of addresses at byte {at}: got {list(head[at : at + 2])}, expected 8 and 8")
    _check_writer(path, head, version)
    if _address(head, BASE[version]) != 0:
        raise FormatError(
            f"{path}: start address at byte {BASE[version]}: got {_address(head, BASE[version])}, expected 0 "
            "(no user block before the file)"
        )
    if version in DRIVER and _address(head, DRIVER[version]) != NONE:
        raise FormatError(f"{path}: driver block at byte {DRIVER[version]}: got one, expected a single plain file")
    _check_end(path, _address(head, END[version]), END[version], size)


def root_of(head: Buffer) -> int:
    """The address of the root group's header, of a file whose superblock was checked."""
    head = bytes(memoryview(head)[: 2 * HEAD_BYTES])
    return _address(head, ROOT[head[VERSION]])


def _check_writer(path: Path, head: bytes, version: int) -> None:
    if version >= 2 and head[FLAGS]:
        mode = " in SWMR mode" if head[FLAGS] & SWMR else ""
        raise FormatError(
            f"{path}: flags at byte {FLAGS}: got {head[FLAGS]}, expected 0: a writer has the file open{mode}, or died "
            f"with it open; wait until it has closed the file, or {CURE}"
        )


def _check_end(path: Path, end: int, at: int, size: int) -> None:
    if end > size:
        raise FormatError(f"{path}: size: got {size} bytes, expected {end} by byte {at}: it is truncated; {CURE}")
    if end < size:
        raise FormatError(
            f"{path}: size: got {size} bytes, expected {end} by byte {at}: its writer died before it could say how "
            f"long the file is, or something was appended; {CURE}"
        )


def _address(head: bytes, at: int) -> int:
    return int.from_bytes(head[at : at + 8], "little")
