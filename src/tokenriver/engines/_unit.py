"""One unit of a build, start to finish: read, parse, encode in one native call a batch, frame, narrow, hash, write.

The same function runs in the calling process and in worker processes. Nothing here knows how many workers there are,
what time it is or where else the build happens, so a part's bytes depend on its unit alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xxhash

from tokenriver import registry
from tokenriver.engines import _encoding
from tokenriver.engines._sampling import Sample, no_sample, take_sample
from tokenriver.engines._sieve import NO_IDS, Group, Sieve
from tokenriver.errors import InputError, LimitError
from tokenriver.files import AtomicFile
from tokenriver.filtering import NO_FILTERS, Filters
from tokenriver.hashing import held_out
from tokenriver.parts import Documents, PieceReceipt, Receipt, part_path, write_documents, write_receipt
from tokenriver.streams import read_blocks
from tokenriver.types import Bools, DocumentBatch, Ids, Int64, SourceOptions, Tokenizer, UInt64
from tokenriver.units import Key, Lot, block_digests

ENCODE_BYTES = 1 << 20
"""Text of one native call: larger ones lose to page faults, smaller ones to call overhead (measured)."""


@dataclass(frozen=True, slots=True)
class Work:
    """What all units of a build share."""

    folder: Path
    dtype: str
    before: int | None
    """Id in front of each document."""
    after: int | None
    """Id behind each document."""
    val_fraction: float
    unit_bytes: int
    options: SourceOptions
    filters: Filters = NO_FILTERS
    """Which documents stay."""


@dataclass(frozen=True, slots=True)
class Job:
    """One unit to do. A stream's unit brings its text along."""

    key: Key
    lot: Lot
    sample_bytes: int = 0
    """How much of this unit's text the gate wants to compare with the reference encoder."""
    data: Sequence[bytes | memoryview] | None = None
    offset: int = 0
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """A unit whose part and receipt are written."""

    receipt: Receipt
    sample: Sample


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A unit that cannot be done because inputs of it are damaged: (source, what is wrong) of each."""

    key: Key
    errors: tuple[tuple[int, str], ...]


Outcome = Done | Unreadable


@dataclass(slots=True)
class _Progress:
    """Columns that grow while a unit is done."""

    ends: list[Int64] = field(default_factory=list)
    records: list[Int64] = field(default_factory=list)
    pieces: list[Int64] = field(default_factory=list)
    held_out: list[Bools] = field(default_factory=list)
    digests: list[UInt64] = field(default_factory=list)
    num_ids: int = 0
    encoded_ids: int = 0
    text_bytes: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    bad: list[tuple[int, int, int, str]] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    sample: Sample = field(default_factory=no_sample)


def run_unit(job: Job, work: Work, tokenizer: Tokenizer) -> Outcome:
    """Do one unit."""
    progress, sieve = _Progress(), Sieve(work.filters.rules())
    digest = xxhash.xxh3_128()
    file = AtomicFile(part_path(work.folder, job.key), lasting=False, digest=digest)
    try:
        for group in map(sieve.by_text, _regroup(_batches(job, work, progress), progress)):
            if group.texts:
                _encode(progress, group, (sieve, file), (job, work, tokenizer))
        if progress.unreadable:
            file.discard()
            return Unreadable(job.key, tuple(progress.unreadable))
        ids_xxh3 = digest.hexdigest()
        documents = _documents(progress, digested=sieve.digest is not None)
        write_documents(file, documents)
        receipt = _receipt((job, work), progress, (ids_xxh3, documents), sieve)
        file.commit()
        write_receipt(work.folder, receipt)
        return Done(receipt, progress.sample)
    except BaseException:
        file.discard()
        raise


def _encode(
    progress: _Progress, group: Group, through: tuple[Sieve, AtomicFile], given: tuple[Job, Work, Tokenizer]
) -> None:
    """Encode a group in one native call and write what stays of it."""
    (sieve, file), (job, work, tokenizer) = through, given
    place = job.lot.pieces, job.offset
    ids, lengths = _encoding.encode(tokenizer, group, (work.before, work.after), place, progress.notes)
    framing = work.before is not None, work.after is not None
    progress.sample = take_sample(progress.sample, group.texts, (ids, lengths), job.sample_bytes, framing)
    progress.encoded_ids += len(ids)
    group, ids, lengths = sieve.by_length(group, _narrow(ids, work, tokenizer), lengths)
    file.write(ids.data)
    _add_documents(progress, group.texts, lengths, work)
    if sieve.digest is not None:
        progress.digests.append(sieve.digest(group.texts))
    progress.records.append(group.records)
    progress.pieces.append(group.pieces)


def _batches(job: Job, work: Work, progress: _Progress) -> Iterator[tuple[int, DocumentBatch]]:
    """(piece number, batch) of all pieces of the job, in order; a damaged input does not keep the others from being
    looked at."""
    source = registry.load("sources", job.lot.kind)
    if job.data is not None:
        first = job.offset == 0
        for batch in source.parse(map(bytes, job.data), work.options, job.offset, first=first):
            yield 0, batch
        return
    for number, (piece, compression) in enumerate(zip(job.lot.pieces, job.lot.compressions, strict=True)):
        try:
            if compression:
                batches = source.parse(read_blocks(piece.path, compression), work.options, 0, first=True)
            else:
                batches = source.read(piece, work.options)
            for batch in batches:
                yield number, batch
        except InputError as error:
            progress.unreadable.append((piece.source, str(error)))


def _regroup(batches: Iterator[tuple[int, DocumentBatch]], progress: _Progress) -> Iterator[Group]:
    """Texts in groups of about ENCODE_BYTES, with records and pieces; counts rows, bad rows and notes on the way."""
    texts: list[bytes] = []
    records: list[Int64] = []
    pieces: list[Int64] = []
    size = 0
    for number, batch in batches:
        progress.rows[number] = progress.rows.get(number, 0) + batch.rows_read
        progress.bad.extend((number, row.record, row.offset, row.reason) for row in batch.bad)
        for reason, count in batch.notes.items():
            progress.notes[reason] = progress.notes.get(reason, 0) + count
        if not batch.texts:
            continue
        texts.extend(batch.texts)
        records.append(batch.records)
        pieces.append(np.full(len(batch.texts), number, np.int64))
        size += sum(map(len, batch.texts))
        if size >= ENCODE_BYTES:
            progress.text_bytes += size
            yield Group(texts, np.concatenate(records), np.concatenate(pieces))
            texts, records, pieces, size = [], [], [], 0
    if texts:
        progress.text_bytes += size
        yield Group(texts, np.concatenate(records), np.concatenate(pieces))


def _narrow(ids: Ids, work: Work, tokenizer: Tokenizer) -> Ids:
    """The ids as they are stored; LimitError for one outside the vocabulary, which the width may not hold."""
    largest = int(ids.max()) if len(ids) else 0
    if largest >= tokenizer.vocab_size:
        raise LimitError(
            f"tokenizer {tokenizer.name!r}: got id {largest}, expected at most {tokenizer.vocab_size - 1}; its "
            f"vocab_size is wrong"
        )
    return ids.astype(work.dtype, copy=False)


def _add_documents(progress: _Progress, texts: list[bytes], lengths: Int64, work: Work) -> None:
    ends = progress.num_ids + np.cumsum(lengths)
    progress.ends.append(ends)
    progress.num_ids += int(lengths.sum())
    if work.val_fraction:
        progress.held_out.append(held_out(texts, work.val_fraction))
    else:
        progress.held_out.append(np.zeros(len(texts), np.bool_))


def _documents(progress: _Progress, *, digested: bool) -> Documents:
    def column(parts: list[Int64]) -> Int64:
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    held = np.concatenate(progress.held_out) if progress.held_out else np.empty(0, np.bool_)
    pieces = column(progress.pieces).astype(np.int32)
    digests = np.concatenate([np.empty((0, 2), np.uint64), *progress.digests]) if digested else None
    return Documents(column(progress.ends), column(progress.records), pieces, held, digests)


def _receipt(given: tuple[Job, Work], progress: _Progress, written: tuple[str, Documents], sieve: Sieve) -> Receipt:
    (job, work), (ids_xxh3, documents) = given, written
    if sieve.without_ids:
        progress.notes[NO_IDS] = sieve.without_ids
    pieces = []
    for number, (piece, (first, last)) in enumerate(zip(job.lot.pieces, job.lot.blocks, strict=True)):
        digests = block_digests(piece.path, first, last, work.unit_bytes)
        pieces.append(PieceReceipt(piece.source, progress.rows.get(number, 0), tuple(digests)))
    return Receipt(
        key=job.key,
        plan=job.lot.tag,
        num_ids=progress.num_ids,
        num_documents=len(documents.ends),
        text_bytes=progress.text_bytes,
        ids_xxh3=ids_xxh3,
        docs_xxh3=documents.xxh3,
        pieces=tuple(pieces),
        bad=tuple(progress.bad),
        notes=dict(sorted(progress.notes.items())),
        prefix=job.prefix,
        offset=job.offset,
        encoded_ids=progress.encoded_ids,
        dropped=sieve.dropped,
        digested=documents.digests is not None,
        once=False,
    )
