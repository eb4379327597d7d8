"""What each input of a corpus gave: documents, ids, and bytes a token, from the document index.

The index says of every document which input it came from, so documents and ids are sums over its columns. How much
text an input had is written nowhere; where ids were read anyway, it is the bytes that they decode to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError, InputError
from tokenriver.lengths import CHUNK
from tokenriver.storage import UNKNOWN
from tokenriver.types import Int64, River
from tokenriver.vocabulary import ByteSizes

BY = ("source", "folder")
NOWHERE = "(unknown)"
STRETCH = 1 << 20


@dataclass(frozen=True, slots=True)
class SourceStats:
    """The documents of one input, or of the inputs of one folder, in one split."""

    name: str
    documents: int
    ids: int
    """Framing included."""
    stored_bytes: int | None
    """Size of the files, for all splits together; None for documents of no known input."""
    text_ids: int | None
    """Without bos, eos and pad; None where ids were not read."""
    text_bytes: int | None
    """What those decode to; None where that is not known."""

    @property
    def ids_per_document(self) -> float | None:
        return self.ids / self.documents if self.documents else None

    @property
    def bytes_per_token(self) -> float | None:
        return self.text_bytes / self.text_ids if self.text_bytes and self.text_ids else None

    @property
    def ids_per_byte(self) -> float | None:
        return self.text_ids / self.text_bytes if self.text_bytes and self.text_ids else None

    def as_dict(self) -> dict[str, Any]:
        """What --json prints."""
        shares = {"ids_per_document": self.ids_per_document, "bytes_per_token": self.bytes_per_token}
        return {**asdict(self), **shares, "ids_per_byte": self.ids_per_byte}


def count_sources(river: River, by: str, sizes: ByteSizes | None) -> tuple[SourceStats, ...]:
    """One entry an input of the manifest (or, by "folder", for the first folder below the inputs' common one), in its
    order; the documents of no known input last. With `sizes` all ids are read, in bounded memory. InputError where the
    corpus does not know its inputs."""
    if by not in BY:
        raise InputError(f"by: got {by!r}, expected {' or '.join(BY)}")
    if not isinstance(river, Corpus) or river.manifest is None or river.num_documents is None:
        raise InputError("by: got a corpus that does not say where its documents came from, expected one of a build")
    sources = river.manifest.sources
    names = [_folder(source.path) if by == "folder" else source.path for source in sources]
    places = {name: number for number, name in enumerate(dict.fromkeys([*names, NOWHERE]))}
    groups = np.array([places[name] for name in [*names, NOWHERE]], np.int64)
    counts = np.zeros((4, len(places)), np.int64)
    for starts, ends, origins in _columns(river, len(sources)):
        owners = groups[origins]
        np.add.at(counts[0], owners, 1)
        np.add.at(counts[1], owners, ends - starts)
        if sizes is not None:
            for first, last, row in _texts(river, starts, ends, sizes.of):
                np.add.at(counts[2], owners[first:last], row[0])
                np.add.at(counts[3], owners[first:last], row[1])
    counts[3] -= counts[0] * (sizes.lead if sizes is not None else 0)
    stored = np.zeros(len(places), np.int64)
    np.add.at(stored, groups[:-1], [source.size for source in sources])
    return tuple(_stats(places, counts, stored, known=sizes is not None))


def _stats(places: dict[str, int], counts: Int64, stored: Int64, *, known: bool) -> Iterator[SourceStats]:
    for name, number in places.items():
        documents, ids, text_ids, text_bytes = counts[:, number].tolist()
        if documents or name != NOWHERE:
            size = int(stored[number]) if name != NOWHERE else None
            yield SourceStats(name, documents, ids, size, text_ids if known else None, text_bytes if known else None)


def _folder(path: str) -> str:
    first, _, rest = path.partition("/")
    return first if rest else "."


def _columns(corpus: Corpus, num_sources: int) -> Iterator[tuple[Int64, Int64, Int64]]:
    """(starts, ends, numbers of their inputs) of some thousand documents at a time; river positions, num_sources for an
    input that is not known."""
    last = 0
    for begin, ends, origins in corpus.documents.between(0, corpus.num_documents or 0):
        for at in range(0, len(ends), CHUNK):
            some = ends[at : at + CHUNK] + begin
            numbers = np.full(len(some), UNKNOWN) if origins is None else origins[1][at : at + CHUNK].astype(np.int64)
            if int(numbers.max()) >= num_sources or int(numbers.min()) < min(UNKNOWN, 0):
                raise FormatError(
                    f"{corpus.path}: source: got {int(numbers.max())} or {int(numbers.min())}, expected one of the "
                    f"{num_sources} of the manifest"
                )
            yield np.concatenate([[last], some[:-1]]), some, np.where(numbers == UNKNOWN, num_sources, numbers)
            last = int(some[-1])


def _texts(corpus: Corpus, starts: Int64, ends: Int64, sizes: Int64) -> Iterator[tuple[int, int, Sequence[Int64]]]:
    """(first, last, (text ids, text bytes)) of documents first to last, which may go on in the next stretch of ids."""
    for at in range(int(starts[0]), int(ends[-1]), STRETCH):
        stop = min(at + STRETCH, int(ends[-1]))
        bytes_of = sizes[corpus.read(at, stop)]
        first, last = int(np.searchsorted(ends, at, "right")), int(np.searchsorted(starts, stop, "left"))
        low, high = (np.clip(edges[first:last] - at, 0, stop - at) for edges in (starts, ends))
        sums = [np.concatenate([[0], np.cumsum(column, dtype=np.int64)]) for column in (bytes_of > 0, bytes_of)]
        yield first, last, [total[high] - total[low] for total in sums]
