"""The header of an HDF5 object, read without the C library: a list of messages, in blocks that lead to each other.

All numbers are little-endian, and each is checked against the file before it is used.
"""

from collections.abc import Iterator

LAYOUT, ATTRIBUTE, CONTINUATION = 8, 12, 16
MAX_BLOCKS = 64


class OutsideError(Exception):
    """A number leads out of the bytes that it must stay in, or to something else than what must be there."""


def cut(view: memoryview, at: int, size: int) -> memoryview:
    if not 0 <= at <= len(view) - size or size < 0:
        raise OutsideError(f"{size} bytes at {at} of {len(view)}")
    return view[at : at + size]


def number(view: memoryview, at: int, size: int) -> int:
    return int.from_bytes(cut(view, at, size), "little")


def messages(view: memoryview, header: int) -> Iterator[tuple[int, memoryview]]:
    """(type, content) of all messages of an object header of version 1 or 2."""
    if bytes(cut(view, header, 4)) == b"OHDR":
        flags = number(view, header + 5, 1)
        at = header + 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
        width = 1 << (flags & 3)
        blocks = [cut(view, at + width, number(view, at, width))]
        head, order = 4, 2 if flags & 4 else 0
    else:
        blocks = [cut(view, header + 16, number(view, header + 8, 4))]
        head, order, width = 8, 0, 0
    for place in range(MAX_BLOCKS):
        if place == len(blocks):
            return
        block, at = blocks[place], 0
        while at + head + order <= len(block):
            kind = number(block, at, 1 if width else 2)
            size = number(block, at + (1 if width else 2), 2)
            message = cut(block, at + head + order, size)
            if kind == CONTINUATION:
                blocks.append(_continued(view, message, bool(width)))
            yield kind, message
            at += head + order + size
    raise OutsideError(f"a header of over {MAX_BLOCKS} blocks")


def _continued(view: memoryview, message: memoryview, second: bool) -> memoryview:
    """The messages of a further block; that of a header of version 2 has a signature before and a checksum after."""
    block = cut(view, number(message, 0, 8), number(message, 8, 8))
    return cut(block, 4, len(block) - 8) if second else block
