"""Our own file of multiple-choice examples: any number of choices, any number of examples, ids of 32 bits.

    offset                size     content
    0                     8        b"TRCHOI01"
    8                     8        int64 N, number of examples
    16                    8        int64 C, number of choices
    24                    8        int64 M, number of ids
    32                    8        int64 J, bytes of the JSON, a multiple of 8
    40                    J        JSON: what made the file, padded with spaces
    40 + J                8*N      int64 label
    ... + 8*N             8*N      int64 choices up to and with this example
    ... + 8*N             8*(N+C)  int64 end of each piece: context, choices, next context
    ... + 8*(N+C)         8*C      int64 bytes of each choice; 0 if they are not known
    ... + 8*C             8*N      int64 record in the source
    ... + 8*N             4*N      int32 source in the list of the JSON
    ... + 4*N             4*M      uint32 ids
    end - 32              32       sha256 of all bytes before

All little-endian. The checksum and every column are checked when the file is opened; columns are then used as mapped.
"""

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tokenriver import rules
from tokenriver.choicedata import ChoiceExamples, fault
from tokenriver.errors import FormatError
from tokenriver.types import Json

MAGIC = b"TRCHOI01"
HEADER_BYTES = 40
DIGEST_BYTES = 32
MAX_JSON_BYTES = 1 << 26
_OPTIONS = orjson.OPT_SORT_KEYS

_ABOUT: rules.Table = {
    "balance": rules.OBJECT,
    "options": rules.OBJECT,
    "sources": rules.OBJECT,
    "tokenizer": rules.or_none(rules.OBJECT),
}
_SOURCE: rules.Table = {
    "path": rules.INSIDE,
    "size": rules.COUNT,
    "sha256": rules.SHA256,
    "records": rules.COUNT,
}
_TOKENIZER: rules.Table = {
    "name": rules.TEXT,
    "fingerprint": rules.SHA256,
    "vocab_size": rules.integer(1, 1 << 32),
}
NOTHING: Json = {
    "balance": {},
    "options": {},
    "sources": {name: [] for name in _SOURCE},
    "tokenizer": None,
}
"""What is known of examples that come from a file without a word about them."""


def pack(examples: ChoiceExamples) -> Iterator[bytes | NDArray[Any]]:
    """The file in pieces, the checksum left out, which is of them all."""
    text = orjson.dumps(dict(examples.about or NOTHING), option=_OPTIONS)
    text += b" " * (-len(text) % 8)
    yield MAGIC + struct.pack("<4q", len(examples), examples.num_choices, len(examples.ids), len(text)) + text
    unknown = np.zeros(examples.num_choices, np.int64)
    yield examples.labels.astype("<i8")
    yield examples.choice_ends.astype("<i8")
    yield examples.piece_ends.astype("<i8")
    yield (unknown if examples.choice_bytes is None else examples.choice_bytes).astype("<i8")
    yield examples.records.astype("<i8")
    yield examples.sources.astype("<i4")
    yield examples.ids.astype("<u4")


def unpack(path: Path, data: NDArray[np.uint8]) -> ChoiceExamples:
    """The examples of a mapped file, everything checked; FormatError."""
    count, choices, total, text = _read_header(path, data)
    found, expected = data[-DIGEST_BYTES:].tobytes().hex(), hashlib.sha256(data[:-DIGEST_BYTES].data).hexdigest()
    if found != expected:
        raise FormatError(f"{path}: sha256: got {found}, expected {expected}; the file was changed or is damaged")
    about = _read_about(path, data[HEADER_BYTES : HEADER_BYTES + text].tobytes())
    at = HEADER_BYTES + text
    columns = []
    for dtype, length in _layout(count, choices, total):
        size = length * np.dtype(dtype).itemsize
        columns.append(data[at : at + size].view(dtype))
        at += size
    labels, choice_ends, piece_ends, num_bytes, records, sources, ids = columns
    if int(num_bytes.min()) < 0 or (not num_bytes.all() and num_bytes.any()):
        raise FormatError(f"{path}: bytes of the choices: got {num_bytes.min()}, expected all above 0, or all 0")
    known = num_bytes if num_bytes.any() else None
    examples = ChoiceExamples(labels, choice_ends, piece_ends, ids, records, sources, known, about)
    wrong = fault(examples) or _fault_of_origins(examples)
    if wrong:
        raise FormatError(f"{path}: {wrong}")
    return examples


def _layout(count: int, choices: int, total: int) -> list[tuple[str, int]]:
    """(dtype, length) of each column in the order of the file."""
    lengths = (count, count, count + choices, choices, count)
    return [*(("<i8", length) for length in lengths), ("<i4", count), ("<u4", total)]


def _read_header(path: Path, data: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """(examples, choices, ids, bytes of JSON), which make up the file's size exactly."""
    head = data[:HEADER_BYTES].tobytes()
    if head[:8] != MAGIC or len(head) < HEADER_BYTES:
        raise FormatError(f"{path}: magic at byte 0: got {head[:8]!r}, expected {MAGIC!r}")
    numbers: tuple[int, int, int, int] = struct.unpack("<4q", head[8:])
    for at, (what, number) in enumerate(zip(("examples", "choices", "ids", "JSON bytes"), numbers, strict=True)):
        least = 1 if at < 3 else 0
        if not least <= number <= len(data):
            raise FormatError(
                f"{path}: number of {what} at byte {8 + 8 * at}: got {number}, expected what {len(data)} bytes hold"
            )
    count, choices, total, text = numbers
    size = sum(np.dtype(dtype).itemsize * length for dtype, length in _layout(count, choices, total))
    size += HEADER_BYTES + text + DIGEST_BYTES
    if text % 8 or text > MAX_JSON_BYTES:
        raise FormatError(f"{path}: JSON bytes at byte 32: got {text}, expected a multiple of 8 up to {MAX_JSON_BYTES}")
    if size != len(data):
        raise FormatError(
            f"{path}: size: got {len(data)} bytes, expected {size} for {count} examples, {choices} choices and "
            f"{total} ids"
        )
    return numbers


def _read_about(path: Path, text: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"{path}: JSON at byte {HEADER_BYTES}: got {error}, expected an object") from error
    # in its one canonical form nothing can be there twice, or be read in two ways
    if orjson.dumps(value, option=_OPTIONS) != text.rstrip(b" "):
        raise FormatError(f"{path}: JSON at byte {HEADER_BYTES}: got another form, expected keys sorted and no spaces")
    about = rules.check(path, "JSON", value, _ABOUT)
    rules.check_columns(path, "sources", about["sources"], _SOURCE)
    if about["tokenizer"] is not None:
        rules.check(path, "tokenizer", about["tokenizer"], _TOKENIZER)
    return about


def _fault_of_origins(examples: ChoiceExamples) -> str:
    known = len(examples.about["sources"]["path"])
    highest, lowest = int(examples.sources.max()), int(examples.sources.min())
    if lowest < 0 or highest >= max(1, known):
        return f"source: got {lowest if lowest < 0 else highest}, expected one of the {known} sources"
    if int(examples.records.min()) < 0:
        return f"record: got {examples.records.min()}, expected at least 0"
    tokenizer = examples.about["tokenizer"]
    if tokenizer is not None and int(examples.ids.max()) >= tokenizer["vocab_size"]:
        return f"id: got {examples.ids.max()}, expected below {tokenizer['vocab_size']}, the tokenizer's vocabulary"
    return ""
