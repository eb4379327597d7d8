"""Text of any length in an attribute of an HDF5 file, read without the C library, which a damaged heap holds for ever.

An object's header is a list of messages; an attribute message (type 12) holds the attribute's name and, for such text,
its length (uint32) and the place of its bytes: the address of a heap (uint64) and a number in it (uint32). All numbers
are little-endian, and each is checked against the file before it is used.
"""

from pathlib import Path

from tokenriver.errors import FormatError
from tokenriver.formats._hdf5_messages import ATTRIBUTE, OutsideError, cut, messages, number

REFERENCE_BYTES = 16
MAX_OBJECTS, MAX_TEXT = 1 << 16, 1000


def text_of(path: Path, view: memoryview, header: int, name: bytes) -> bytes | None:
    """The text of attribute `name` of the object whose header starts at byte `header`; None where the attribute is
    kept in another way than as a message of the header. FormatError for a header or heap that is damaged."""
    try:
        for kind, message in messages(view, header):
            reference = _reference(message, name) if kind == ATTRIBUTE else None
            if reference is not None:
                return _heap_object(view, *reference)
    except OutsideError as error:
        raise FormatError(f"{path}: attribute {name.decode()}: got {error}, expected a text; it is damaged") from error
    return None


def _reference(message: memoryview, name: bytes) -> tuple[int, int, int] | None:
    """(length, address of the heap, number in it) of the attribute, if it is called `name`."""
    version = number(message, 0, 1)
    sizes = [number(message, at, 2) for at in (2, 4, 6)]
    at = 9 if version == 3 else 8
    if bytes(cut(message, at, sizes[0])).rstrip(b"\0") != name:
        return None
    at += sum(-(-size // 8) * 8 if version == 1 else size for size in sizes)
    reference = cut(message, at, REFERENCE_BYTES)
    return number(reference, 0, 4), number(reference, 4, 8), number(reference, 12, 4)


def _heap_object(view: memoryview, length: int, address: int, wanted: int) -> bytes:
    if bytes(cut(view, address, 4)) != b"GCOL":
        raise OutsideError(f"no heap at byte {address}")
    heap = cut(view, address, number(view, address + 8, 8))
    at = 16
    for _ in range(MAX_OBJECTS):
        key, size = number(heap, at, 2), number(heap, at + 8, 8)
        if key == 0:  # the free space, which comes last
            break
        if key == wanted:
            if length > min(size, MAX_TEXT):
                raise OutsideError(f"a text of {length} bytes")
            return bytes(cut(heap, at + 16, length))
        at += 16 + -(-size // 8) * 8
    raise OutsideError(f"no object {wanted} in the heap at byte {address}")
