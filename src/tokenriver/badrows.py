"""The side file of bad rows: one JSON line for each raw row that gave no document and should have."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import orjson

from tokenriver.buildplan import BAD_ROWS_NAME
from tokenriver.files import AtomicFile, naming, write_atomic
from tokenriver.inputs import InputFile
from tokenriver.manifest import Manifest
from tokenriver.parts import Receipt
from tokenriver.types import Int64


def bad_rows(files: Sequence[InputFile], used: Sequence[Receipt], bases: Sequence[Int64]) -> Iterator[bytes]:
    """One JSON line a bad row: file, line (from 1), byte offset in the decompressed input, reason."""
    for receipt, base in zip(used, bases, strict=True):
        for piece, record, offset, reason in receipt.bad:
            file = files[receipt.pieces[piece].source].name
            row = {"file": file, "line": record + int(base[piece]) + 1, "offset": offset, "reason": reason}
            if offset < 0:
                row["offset"] = None
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def write_bad_rows(out: Path, before: Manifest | None, folder: Path, rows: Iterator[bytes]) -> Path | None:
    """The side file, in the hidden folder until there is a corpus; an appended corpus keeps its earlier rows."""
    first = next(rows, None)
    if first is None:
        return None
    path = folder / BAD_ROWS_NAME
    with AtomicFile(path) as file:
        for row in chain(_earlier(out, before), [first], rows):
            file.write(row)
    return path


def _earlier(out: Path, before: Manifest | None) -> Iterator[bytes]:
    """The rows of the corpus that is appended to: as many as it counted, whatever a killed append has added since."""
    count = sum(before.balance["bad_rows"].values()) if before is not None else 0
    if count:
        path = out / BAD_ROWS_NAME
        with naming(path, "read"), path.open("rb") as file:
            yield from islice(file, count)


def publish_bad_rows(out: Path, listed: Path) -> None:
    """Put the side file beside the corpus."""
    with naming(listed, "read"):
        data = listed.read_bytes()
    write_atomic(out / BAD_ROWS_NAME, data)
