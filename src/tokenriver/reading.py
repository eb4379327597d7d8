"""All texts of some inputs, in order, by one reader: for whoever must see every text before anything is built."""

from collections.abc import Callable, Iterator, Sequence

from tokenriver import registry
from tokenriver.inputs import InputFile
from tokenriver.streams import read_blocks
from tokenriver.types import DocumentBatch, Piece, SourceOptions

RANGE_BYTES = 16 << 20
Progress = Callable[[int, int], None]


def read_documents(
    files: Sequence[InputFile], options: SourceOptions, progress: Progress | None = None
) -> Iterator[DocumentBatch]:
    """Batches of the documents of all inputs, as a build finds them; bounded memory. `progress(done, total)` is called
    with stored bytes. InputError for an input that cannot be read."""
    total, done = sum(file.size for file in files), 0
    for file in files:
        for share, batch in _batches(file, options):
            if progress is not None:
                progress(min(done + share, total), total)
            yield batch
        done += file.size
    if progress is not None:
        progress(total, total)


def _batches(file: InputFile, options: SourceOptions) -> Iterator[tuple[int, DocumentBatch]]:
    """(stored bytes of the file before it, about; batch)"""
    module = registry.load("sources", file.kind)
    if file.compression:
        seen = 0

        def count(data: bytes) -> None:
            nonlocal seen
            seen += len(data)

        blocks = read_blocks(file.path, file.compression, on_raw=count)
        for batch in module.parse(blocks, options, 0, first=True):
            yield seen, batch
        return
    ranges = module.plan(file.path, file.size, options, RANGE_BYTES) or [(0, file.size)]
    for number, (start, stop) in enumerate(ranges):
        for batch in module.read(Piece(0, file.path, start, stop), options):
            yield file.size * number // len(ranges), batch
