"""Of documents with one digest the first in plan order stays; digests beyond a bound are sorted on the disk.

Digests are gathered into runs of RUN_DOCUMENTS, sorted, rid of their inner duplicates and, if there is more than one,
written to scratch files. Then all runs are read side by side, one range of digests at a time, as many ranges as there
are runs: in any range equal digests lie next to each other in plan order. Memory holds one run and one bit a document.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from tokenriver.digests import sha256_file, xxh3_file
from tokenriver.files import AtomicFile, naming, remove
from tokenriver.parts import Documents, Receipt, differs, part_path, read_documents, receipt_path, write_documents
from tokenriver.textdigests import NOTHING, Earlier
from tokenriver.types import Bools, Ids, Int64, UInt64

RUN_DOCUMENTS = 1 << 21
_ROW_BYTES = 24  # two words of digest, and the document's number


def num_ids_once(folder: Path, receipts: Sequence[Receipt], item_bytes: int) -> int:
    """Ids of these units, in plan order, without duplicates."""
    total = 0
    for receipt, keep in _kept(folder, receipts, item_bytes):
        total += int(_lengths(read_documents(folder, receipt, item_bytes))[keep].sum())
    return total


def without_duplicates(
    folder: Path, receipts: Sequence[Receipt], dtype: str, reason: str, earlier: Earlier = NOTHING
) -> Iterator[Receipt]:
    """Receipts of these units, in plan order, without duplicates of each other and of `earlier`, which are counted as
    `reason`. A unit that has some gets a second file with the documents that stay; its part remains what a rerun begins
    with."""
    item = np.dtype(dtype)
    for receipt, keep in _kept(folder, receipts, item.itemsize, earlier):
        yield receipt if keep.all() else _rewrite(folder, receipt, keep, (item.newbyteorder("<"), reason))


def _rewrite(folder: Path, receipt: Receipt, keep: Bools, how: tuple[np.dtype[Any], str]) -> Receipt:
    dtype, reason = how
    documents = read_documents(folder, receipt, dtype.itemsize)
    lengths = _lengths(documents)
    ids = _read_ids(folder, receipt, dtype)[np.repeat(keep, lengths)]
    records, pieces, held_out = documents.records[keep], documents.pieces[keep], documents.held_out[keep]
    digests = documents.digests[keep] if documents.digests is not None else None
    kept = Documents(np.cumsum(lengths[keep]), records, pieces, held_out, digests)
    gone = (int(np.count_nonzero(~keep)), int(lengths[~keep].sum()))
    new = replace(receipt, once=True, num_ids=len(ids), num_documents=len(kept.ends))
    digest = xxhash.xxh3_128()
    with AtomicFile(new.path(folder), digest=digest) as file:
        file.write(ids.data)
        ids_xxh3 = digest.hexdigest()
        write_documents(file, kept)
    dropped = dict(sorted({**receipt.dropped, reason: gone}.items()))
    return replace(new, ids_xxh3=ids_xxh3, docs_xxh3=kept.xxh3, dropped=dropped)


def _read_ids(folder: Path, receipt: Receipt, dtype: np.dtype[Any]) -> Ids:
    """The ids of a part, compared with its receipt; a damaged part loses its receipt."""
    path, size = part_path(folder, receipt.key), receipt.num_ids * dtype.itemsize
    if xxh3_file(path, size) != receipt.ids_xxh3:
        remove(receipt_path(folder, receipt.key))
        raise differs(path)
    with naming(path, "read"):
        return np.fromfile(path, dtype, receipt.num_ids)


def _lengths(documents: Documents) -> Int64:
    return np.diff(documents.ends, prepend=0)


def _kept(
    folder: Path, receipts: Sequence[Receipt], item_bytes: int, earlier: Earlier = NOTHING
) -> Iterator[tuple[Receipt, Bools]]:
    """Each unit, and which of its documents are the first of their digest: (k,) bool."""
    first = earlier.num_documents
    total = first + sum(receipt.num_documents for receipt in receipts)
    digests = (read_documents(folder, receipt, item_bytes).digests for receipt in receipts)
    bits = later_ones(chain(earlier.read(), (found for found in digests if found is not None)), total, folder)
    for receipt in receipts:
        last = first + receipt.num_documents
        around = np.unpackbits(bits[first >> 3 : (last + 7) >> 3], bitorder="little")
        yield receipt, around[first & 7 :][: last - first] == 0
        first = last


def later_ones(digests: Iterator[UInt64], total: int, folder: Path) -> NDArray[np.uint8]:
    """One bit a document, the lowest of a byte first: is there an earlier one of its digest? `digests`: (k, 2) arrays
    of `total` documents; `folder` takes what does not fit into memory, and is left as it was."""
    bits = np.zeros((total + 7) >> 3, np.uint8)
    runs = _runs(digests, bits)
    count = -(-total // RUN_DOCUMENTS)
    if count < 2:
        for _ in runs:
            pass
        return bits
    edges = np.array([(number << 64) // count for number in range(1, count)], np.uint64)
    paths, cuts = [], []
    try:
        for number, rows in enumerate(runs):
            paths.append(folder / f"digests-{number:06d}")
            cuts.append([0, *np.searchsorted(np.ascontiguousarray(rows[:, 0]), edges).tolist(), len(rows)])
            _write(paths[-1], rows)
        for at in range(count):
            spans = [(path, cut[at], cut[at + 1]) for path, cut in zip(paths, cuts, strict=True)]
            _first_ones(np.concatenate([_read(*span) for span in spans]), bits)
    finally:
        for path in paths:
            remove(path)
    return bits


def _runs(digests: Iterator[UInt64], bits: NDArray[np.uint8]) -> Iterator[UInt64]:
    """Rows (digest, digest, document's number) of at most RUN_DOCUMENTS documents each, sorted, the first of each
    digest; the later ones are marked."""
    held: list[UInt64] = []
    have = first = 0
    for found in digests:
        left = found
        while len(left):
            piece, left = left[: RUN_DOCUMENTS - have], left[RUN_DOCUMENTS - have :]
            numbers = np.arange(first, first + len(piece), dtype=np.uint64)
            held.append(np.column_stack([piece, numbers]))
            have, first = have + len(piece), first + len(piece)
            if have == RUN_DOCUMENTS:
                yield _first_ones(np.concatenate(held), bits)
                held, have = [], 0
    if held:
        yield _first_ones(np.concatenate(held), bits)


def _first_ones(rows: UInt64, bits: NDArray[np.uint8]) -> UInt64:
    """The rows sorted, the first of each digest; the later ones are marked. Rows of one digest come in plan order."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    later = np.zeros(len(rows), np.bool_)
    later[1:] = (rows[1:, :2] == rows[:-1, :2]).all(axis=1)
    numbers = rows[later, 2]
    np.bitwise_or.at(bits, numbers >> np.uint64(3), np.uint8(1) << (numbers & np.uint64(7)).astype(np.uint8))
    return rows[~later]


def _write(path: Path, rows: UInt64) -> None:
    """A scratch file, read back: what is decided by it shows nowhere else."""
    with AtomicFile(path) as file:
        file.write(np.ascontiguousarray(rows, "<u8").data)
    if sha256_file(path) != file.sha256:
        raise differs(path)


def _read(path: Path, start: int, stop: int) -> UInt64:
    with naming(path, "read"):
        return np.fromfile(path, "<u8", 3 * (stop - start), offset=start * _ROW_BYTES).reshape(-1, 3)
