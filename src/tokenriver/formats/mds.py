"""MosaicML's MDS: a folder of shards of samples with an index.json; here each document is a sample, its ids one column.

Read are sets whose ids lie in the only column or in one called tokens, input_ids or ids, as arrays of integers or as
bytes, raw or compressed with zstd; columns beside it are passed over. Written is one column `tokens` of arrays, which
MosaicML's own reader gives back. Layouts: "" (arrays of any length), "fixed" (all of one length), "bytes" (which also
holds empty documents, but says nothing of the dtype) and "zstd" ("" compressed). See formats.md, section 14.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenriver.errors import FormatError, InputError, LimitError, RiverError
from tokenriver.formats import _ends, _files, _mds_index, _mds_write, _mds_zstd
from tokenriver.formats._columns import lengths_of
from tokenriver.formats._json_index import INDEX
from tokenriver.formats._mapping import id_dtype, map_array, open_regular, read_head
from tokenriver.formats._mds_columns import MAX_BYTES
from tokenriver.formats._mds_shard import MAX_JSON, Samples, own_columns, read_samples
from tokenriver.formats._mds_write import Kind
from tokenriver.formats._reader import Body, Documents, Flat, Opened, Pieces, Reader
from tokenriver.storage import Content, ShardFile, Target, WrittenFile

SUFFIX = ".mds"
PACKED_SUFFIX = ".mds.zstd"
STORES = frozenset({"doc_ends", "dtype", "count"})
DTYPES = ("uint16", "uint32", "int32", "int64")
SHARD_TOKENS = 16_000_000
MAX_SHARD_TOKENS = MAX_BYTES // 2
SPLIT_FOLDERS = True
SAMPLES = True
LAYOUTS = ("", "fixed", "bytes", "zstd")

_FORMAT = re.compile(rb'"format"\s*:\s*"mds"')


def sniff(path: Path) -> bool:
    """A folder whose index.json says so, or a shard by the table of columns in it."""
    if path.is_dir():
        return _FORMAT.search(read_head(path / INDEX, 1 << 16)) is not None
    with suppress(RiverError):
        return path.name.endswith((SUFFIX, PACKED_SUFFIX)) and _has_columns(path)
    return False


def _has_columns(path: Path) -> bool:
    if path.name.endswith(PACKED_SUFFIX):
        return _mds_zstd.is_compressed(path)
    fd, size = open_regular(path)
    try:
        begin = 8 + 4 * int.from_bytes(os.pread(fd, 4, 0), "little")
        first = int.from_bytes(os.pread(fd, 4, 4), "little")
        text = os.pread(fd, min(max(first - begin, 0), MAX_JSON), begin) if first <= size else b""
    finally:
        os.close(fd)
    return _FORMAT.search(text) is not None


def find(path: Path) -> list[ShardFile]:
    """A shard, or those of a folder's index in its order, without the empty ones that MDS's writer may leave."""
    if not path.is_dir():
        return [ShardFile(path)]
    entries = _mds_index.read_entries(path / INDEX)
    found = [_mds_index.shard_file(entry) for entry in entries if entry.row["samples"]]
    if not found:
        raise FormatError(f"{path / INDEX}: got no samples, expected shards; check the path")
    return found


def open_reader(path: Path, *, dtype: str | None = None) -> Reader:
    """Open one shard; FormatError with path, offset, value and expectation, also when `dtype` is not the file's, or is
    missing where the file does not say it."""
    opened = Opened(open_reader, path, dtype)
    if _mds_zstd.is_compressed(path):
        samples = read_samples(path, _all_bytes(path), dtype)
        return Reader(opened, _mds_zstd.Decoded(path, samples), partial(_documents, path, samples))
    fd, size = open_regular(path)
    try:
        samples = read_samples(path, map_array(fd, np.dtype(np.uint8), 0, size), dtype)
        return Reader(opened, _body(fd, size, samples), partial(_documents, path, samples))
    finally:
        os.close(fd)


def _body(fd: int, size: int, samples: Samples) -> Body:
    if samples.run is not None:
        return Flat(fd, samples.dtype, *samples.run)
    if not samples.counts.any():
        return Flat(fd, samples.dtype, 0, 0)
    return Pieces(fd, size, samples.dtype, samples.offsets, samples.counts)


def _documents(path: Path, samples: Samples) -> Documents:
    if samples.run is not None:
        return _ends.of_rows(samples.number, samples.run[1] // max(samples.number, 1)), None
    return np.cumsum(samples.counts, dtype=np.int64), None


def audit(path: Path) -> Iterator[FormatError]:
    """What only reading all of a folder shows: hashes of the index that are not the files', and shards whose own
    columns or number of samples are not the index's."""
    for entry in _mds_index.read_entries(path / INDEX):
        yield from _mds_index.wrong_hashes(entry)
        try:
            data = _all_bytes(entry.path)
            number, own = own_columns(entry.path, data)
        except FormatError as error:
            yield error
            continue
        theirs = {name: entry.row[name] for name in own}
        if number != entry.row["samples"] or own != theirs or len(data) != entry.row["raw_data"]["bytes"]:
            yield FormatError(
                f"{entry.path}: columns: got {number} samples of {str(own)[:200]}, expected {entry.row['samples']} of "
                f"{str(theirs)[:200]} by the index"
            )


