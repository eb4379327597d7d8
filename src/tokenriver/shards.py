"""From parts to shards: copy in the kernel, index the documents, and check by reading back.

A shard gets its name only after what the disk gives back was compared with the receipts of its parts; waiting for the
disk, comparing, hashing and the document index go on side by side.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import FileIO
from itertools import groupby
from pathlib import Path

import numpy as np

from tokenriver.assembly import Parts, Segment, ids_of
from tokenriver.digests import sha256_file, xxh3_from
from tokenriver.files import AtomicFile, naming, remove, temporary_name
from tokenriver.formats import llmc
from tokenriver.formats._docindex import index_path, pack_index
from tokenriver.manifest import ShardInfo
from tokenriver.partflow import PartFlow
from tokenriver.parts import differs, receipt_path
from tokenriver.types import Int64

READ_BYTES = 1 << 20
HEADER_BYTES = llmc.HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Begun:
    """A temporary file with room for the header and the first num_ids ids of a shard (or more than it will have)."""

    file: AtomicFile
    num_ids: int


@dataclass(frozen=True, slots=True)
class ShardJob:
    """One shard to write."""

    path: Path
    split: str
    segments: list[Segment]


class ShardMaker:
    """Writes the shards of one corpus from the parts of its build."""

    def __init__(self, parts: Parts, dtype: str, rows_before: list[Int64], first_source: int) -> None:
        self._parts = parts
        self._dtype = dtype
        self._item = np.dtype(dtype).itemsize
        self._rows_before = rows_before
        self._first_source = first_source
        self._intact: set[int] = set()

    def make(self, job: ShardJob, begun: Begun | None = None) -> ShardInfo:
        """Write one shard, or the rest of one that was begun, and its document index; MismatchError if the disk gives
        back something else."""
        count = ids_of(job.segments)
        header = llmc.header(count, self._dtype)
        file = AtomicFile(job.path) if begun is None else begun.file
        try:
            have = self._take_over(file, header, min(count, begun.num_ids if begun is not None else 0))
            for unit, segments in groupby(_after(job.segments, have), _unit):
                with self._open(unit) as part:
                    for segment in segments:
                        file.copy_from(part.fileno(), segment.start * self._item, segment.stop * self._item)
            sha256, index = self._finish(job, file, header)
        except BaseException:
            file.discard()
            raise
        documents = sum(segment.last - segment.first for segment in job.segments)
        return ShardInfo(
            file=job.path.name,
            split=job.split,
            num_tokens=count,
            num_documents=documents,
            num_bytes=file.num_bytes,
            sha256=sha256,
            index_bytes=index.num_bytes,
            index_sha256=index.sha256,
        )

    def _finish(self, job: ShardJob, file: AtomicFile, header: bytes) -> tuple[str, AtomicFile]:
        """Give a written shard its name, if what the disk gives back is what it should be, and then its document
        index; the shard's sha256, and the index."""
        with AtomicFile(index_path(job.path)) as index:
            with ThreadPoolExecutor(3) as pool:
                synced = pool.submit(file.sync)
                compared = pool.submit(self._compare, job, header)
                hashed = pool.submit(sha256_file, temporary_name(job.path), job.path)
                self._write_index(job, index)
                compared.result()
                synced.result()
                sha256 = hashed.result()
            file.commit(synced=True)
        if sha256_file(index.path) != index.sha256:
            raise differs(index.path)
        return sha256, index

    def _take_over(self, file: AtomicFile, header: bytes, num_ids: int) -> int:
        """Put the header in front of the num_ids ids that the file has; the number is given back."""
        if file.num_bytes:
            file.take_up()
            file.cut(len(header) + num_ids * self._item)
            file.patch(header)
        else:
            file.write(header)
        return num_ids

    def _open(self, unit: int) -> FileIO:
        path = self._parts.receipts[unit].path(self._parts.folder)
        with naming(path, "read"):
            return path.open("rb", buffering=0)

    def _compare(self, job: ShardJob, header: bytes) -> None:
        """Read the shard back and compare it with its parts."""
        path = temporary_name(job.path)
        with naming(path, "read"), path.open("rb", buffering=0) as shard:
            if shard.read(len(header)) != header:
                raise differs(job.path)
            for unit, segments in groupby(job.segments, _unit):
                if not self._same(shard, unit, list(segments)):
                    self._refuse(job, unit)

    def _same(self, shard: FileIO, unit: int, segments: list[Segment]) -> bool:
        """Are the shard's next ids those of the unit: a whole part's by the receipt's digest, some of one by the part's
        own bytes, and the part's by the receipt's digest, once."""
        receipt = self._parts.receipts[unit]
        size = receipt.num_ids * self._item
        if ids_of(segments) == receipt.num_ids:
            return xxh3_from(shard, size) == receipt.ids_xxh3
        with self._open(unit) as part:
            if unit not in self._intact and xxh3_from(part, size) != receipt.ids_xxh3:
                return False
            self._intact.add(unit)
            for segment in segments:
                part.seek(segment.start * self._item)
                if not _equal(shard, part, (segment.stop - segment.start) * self._item):
                    return False
        return True

    def _refuse(self, job: ShardJob, unit: int) -> None:
        """The unit will be done anew."""
        key = self._parts.receipts[unit].key
        remove(receipt_path(self._parts.folder, key))
        raise differs(job.path, f"unit {key[0]}-{key[1]}: ")

    def _write_index(self, job: ShardJob, file: AtomicFile) -> None:
        """The document index, a unit's documents in memory at a time; a document that is cut is closed here."""
        flow = PartFlow(self._parts, self._dtype, job.segments, self._rows_before, self._first_source)
        for piece in pack_index(flow.num_documents, 0, lambda: flow.documents(0, flow.num_documents)):
            file.write(piece)


def _unit(segment: Segment) -> int:
    return segment.unit


def shard_path(out: Path, name: str, split: str, number: int) -> Path:
    return out / f"{name}_{split}_{number:06d}.bin"


def _after(segments: list[Segment], ids: int) -> Iterator[Segment]:
    """The segments without their first `ids` ids (documents are not counted here)."""
    for segment in segments:
        skip = min(ids, segment.stop - segment.start)
        ids -= skip
        if segment.start + skip < segment.stop:
            yield replace(segment, start=segment.start + skip)


def _equal(shard: FileIO, part: FileIO, size: int) -> bool:
    while size:
        data = shard.read(min(size, READ_BYTES))
        if not data or part.read(len(data)) != data:
            return False
        size -= len(data)
    return True
