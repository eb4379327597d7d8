"""What a SentencePiece `.model` file says of its pieces and of how it treats text, read without its library: the
library does not tell, and no length in a file is trusted before it is compared with the file's size.

The file is one protocol buffer: a run of fields, each a key (number << 3 | wire type) and a value. Of a field that
stands twice the last counts, but for the pieces, of which each is one.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tokenriver.errors import FormatError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE, WORD, CHAR = range(1, 5)
SPACE = "\u2581"
"""How pieces spell a space."""
MAX_PIECES = 1 << 22
_MOST_VARINT = 10
Field = int | bytes
Fields = Mapping[int, Field]


class Piece(NamedTuple):
    """One entry of the vocabulary; its place is its id."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, slots=True)
class Model:
    """The parts of a model that determine how ids become text, and whether another engine may encode by it."""

    pieces: tuple[Piece, ...]
    kind: int
    byte_fallback: bool
    space_behind: bool
    """The space that the model adds stands behind a text, not before it."""
    unknown_text: str
    """What an unknown id is shown as."""
    has_map: bool
    """Are characters replaced by others before encoding?"""
    adds_space: bool
    trims: bool
    """Are spaces at both ends dropped, and runs of them made one?"""
    spells_space: bool


def parse(path: Path, data: bytes) -> Model:
    """The model in a file's bytes; FormatError with byte, value and expectation for what is none."""
    pieces: list[Piece] = []
    trainer: Fields = {}
    before: Fields = {}
    for number, value, at in _fields(path, data, 0):
        if number in (1, 2, 3) and not isinstance(value, bytes):
            raise FormatError(f"{path}: field {number} at byte {at}: got a number, expected a message")
        if isinstance(value, int):
            continue
        if number == 1:
            pieces.append(_piece(path, value, at))
            if len(pieces) > MAX_PIECES:
                raise FormatError(f"{path}: pieces: got more than {MAX_PIECES}, expected fewer")
        elif number == 2:
            trainer = _message(path, value, at)
        elif number == 3:
            before = _message(path, value, at)
    _check(path, pieces)
    kind = _number(path, trainer, 3, UNIGRAM)
    if kind not in (UNIGRAM, BPE, WORD, CHAR):
        raise FormatError(f"{path}: kind of the model: got {kind}, expected 1 to 4 (unigram, BPE, words, characters)")
    return Model(
        pieces=tuple(pieces),
        kind=kind,
        byte_fallback=bool(_number(path, trainer, 35, 0)),
        space_behind=bool(_number(path, trainer, 24, 0)),
        unknown_text=_text(path, trainer.get(44, " \u2047 ".encode()), "unknown text"),
        has_map=bool(before.get(2)),
        adds_space=bool(_number(path, before, 3, 1)),
        trims=bool(_number(path, before, 4, 1)),
        spells_space=bool(_number(path, before, 5, 1)),
    )


def _check(path: Path, pieces: list[Piece]) -> None:
    """What no single piece can show."""
    if not pieces:
        raise FormatError(f"{path}: pieces: got none, expected those of a SentencePiece model; get the file again")
    if len({piece.text for piece in pieces}) != len(pieces):
        raise FormatError(f"{path}: pieces: got one twice, expected each once; get the file again")
    unknown = sum(piece.kind == UNKNOWN for piece in pieces)
    if unknown != 1:
        raise FormatError(f"{path}: pieces: got {unknown} for unknown text, expected one; get the file again")


def _piece(path: Path, data: bytes, at: int) -> Piece:
    fields = _message(path, data, at)
    text = _text(path, fields.get(1, b""), f"piece at byte {at}")
    raw = fields.get(2, bytes(4))
    kind = _number(path, fields, 3, NORMAL)
    if not text or not isinstance(raw, bytes) or len(raw) != 4 or not NORMAL <= kind <= BYTE:
        raise FormatError(
            f"{path}: piece at byte {at}: got text {text[:40]!r}, score {raw!r}, kind {kind}, expected a text, a score "
            f"of 4 bytes and a kind of 1 to 6"
        )
    score = float(struct.unpack("<f", raw)[0])
    if not math.isfinite(score):
        raise FormatError(f"{path}: piece at byte {at}: got score {score}, expected a finite one")
    if kind == BYTE and byte_of(text) is None:
        raise FormatError(f"{path}: piece at byte {at}: got {text[:40]!r} for a byte, expected <0x00> to <0xFF>")
    return Piece(text, score, kind)


def byte_of(text: str) -> int | None:
    """The byte that a piece `<0x41>` stands for; None for any other text."""
    digits = text[3:5]
    if text != f"<0x{digits}>" or len(digits) != 2 or not set(digits) <= set("0123456789ABCDEF"):
        return None
    return int(digits, 16)


def _text(path: Path, value: Field, what: str) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else ""
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: {what}: got {error.reason}, expected UTF-8; get the file again") from error


def _number(path: Path, fields: Fields, number: int, usual: int) -> int:
    value = fields.get(number, usual)
    if not isinstance(value, int):
        raise FormatError(f"{path}: field {number}: got {len(value)} bytes, expected a number")
    return value


def _message(path: Path, data: bytes, at: int) -> dict[int, Field]:
    return {number: value for number, value, _ in _fields(path, data, at)}


def _fields(path: Path, data: bytes, base: int) -> Iterator[tuple[int, Field, int]]:
    """(number, value, byte of the value) of each field; `base` is where data begins in the file. Numbers of fixed size
    come as their bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(path, data, at, base)
        kind = key & 7
        if kind == 0:
            value, at = _varint(path, data, at, base)
            yield key >> 3, value, base + at
            continue
        if kind == 2:
            size, at = _varint(path, data, at, base)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise FormatError(f"{path}: field at byte {base + at}: got wire type {kind}, expected 0, 1, 2 or 5")
        if size > len(data) - at:
            raise FormatError(
                f"{path}: length of the field at byte {base + at}: got {size}, expected at most {len(data) - at}"
            )
        yield key >> 3, data[at : at + size], base + at
        at += size


def _varint(path: Path, data: bytes, at: int, base: int) -> tuple[int, int]:
    """A number in groups of seven bits, least first; and the byte behind it."""
    number = 0
    for place in range(_MOST_VARINT):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number, at
    raise FormatError(f"{path}: number at byte {base + at}: got no end of it, expected one within {_MOST_VARINT} bytes")