def _all_bytes(path: Path) -> NDArray[np.uint8]:
    """The bytes of a raw shard, mapped, or of a compressed one, decoded."""
    if _mds_zstd.is_compressed(path):
        return _mds_zstd.decode(path)
    fd, size = open_regular(path)
    try:
        return map_array(fd, np.dtype(np.uint8), 0, size)
    finally:
        os.close(fd)


# ---------------------------------------------------------------------------------------------- writing


def _kind(target: Target) -> Kind:
    if target.layout not in LAYOUTS:
        raise InputError(f"layout: got {target.layout!r}, expected one of {', '.join(map(repr, LAYOUTS))}")
    return Kind(target.layout, target.dtype, id_dtype(target.dtype).itemsize)


def check(target: Target, shards: Sequence[Content]) -> None:
    """No empty document but as bytes, one length where it is fixed, and offsets below 2^32."""
    kind = _kind(target)
    lengths_seen: set[int] = set()
    for number, content in enumerate(shards):
        empty, before = 0, set(lengths_seen)
        for lengths in lengths_of(content.ends()):
            empty += int((lengths == 0).sum())
            lengths_seen |= {int(lengths.min()), int(lengths.max())}
        if empty and kind.layout != "bytes":
            raise LimitError(
                f"documents: got {empty} empty ones in shard {number} of {target.split}, expected an id in each: MDS "
                "has no empty arrays; write the layout 'bytes', or another format"
            )
        # columns belong to a shard, so what is left at the end of a split may be one shorter sample in its last one
        rest = number == len(shards) - 1 and content.num_documents == 1 and content.num_tokens < max(before, default=0)
        if kind.layout == "fixed" and len(before if rest else lengths_seen) > 1:
            raise LimitError(
                f"documents: got {min(lengths_seen)} to {max(lengths_seen)} ids, expected one length for all; give "
                "sample_tokens, or leave the layout 'fixed' out"
            )
        size = _mds_write.shard_bytes(content, kind, _mds_write.samples_bytes(content, kind))
        if size > MAX_BYTES:
            raise LimitError(
                f"shard {number} of {target.split}: got {size} bytes, expected at most {MAX_BYTES} of an MDS shard; "
                f"cut shards of fewer than {content.num_tokens} ids"
            )


def file_name(target: Target, number: int) -> str:
    return f"shard.{number:05d}{PACKED_SUFFIX if target.layout == 'zstd' else SUFFIX}"


def write(path: Path, content: Content, target: Target) -> list[WrittenFile]:
    """One shard."""
    kind = _kind(target)
    num_bytes = _mds_write.samples_bytes(content, kind)
    blocks = _mds_write.pieces(content, kind, num_bytes)
    if kind.layout == "zstd":
        blocks = _mds_zstd.compressed(blocks, _mds_write.shard_bytes(content, kind, num_bytes))
    return [_files.write_file(path, blocks)]


def finish(folder: Path, target: Target, shards: Sequence[tuple[WrittenFile, Content]]) -> list[WrittenFile]:
    """index.json of a split."""
    kind = _kind(target)
    rows = []
    for written, content in shards:
        num_bytes = _mds_write.samples_bytes(content, kind)
        row = kind.columns(content, num_bytes)
        size = _mds_write.shard_bytes(content, kind, num_bytes)
        packed = _mds_index.file_row(written.path.name, written.num_bytes) if kind.layout == "zstd" else None
        raw = _mds_index.file_row(written.path.name.removesuffix(".zstd"), size)
        rows.append({**row, "raw_data": raw, "samples": content.num_documents, "zip_data": packed})
    return [_files.write_file(folder / INDEX, [_mds_index.index_bytes(rows)])]
