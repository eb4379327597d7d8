"""A file as decompressed blocks of bytes, in bounded memory: plain, gzip of any number of members, zstd of any number
of frames.

The one idea: an archive that ends early must never look like a short file. zlib says where a member ends; the zstd
reader does not, so the raw bytes pass a small walker over frame and block headers (`_Frames`) on their way in, which
also refuses windows that would not fit in memory. What an archive that was cut still holds is given out first.
"""

import zlib
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import IO, cast

import zstandard

from tokenriver.errors import InputError
from tokenriver.files import naming

BLOCK = 1 << 20
MAX_WINDOW = 1 << 27
"""128 MiB, what the zstd tool itself accepts without being asked; larger windows are refused."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"  # after a first byte 0x50..0x5f
_GZIP_READ = 1 << 16  # zlib copies what it has not used, so small reads keep many tiny members linear


def sniff_compression(head: bytes) -> str:
    """ "gzip", "zstd" or "" by the first four bytes; a zstd stream may open with a skippable frame (RFC 8878)."""
    if head[:2] == _GZIP:
        return "gzip"
    if head[:4] == _ZSTD or (head[1:4] == _SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return "zstd"
    return ""


def read_blocks(
    path: Path, compression: str, *, on_raw: Callable[[bytes], None] | None = None, block_bytes: int = BLOCK
) -> Iterator[bytes]:
    """Decompressed blocks of at most about block_bytes, none empty. `on_raw` sees every byte of the file itself, in
    order. InputError with path, compressed offset and decompressed bytes when the archive is cut (after all that it
    still holds) or damaged (after the whole blocks before the damage)."""
    with naming(path, "read"), path.open("rb", buffering=0) as file:
        raw = _Raw(path, file, on_raw)
        if compression == "gzip":
            yield from _gzip_blocks(raw, block_bytes)
        elif compression == "zstd":
            yield from _zstd_blocks(raw, block_bytes)
        else:
            while block := raw.read(block_bytes):
                yield block


def read_range(path: Path, start: int, stop: int, *, block_bytes: int = BLOCK) -> Iterator[bytes]:
    """Bytes [start, stop) of a plain file in blocks of at most block_bytes; fewer where the file ends early."""
    with naming(path, "read"), path.open("rb", buffering=0) as file:
        file.seek(start)
        while start < stop and (block := file.read(min(block_bytes, stop - start))):
            start += len(block)
            yield block


class _Raw:
    """The file's own bytes on their way to a decoder: counted, shown to on_raw, and (zstd) walked."""

    def __init__(self, path: Path, file: FileIO, on_raw: Callable[[bytes], None] | None) -> None:
        self.path = path
        self.offset = 0
        self.decoded = 0
        self.frames: _Frames | None = None
        self._file = file
        self._on_raw = on_raw

    def read(self, size: int = BLOCK) -> bytes:
        data = self._file.read(size)
        if self._on_raw is not None and data:
            self._on_raw(data)
        if self.frames is not None:
            self.frames.feed(data)
        self.offset += len(data)
        return data

    def damage(self, what: str) -> InputError:
        return InputError(
            f"{self.path}: {what} at byte {self.offset} of the archive, after {self.decoded} decompressed bytes; "
            "replace the file and run the same command again"
        )


def _gzip_blocks(raw: _Raw, block_bytes: int) -> Iterator[bytes]:
    member = None
    while data := raw.read(_GZIP_READ):
        while data:
            if member is None:
                data = data.lstrip(b"\0")  # zeros after a member are padding (tapes, block devices)
                if not data:
                    break
                member = zlib.decompressobj(wbits=31)
            try:
                block = member.decompress(data, block_bytes)
            except zlib.error as error:
                raise raw.damage(f"damaged gzip data ({error})") from error
            if block:
                raw.decoded += len(block)
                yield block
            data = member.unused_data if member.eof else member.unconsumed_tail
            if member.eof:
                member = None
    if member is not None:
        yield from _gzip_rest(raw, member)


