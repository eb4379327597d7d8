"""The three lines of datatrove's `.metadata`: `tokenizer|bytes an id`, the number of ids, and the same for people."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tokenriver.errors import FormatError, LimitError
from tokenriver.formats._mapping import open_regular

SUFFIX = ".metadata"
UNKNOWN = "Unknown Tokenizer"
_LONGEST = 1 << 16
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is used of it; the width was not always written."""

    width: int | None
    tokens: int


def read(path: Path) -> Metadata:
    """The metadata beside a file of ids; FormatError if it is damaged."""
    beside = path.with_name(path.name + SUFFIX)
    fd, size = open_regular(beside)
    try:
        data = os.pread(fd, _LONGEST, 0)
    finally:
        os.close(fd)
    lines = data.split(b"\n")
    if size >= _LONGEST or not 2 <= len(lines) <= 4:
        raise FormatError(f"{beside}: got {len(lines)} lines in {size} bytes, expected 3 in less than {_LONGEST}")
    _, bar, word = lines[0].rpartition(b"|")
    if bar and word not in (b"2", b"4"):
        raise FormatError(f"{beside}: line 1: got {lines[0][-60:]!r}, expected a tokenizer, `|` and a width of 2 or 4")
    if re.fullmatch(rb"[0-9]{1,18}", lines[1]) is None:
        raise FormatError(f"{beside}: line 2: got {lines[1][:60]!r}, expected the number of ids")
    return Metadata(int(word) if bar else None, int(lines[1]))


def check_name(tokenizer: str | None) -> None:
    """LimitError for a name that a line of the file cannot hold."""
    if tokenizer is not None and (set("|\r\n") & set(tokenizer) or len(tokenizer.encode()) > 1000):
        raise LimitError(
            f"tokenizer: got {tokenizer[:60]!r}, expected a name of at most 1000 bytes without `|` and line breaks; "
            "rename its file"
        )


def text(tokenizer: str | None, width: int, tokens: int) -> bytes:
    """The file's bytes. Without a name datatrove writes the width twice, and then fails to read its own line."""
    return f"{tokenizer or UNKNOWN}|{width}\n{tokens}\n{for_people(tokens)}".encode()


def for_people(tokens: int) -> str:
    """A count with three significant digits and a prefix, as datatrove shows it: "47.0 T", "1.23 MT"."""
    power = len(str(tokens)) - 1
    value, digits = tokens / 10 ** (power - power % 3), 2 - power % 3
    if round(value, digits) >= 10 ** (power % 3 + 1):
        power += 1  # 999,999 is 1.00 M
        value, digits = tokens / 10 ** (power - power % 3), 2 - power % 3
    return f"{value:.{digits}f} {_PREFIXES[power // 3]}T"
