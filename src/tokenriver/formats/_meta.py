"""nanoGPT's `meta.pkl`, the characters of a character data set: read without unpickling, written byte for byte.

A pickle is a program. Ours is no interpreter of it but of the few opcodes that put texts and small integers into
dicts, in any of the six protocols; whatever else a file asks for is refused by name before anything is done. nanoGPT
writes one dict: `vocab_size`, `itos` (character by id) and `stoi` (id by character), in this order.
"""

import os
import pickletools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenriver.defaults import CHARACTERS_FILE
from tokenriver.errors import FormatError, LimitError
from tokenriver.formats import _files
from tokenriver.formats._mapping import open_regular
from tokenriver.storage import WrittenFile

MAX_BYTES = 4 << 20


@dataclass(slots=True)
class _Machine:
    """What the opcodes work on. `marks` are the heights of the stack at the marks that are open."""

    stack: list[object]
    marks: list[int]
    memo: dict[object, object]

    def above_mark(self) -> list[object]:
        """Take what lies above the last mark from the stack."""
        height = self.marks.pop()
        taken = self.stack[height:]
        del self.stack[height:]
        return taken


def _put_items(into: object, items: Sequence[object]) -> None:
    if type(into) is not dict or len(items) % 2:
        raise ValueError("items for something that is no dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        if type(key) not in (str, int):
            raise ValueError(f"a key of type {type(key).__name__}, which is no text or integer")
        if key in into:
            raise ValueError(f"the key {str(key)[:20]!r} twice")
        into[key] = value


def _new_dict(machine: _Machine, argument: object) -> None:
    items = machine.above_mark()
    into: dict[object, object] = {}
    _put_items(into, items)
    machine.stack.append(into)


def _set_item(machine: _Machine, argument: object) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _put_items(machine.stack[-1], [key, value])


def _set_items(machine: _Machine, argument: object) -> None:
    items = machine.above_mark()
    _put_items(machine.stack[-1], items)


def _memoize(machine: _Machine, argument: object) -> None:
    machine.memo[len(machine.memo) if argument is None else argument] = machine.stack[-1]


def _push(machine: _Machine, argument: object) -> None:
    machine.stack.append(argument)


def _nothing(machine: _Machine, argument: object) -> None:
    """A word about the pickle itself."""


Step = Callable[[_Machine, object], None]
_STEPS: dict[str, Step] = {
    "EMPTY_DICT": lambda machine, argument: machine.stack.append({}),
    "MARK": lambda machine, argument: machine.marks.append(len(machine.stack)),
    "DICT": _new_dict,
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _memoize),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, at: machine.stack.append(machine.memo[at])),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _push),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2"), _push),
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _nothing),
}


def read_meta(path: Path) -> str:
    """The characters of a `meta.pkl` in id order; FormatError for what is not exactly nanoGPT's dict. Nothing in the
    file can be called: 4 MiB of opcodes are looked at, one by one."""
    fd, size = open_regular(path)
    try:
        data = os.pread(fd, MAX_BYTES, 0)
    finally:
        os.close(fd)
    if size >= MAX_BYTES:
        raise FormatError(f"{path}: size: got {size} bytes, expected less than {MAX_BYTES} of a character vocabulary")
    return _characters(path, _load(path, data))


def _load(path: Path, data: bytes) -> object:
    machine, at = _Machine([], [], {}), 0
    try:
        for opcode, argument, position in pickletools.genops(data):
            at = position or 0
            step = _STEPS.get(opcode.name)
            if step is None:
                raise ValueError(f"{opcode.name}, which a dict of texts and integers does not need")
            step(machine, argument)
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise FormatError(
            f"{path}: opcode behind byte {at}: got {error}, expected nanoGPT's {CHARACTERS_FILE}"
        ) from error
    if len(machine.stack) != 1 or machine.marks or at + 1 != len(data):
        raise FormatError(f"{path}: end at byte {at}: got {len(data) - at - 1} bytes more, expected one dict")
    return machine.stack[0]