def _gzip_rest(raw: _Raw, member: "zlib._Decompress") -> Iterator[bytes]:
    """What zlib still holds when the file has ended inside a member, and then the error."""
    rest = member.flush()
    if rest:
        raw.decoded += len(rest)
        yield rest
    if not member.eof:
        raise raw.damage("the gzip file ends inside a member: truncated")


def _zstd_blocks(raw: _Raw, block_bytes: int) -> Iterator[bytes]:
    frames = raw.frames = _Frames(raw.path)
    decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    source = cast(IO[bytes], raw)  # its `read` is all that is asked of it
    reader = decoder.stream_reader(source, read_size=min(BLOCK, block_bytes), read_across_frames=True)
    while True:
        try:
            block = reader.read(block_bytes)
        except zstandard.ZstdError as error:
            raise raw.damage(f"damaged zstd data ({error})") from error
        if not block:
            break
        raw.decoded += len(block)
        yield block
    if not frames.at_end:
        raise raw.damage("the zstd file ends inside a frame: truncated")


class _Frames:
    """Walks zstd frames by their headers alone (RFC 8878, section 3.1), to know whether the bytes so far end at the
    end of a frame, and what window each frame asks for. One step per block of up to 128 KiB."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = b""  # the part of the next header that has arrived
        self._skip = 0  # content bytes to pass before the next header
        self._in_frame = False
        self._checksum = 0

    @property
    def at_end(self) -> bool:
        return not (self._header or self._skip or self._in_frame)

    def feed(self, data: bytes) -> None:
        position = 0
        if self._header:
            # a header straddles two reads: at most 18 bytes are joined to it, and taken back from the position
            data, position, self._header = self._header + data, 0, b""
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
                position += step
                continue
            used = self._block(data, position) if self._in_frame else self._frame(data, position)
            if not used:
                self._header = data[position:]
                return
            position += used

    def _block(self, data: bytes, at: int) -> int:
        if len(data) - at < 3:
            return 0
        word = int.from_bytes(data[at : at + 3], "little")
        kind, size = word >> 1 & 3, word >> 3
        self._skip = 1 if kind == 1 else size  # kind 1: one byte, repeated
        if word & 1:
            self._in_frame = False
            self._skip += self._checksum
        return 3

    def _frame(self, data: bytes, at: int) -> int:
        if len(data) - at < 8:
            # the shortest frame is longer than this, so waiting loses nothing
            return 0
        if data[at + 1 : at + 4] == _SKIPPABLE and 0x50 <= data[at] <= 0x5F:
            self._skip = int.from_bytes(data[at + 4 : at + 8], "little")
            return 8
        flags = data[at + 4]
        single = flags >> 5 & 1
        dictionary = (0, 1, 2, 4)[flags & 3]
        content = (single, 2, 4, 8)[flags >> 6]
        length = 5 + (1 - single) + dictionary + content
        if len(data) - at < length:
            return 0
        if data[at : at + 4] == _ZSTD:  # else the decoder refuses it
            first = at + 6 - single
            size = int.from_bytes(data[first + dictionary : at + length], "little")
            self._check(size if single else _window(data[at + 5]), data[first : first + dictionary])
        self._checksum = 4 * (flags >> 2 & 1)
        self._in_frame = True
        return length

    def _check(self, window: int, dictionary: bytes) -> None:
        if window > MAX_WINDOW:
            raise InputError(
                f"{self._path}: zstd window: got {window} bytes, expected at most {MAX_WINDOW}; "
                "compress it again with --long=27 or less"
            )
        if any(dictionary):
            raise InputError(
                f"{self._path}: zstd dictionary: got number {int.from_bytes(dictionary, 'little')}, expected none; "
                "compress it again without a dictionary"
            )


def _window(descriptor: int) -> int:
    base = 1 << (10 + (descriptor >> 3))
    return base + base // 8 * (descriptor & 7)
