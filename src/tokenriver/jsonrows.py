"""Rows of JSON-lines files as whole objects, with file and line: what becomes examples of post-training.

Lines are found, unpacked and checked as those of a text are, so that the rules of docs/errors-and-input.md hold for
them: a bad row is named and never takes its neighbours with it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile, find_inputs
from tokenriver.reading import Progress, read_documents
from tokenriver.types import SourceOptions

KIND = "jsonl"
BLANK, NOT_AN_OBJECT = "blank", "not-an-object"
_EMPTY = "empty"  # what a source of texts calls a line without a character


@dataclass(frozen=True, slots=True)
class JsonRows:
    """Some consecutive rows of one input."""

    file: InputFile
    lines: Sequence[int]
    """Number of each record's row, from 1."""
    records: Sequence[dict[str, Any]]
    refused: Sequence[tuple[int, str]]
    """(row from 1, reason) of those that are no objects, by sources/_reasons.py."""
    rows_read: int
    """All of these, and blank ones."""
    notes: Mapping[str, int]
    """Rows treated by a rule that is no fault."""


def find_json(inputs: str | Path | Sequence[str | Path], include: Sequence[str] = ()) -> list[InputFile]:
    """The JSON-lines files behind some inputs, in order. InputError for one of another kind."""
    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    files = find_inputs(given, include=include)
    for file in files:
        if file.kind != KIND:
            raise InputError(f"{file.path}: kind: got {file.kind}, expected JSON lines; write one object a line")
    return files


def read_json(
    files: Sequence[InputFile], max_row_bytes: int = 1 << 30, progress: Progress | None = None
) -> Iterator[JsonRows]:
    """All rows of some files of `find_json`, in order and in bounded memory."""
    value_of = registry.load("sources", KIND).value_of
    options = SourceOptions(separator=b"\n", max_row_bytes=max_row_bytes)
    for found in read_documents([replace(file, kind="text") for file in files], options, progress):
        batch, first = found.batch, found.first + 1
        lines: list[int] = []
        records: list[dict[str, Any]] = []
        refused = [(first + bad.record, bad.reason) for bad in batch.bad]
        notes = Counter({BLANK if name == _EMPTY else name: count for name, count in batch.notes.items()})
        for text, number in zip(batch.texts, batch.records.tolist(), strict=True):
            value, fault, note = value_of(text)
            if isinstance(value, dict):
                lines.append(first + number)
                records.append(value)
            elif note != BLANK:
                refused.append((first + number, fault or NOT_AN_OBJECT))
            notes.update([note] if note else [])
        yield JsonRows(found.file, lines, records, sorted(refused), batch.rows_read, notes)
