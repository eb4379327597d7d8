"""Writes HDF5 files of ids: one buffer of a chunk, and one resize a chunk, so that a file is never a heap of scraps.

Versions of the file format and times are fixed, so the same ids give the same bytes.
"""

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from tokenriver import digests, files
from tokenriver.storage import Content, WrittenFile
from tokenriver.types import Bools, Ids

OLDEST = ("earliest", "v110")
"""What every HDF5 library reads."""
CHECKED = ("v110", "v110")
"""What libraries of 2016 and later read: a checksum guards each piece of the structure."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a file of ids is laid out."""

    chunk: int
    """Ids of a chunk; 0 fits the chunk to the shard."""
    versions: tuple[str, str] = CHECKED
    attributes: str = "dataset"
    """Who carries the counts: the dataset, the file, or nobody ("")."""
    documents: str = "document_count"
    live: bool = False
    """Each chunk is flushed for readers while the file grows (SWMR)."""
    text: bool = False
    """The sha256 is text of any length, as h5py writes a str, not 64 bytes in the header, under its checksum."""


MOST_IN_CHUNK = 8 << 20
ROWS_IDS = 1 << 20
"""Ids of rows that are written together."""
THREAD_IDS = 1 << 18
"""Smaller blocks are hashed sooner than a thread takes them up."""


def chunk_of(style: Style, num_tokens: int) -> int:
    """Ids of a chunk: fitted, as few chunks as MOST_IN_CHUNK allows and all equally full, so that nothing is wasted."""
    if style.chunk:
        return style.chunk
    return -(-num_tokens // -(-num_tokens // MOST_IN_CHUNK))


@contextmanager
def _written_by(path: Path) -> Iterator[Path]:
    """For h5py, which writes a file itself: it gets the temporary name; leaving the block gives the file its
    name, on disk, and leaving it by an exception removes it."""
    temporary = files.temporary_name(path)
    with files.naming(path, "write"):
        try:
            yield temporary
            files.sync(temporary)
            files.system.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                files.system.unlink(temporary)
            raise
    files.sync_folder(path.parent)


def write_ids(path: Path, content: Content, dtype: str, style: Style) -> WrittenFile:
    """Write a shard by the commit protocol."""
    chunk = chunk_of(style, content.num_tokens)
    with _written_by(path) as temporary:
        # the temporary name is ours: what a killed run left there is overwritten
        with h5py.File(temporary, "w", libver=style.versions, locking=False) as file:
            kind = np.dtype(dtype).newbyteorder("<")
            found = file.create_dataset(
                "tokens", shape=(0,), maxshape=(None,), chunks=(chunk,), dtype=kind, track_times=False
            )
            digest = _append(file, found, in_chunks(content.ids(), chunk, kind), style)
            _state(file if style.attributes == "file" else found, content, digest, style)
        size = temporary.stat().st_size
        digest_of_file = digests.sha256_file(temporary, path)
    return WrittenFile(path, size, digest_of_file)


def write_rows(path: Path, shape: tuple[int, int], blocks: Iterable[tuple[Ids, Bools]]) -> int:
    """A packed fine-tuning file by the commit protocol: `tokens` int32 and `loss_mask` int8, both of `shape`, from ids
    and masks in order; what lies behind the last row is left out. The number of trained ids that were written."""
    rows, width = shape
    trained = done = 0
    with _written_by(path) as temporary, h5py.File(temporary, "w", libver=OLDEST, locking=False) as file:
        tokens = file.create_dataset("tokens", shape, "<i4", track_times=False)
        mask = file.create_dataset("loss_mask", shape, "i1", track_times=False)
        together = max(1, ROWS_IDS // width) * width
        for ids, bits in _stretches(blocks, together, rows * width):
            here = slice(done // width, (done + len(ids)) // width)
            tokens[here], mask[here] = ids.reshape(-1, width), bits.reshape(-1, width)
            trained += int(np.count_nonzero(bits))
            done += len(ids)
    return trained


def _stretches(
    blocks: Iterable[tuple[Ids, Bools]], together: int, total: int
) -> Iterator[tuple[Ids, NDArray[np.int8]]]:
    """The first `total` ids and masks in arrays of `together`, the last one shorter."""
    ids, bits, filled, done = np.empty(together, np.int32), np.empty(together, np.int8), 0, 0
    for some, mask in blocks:
        at = 0
        while at < len(some):
            taken = min(together - filled, len(some) - at, total - done - filled)
            if not taken:
                return
            ids[filled : filled + taken], bits[filled : filled + taken] = some[at : at + taken], mask[at : at + taken]
            at, filled = at + taken, filled + taken
            if filled == together or done + filled == total:
                yield ids[:filled], bits[:filled]
                done, filled = done + filled, 0


def _append(file: h5py.File, found: h5py.Dataset, blocks: Iterable[Ids], style: Style) -> str:
    """Write chunk after chunk; sha256 of all ids, which a thread computes while the chunk is written."""
    digest = hashlib.sha256()
    if style.live:
        file.swmr_mode = True
    done = 0
    with ThreadPoolExecutor(1) as hasher:
        for block in blocks:
            hashed = hasher.submit(digest.update, block.data) if len(block) >= THREAD_IDS else None
            found.resize((done + len(block),))
            if len(block) == found.chunks[0]:
                found.id.write_direct_chunk((done,), block.data)
            else:
                found[done:] = block
            if style.live:
                found.flush()
            if hashed is None:
                digest.update(block.data)
            else:
                hashed.result()  # the block is used again
            done += len(block)
    return digest.hexdigest()


def _state(place: h5py.File | h5py.Dataset, content: Content, digest: str, style: Style) -> None:
    if not style.attributes:
        return
    place.attrs["token_count"] = np.int64(content.num_tokens)
    place.attrs[style.documents] = np.int64(content.num_documents)
    if style.attributes == "dataset":
        place.attrs["sha256"] = digest if style.text else np.bytes_(digest)


def in_chunks(blocks: Iterable[Ids], chunk: int, dtype: np.dtype[Any]) -> Iterator[Ids]:
    """The same ids in arrays of exactly `chunk`, the last one shorter; an array is only good until the next one."""
    buffer, filled = np.empty(chunk, dtype), 0
    for block in blocks:
        while len(block):
            if not filled and len(block) >= chunk:
                whole, block = block[:chunk], block[chunk:]
                yield np.ascontiguousarray(whole, dtype)
                continue
            taken = min(chunk - filled, len(block))
            buffer[filled : filled + taken] = block[:taken]
            filled, block = filled + taken, block[taken:]
            if filled == chunk:
                yield buffer
                filled = 0
    if filled:
        yield buffer[:filled]
