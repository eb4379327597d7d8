"""Whole records of some inputs, in order: JSON lines (plain, gzip, zstd) and Parquet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile
from tokenriver.reading import Progress, read_documents
from tokenriver.types import SourceOptions

NOT_AN_OBJECT = "not-an-object"
LONE_SURROGATE = "lone-surrogate"
_LINES = SourceOptions(separator=b"\n")
_BLANK = ("blank", "empty")


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
    """Rules that were applied, by name: blank, byte-order-mark, lone-surrogate."""


def read_rows(inputs: Sequence[InputFile], progress: Progress | None = None) -> Iterator[Rows]:
    """The rows of all inputs, in bounded memory. `progress(done, total)` is called with stored bytes. InputError for an
    input that is neither JSON lines nor Parquet, or cannot be read."""
    for file in inputs:
        if file.kind not in ("jsonl", "parquet"):
            raise InputError(f"{file.path}: kind: got {file.kind}, expected records: jsonl or parquet; convert it")
    total, done = sum(file.size for file in inputs), 0
    for source, file in enumerate(inputs):
        if file.kind == "parquet":
            yield from _parquet_rows(source, file)
        else:
            yield from _json_rows(source, file, None if progress is None else _shifted(progress, done, total))
        done += file.size
        if progress is not None:
            progress(done, total)


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    """What one file reports, as part of all of them."""
    return lambda seen, _: progress(done + seen, total)


def _parquet_rows(source: int, file: InputFile) -> Iterator[Rows]:
    before = 0
    for rows in registry.load("sources", "parquet").records(file.path):
        yield Rows(source, len(rows), list(enumerate(rows, before)), [])
        before += len(rows)


def _json_rows(source: int, file: InputFile, progress: Progress | None) -> Iterator[Rows]:
    """Lines are texts that a line feed parts, so what is no UTF-8 or too long is told as in a build."""
    read_row = registry.load("sources", "jsonl").read_row
    for found in read_documents([replace(file, kind="text")], _LINES, progress):
        good: list[tuple[int, Mapping[str, Any]]] = []
        bad = [(found.first + row.record, row.reason) for row in found.batch.bad]
        notes = dict(found.batch.notes)
        blank, surrogates = sum(notes.pop(name, 0) for name in _BLANK), 0
        for record, line in zip(found.batch.records.tolist(), found.batch.texts, strict=True):
            if line.isspace():
                blank += 1
                continue
            row, reason, mended = read_row(line)
            if not reason and not isinstance(row, dict):
                reason = NOT_AN_OBJECT
            if reason:
                bad.append((found.first + record, reason))
            else:
                good.append((found.first + record, row))
                surrogates += mended
        notes |= {name: count for name, count in (("blank", blank), (LONE_SURROGATE, surrogates)) if count}
        yield Rows(source, found.batch.rows_read, good, sorted(bad), notes)
