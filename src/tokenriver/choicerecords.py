"""Whole records of some inputs, in order, told apart: those with fields, and rows that have none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenriver.errors import InputError
from tokenriver.inputs import InputFile
from tokenriver.reading import Progress
from tokenriver.records import BLANK, Fault, Records, read_records
from tokenriver.types import SourceOptions

LONE_SURROGATE = "lone-surrogate"


@dataclass(frozen=True, slots=True)
class Rows:
    """Some raw rows of one input."""

    source: int
    """Index of the input."""
    rows_read: int
    good: list[tuple[int, Mapping[str, Any]]]
    """(0-based raw row, its fields)"""
    bad: list[tuple[int, str]]
    """(0-based raw row, why it has no fields)"""
    notes: Mapping[str, int] = field(default_factory=dict)
    """Rules that were applied, by name: blank, lone-surrogate."""


def read_rows(inputs: Sequence[InputFile], progress: Progress | None = None) -> Iterator[Rows]:
    """The rows of all inputs, in bounded memory. `progress(done, total)` is called with stored bytes. InputError for an
    input that holds no records (see `read_records`), or cannot be read."""
    for file in inputs:
        if file.kind not in ("jsonl", "parquet"):
            raise InputError(f"{file.path}: kind: got {file.kind}, expected records: jsonl or parquet; convert it")
    total, done = sum(file.size for file in inputs), 0
    for source, file in enumerate(inputs):
        seen = 0

        def count(data: bytes) -> None:
            nonlocal seen
            seen += len(data)

        for found in read_records(file, SourceOptions(), count):
            yield _told_apart(source, found)
            if progress is not None:
                progress(done + min(seen, file.size), total)
        done += file.size
        if progress is not None:
            progress(done, total)


def _told_apart(source: int, found: Records) -> Rows:
    good: list[tuple[int, Mapping[str, Any]]] = []
    bad, blank = [], 0
    for record, row in enumerate(found.rows, found.first):
        if not isinstance(row, Fault):
            good.append((record, row))
        elif row.reason == BLANK:
            blank += 1
        else:
            bad.append((record, row.reason))
    notes = {name: count for name, count in ((BLANK, blank), (LONE_SURROGATE, found.mended)) if count}
    return Rows(source, len(found.rows), good, bad, notes)