def _characters(path: Path, meta: object) -> str:
    if type(meta) is not dict or meta.keys() != {"vocab_size", "itos", "stoi"}:
        raise FormatError(f"{path}: got {_names(meta)}, expected a dict of vocab_size, itos and stoi")
    size, itos, stoi = meta["vocab_size"], meta["itos"], meta["stoi"]
    if type(size) is not int or type(itos) is not dict or type(stoi) is not dict or not len(itos) == len(stoi) == size:
        raise FormatError(f"{path}: vocab_size: got {str(size)[:40]}, expected the number of characters in both dicts")
    for number in range(size):
        letter = itos.get(number)
        if type(letter) is not str or len(letter) != 1 or "\ud800" <= letter <= "\udfff":
            raise FormatError(f"{path}: itos[{number}]: got {_names(letter)}, expected a character")
        if type(stoi.get(letter)) is not int or stoi[letter] != number:
            raise FormatError(f"{path}: stoi[{letter!r}]: got {_names(stoi.get(letter))}, expected {number}")
    return "".join(itos[number] for number in range(size))


def _names(value: object) -> str:
    """What was found, without following what may hold itself."""
    if type(value) is dict:
        return f"a dict of {len(value)}"
    return repr(value)[:60]


def write_meta(path: Path, characters: str) -> WrittenFile:
    """Write the `meta.pkl` of these characters, in id order: the bytes that nanoGPT's own script leaves."""
    return _files.write_file(path, [pack_meta(characters)])


def pack_meta(characters: str) -> bytes:
    """The pickle of nanoGPT's dict, by Python's default protocol, byte for byte; LimitError for what is no set of
    characters, and for more of them than a reader takes."""
    if len(set(characters)) != len(characters) or any("\ud800" <= letter <= "\udfff" for letter in characters):
        raise LimitError("characters: got one twice, or half of a pair, expected each character once")
    out = _Writer(bytearray(b"\x80\x04"), 2)
    out.begin()
    out.raw(b"}\x94(")
    out.save(_text("vocab_size") + b"\x94")
    out.save(_number(len(characters)))
    out.save(_text("itos") + b"\x94")
    out.save(b"}\x94")
    _save_items(out, [(_number(i), _text(letter) + b"\x94") for i, letter in enumerate(characters)])
    out.save(_text("stoi") + b"\x94")
    out.save(b"}\x94")
    _save_items(out, [(_recall(4 + i), _number(i)) for i in range(len(characters))])
    out.raw(b"u.")
    out.end()
    if len(out.data) >= MAX_BYTES:
        raise LimitError(
            f"characters: got {len(characters)}, expected a {CHARACTERS_FILE} of less than {MAX_BYTES} bytes"
        )
    return bytes(out.data)


@dataclass(slots=True)
class _Writer:
    """A pickle in the making: frames of 64 KiB and more, each with its length before it."""

    data: bytearray
    frame: int

    def begin(self) -> None:
        self.frame = len(self.data)
        self.data += b"\x95" + bytes(8)

    def end(self) -> None:
        length = len(self.data) - self.frame - 9
        self.data[self.frame + 1 : self.frame + 9] = length.to_bytes(8, "little")

    def raw(self, data: bytes) -> None:
        self.data += data

    def save(self, data: bytes) -> None:
        """An object: a frame that is full ends before it."""
        if len(self.data) - self.frame - 9 >= 1 << 16:
            self.end()
            self.begin()
        self.data += data


def _save_items(out: _Writer, items: Sequence[tuple[bytes, bytes]]) -> None:
    """The items of a dict in runs of 1000; a last full run is followed by an empty one, and one item has no mark."""
    if len(items) == 1:
        out.save(items[0][0])
        out.save(items[0][1])
        out.raw(b"s")
        return
    for at in range(0, len(items) + 1 if items else 0, 1000):
        out.raw(b"(")
        for key, value in items[at : at + 1000]:
            out.save(key)
            out.save(value)
        out.raw(b"u")


def _text(value: str) -> bytes:
    data = value.encode()
    return b"\x8c" + bytes([len(data)]) + data


def _number(value: int) -> bytes:
    if value < 1 << 8:
        return b"K" + value.to_bytes(1, "little")
    return b"M" + value.to_bytes(2, "little") if value < 1 << 16 else b"J" + value.to_bytes(4, "little")


def _recall(number: int) -> bytes:
    return b"h" + number.to_bytes(1, "little") if number < 1 << 8 else b"j" + number.to_bytes(4, "little")
