"""All texts of some inputs, in order, by one reader: for whoever must see every text before anything is built."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenriver import registry
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile
from tokenriver.streams import read_blocks
from tokenriver.types import DocumentBatch, Piece, SourceOptions

RANGE_BYTES = 16 << 20
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Found:
    """Some documents of one input."""

    file: InputFile
    first: int
    """Raw rows of the input before the piece from which the batch counts its records."""
    batch: DocumentBatch


def refuse_input(path: Path, files: Sequence[InputFile]) -> None:
    """InputError if a file that is to be written is one of the inputs."""
    real = os.path.realpath(path)
    if any(os.path.realpath(file.path) == real for file in files):
        raise InputError(f"{path}: is one of the inputs, which are never written; choose another file")


def read_documents(
    files: Sequence[InputFile], options: SourceOptions, progress: Progress | None = None
) -> Iterator[Found]:
    """The documents of all inputs in batches, as a build finds them; bounded memory. `progress(done, total)` is called
    with stored bytes. InputError for an input that cannot be read."""
    total, done = sum(file.size for file in files), 0
    for file in files:
        for seen, found in _found(file, options):
            if progress is not None:
                progress(min(done + seen, total), total)
            yield found
        done += file.size
    if progress is not None:
        progress(total, total)


def _found(file: InputFile, options: SourceOptions) -> Iterator[tuple[int, Found]]:
    """(stored bytes of the file that are behind us, about; documents)"""
    module = registry.load("sources", file.kind)
    if file.compression:
        seen = 0

        def count(data: bytes) -> None:
            nonlocal seen
            seen += len(data)

        blocks = read_blocks(file.path, file.compression, on_raw=count)
        for batch in module.parse(blocks, options, 0, first=True):
            yield seen, Found(file, 0, batch)
        return
    ranges = module.plan(file.path, file.size, options, RANGE_BYTES) or [(0, file.size)]
    before = 0
    for number, (start, stop) in enumerate(ranges):
        rows = 0
        for batch in module.read(Piece(0, file.path, start, stop), options):
            yield file.size * number // len(ranges), Found(file, before, batch)
            rows += batch.rows_read
        before += rows
