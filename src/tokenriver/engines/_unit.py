"""One unit of a build, start to finish: read, parse, encode in one native call a batch, frame, narrow, hash, write.

The same function runs in the calling process and in worker processes. Nothing here knows how many workers there are,
what time it is or where else the build happens, so a part's bytes depend on its unit alone.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tokenriver import registry
from tokenriver.engines import _encoding
from tokenriver.errors import InputError, LimitError
from tokenriver.files import AtomicFile
from tokenriver.parts import Documents, PieceReceipt, Receipt, part_path, write_documents, write_receipt
from tokenriver.streams import read_blocks
from tokenriver.types import Bools, DocumentBatch, Ids, Int64, SourceOptions, Tokenizer
from tokenriver.units import Key, Lot, block_digests

ENCODE_BYTES = 1 << 20
"""Text of one native call: larger ones lose to page faults, smaller ones to call overhead (measured)."""
HOLD_OUT_SALT = b"tokenriver val 1"
SAMPLE_TEXT_BYTES = 256 << 10
SAMPLE_RUN_BYTES = 8 << 10
"""A longer text with a long run without spaces is no sample: reference encoders are quadratic on those."""
NO_IDS = "no-ids"
LONG_RUN = re.compile(rb"\S{1024}")


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
class Sample:
    """Some of a unit's documents as they were encoded, for the gate."""

    texts: list[bytes]
    ids: Int64
    lengths: Int64


@dataclass(frozen=True, slots=True)
class Done:
    """A unit whose part and receipt are on the disk."""

    receipt: Receipt
    sample: Sample


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A unit that cannot be done because inputs of it are damaged: (source, what is wrong) of each."""

    key: Key
    errors: tuple[tuple[int, str], ...]


Outcome = Done | Unreadable


@dataclass(slots=True)
class Finished:
    """A unit whose part is written but not yet committed."""

    file: AtomicFile
    receipt: Receipt
    sample: Sample
    folder: Path

    def commit(self) -> Done:
        try:
            self.file.commit()
        except BaseException:
            self.file.discard()
            raise
        write_receipt(self.folder, self.receipt)
        return Done(self.receipt, self.sample)


@dataclass(slots=True)
class _Progress:
    """Columns that grow while a unit is done."""

    ends: list[Int64] = field(default_factory=list)
    records: list[Int64] = field(default_factory=list)
    pieces: list[Int64] = field(default_factory=list)
    held_out: list[Bools] = field(default_factory=list)
    num_ids: int = 0
    text_bytes: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    bad: list[tuple[int, int, int, str]] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    sample: Sample = field(default_factory=lambda: Sample([], np.empty(0, np.int64), np.empty(0, np.int64)))


def run_unit(job: Job, work: Work, tokenizer: Tokenizer) -> Finished | Unreadable:
    """Do one unit up to, not including, the commit of its part."""
    progress = _Progress()
    file = AtomicFile(part_path(work.folder, job.key))
    try:
        for texts, records, pieces in _regroup(_batches(job, work, progress), progress):
            group, edges = (texts, records, pieces), (work.before, work.after)
            ids, lengths = _encoding.encode(tokenizer, group, edges, (job.lot.pieces, job.offset), progress.notes)
            _take_sample(progress, texts, (ids, lengths), (job.sample_bytes, work))
            file.write(_narrow(ids, work, tokenizer).data)
            if not lengths.all():
                texts, records, pieces = _drop_without_ids(progress, texts, lengths, (records, pieces))
                lengths = lengths[lengths > 0]
            _add_documents(progress, texts, lengths, work)
            progress.records.append(records)
            progress.pieces.append(pieces)
        if progress.unreadable:
            file.discard()
            return Unreadable(job.key, tuple(progress.unreadable))
        ids_sha256 = file.sha256
        documents = _documents(progress)
        write_documents(file, documents)
        return Finished(file, _receipt(job, work, progress, (ids_sha256, documents)), progress.sample, work.folder)
    except BaseException:
        file.discard()
        raise


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


def _regroup(
    batches: Iterator[tuple[int, DocumentBatch]], progress: _Progress
) -> Iterator[tuple[list[bytes], Int64, Int64]]:
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
            yield texts, np.concatenate(records), np.concatenate(pieces)
            texts, records, pieces, size = [], [], [], 0
    if texts:
        progress.text_bytes += size
        yield texts, np.concatenate(records), np.concatenate(pieces)


def _narrow(ids: Ids, work: Work, tokenizer: Tokenizer) -> Ids:
    """The ids as they are stored; LimitError for one outside the vocabulary, which the width may not hold."""
    largest = int(ids.max()) if len(ids) else 0
    if largest >= tokenizer.vocab_size:
        raise LimitError(
            f"tokenizer {tokenizer.name!r}: got id {largest}, expected at most {tokenizer.vocab_size - 1}; its "
            f"vocab_size is wrong"
        )
    return ids.astype(work.dtype, copy=False)


def _drop_without_ids(
    progress: _Progress, texts: list[bytes], lengths: Int64, places: tuple[Int64, Int64]
) -> tuple[list[bytes], Int64, Int64]:
    """Without framing a text may have no ids at all (a tokenizer that strips spaces): it is noted, and no document."""
    kept = lengths > 0
    progress.notes[NO_IDS] = progress.notes.get(NO_IDS, 0) + int(np.count_nonzero(~kept))
    return [text for text, keep in zip(texts, kept.tolist(), strict=True) if keep], places[0][kept], places[1][kept]


def held_out(texts: list[bytes], fraction: float) -> Bools:
    """Which documents belong to the validation split: a salted hash of the text alone decides, so duplicates stay on
    one side and more inputs change nothing for the documents that were there."""
    bound = int(fraction * 2.0**64)
    hashes = (hashlib.blake2b(text, digest_size=8, key=HOLD_OUT_SALT).digest() for text in texts)
    return np.fromiter((int.from_bytes(digest, "little") < bound for digest in hashes), np.bool_, len(texts))


def _add_documents(progress: _Progress, texts: list[bytes], lengths: Int64, work: Work) -> None:
    ends = progress.num_ids + np.cumsum(lengths)
    progress.ends.append(ends)
    progress.num_ids += int(lengths.sum())
    if work.val_fraction:
        progress.held_out.append(held_out(texts, work.val_fraction))
    else:
        progress.held_out.append(np.zeros(len(texts), np.bool_))


def _documents(progress: _Progress) -> Documents:
    def column(parts: list[Int64]) -> Int64:
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    held = np.concatenate(progress.held_out) if progress.held_out else np.empty(0, np.bool_)
    pieces = column(progress.pieces).astype(np.int32)
    return Documents(column(progress.ends), column(progress.records), pieces, held)


def _receipt(job: Job, work: Work, progress: _Progress, written: tuple[str, Documents]) -> Receipt:
    ids_sha256, documents = written
    docs = hashlib.sha256()
    for buffer in documents.buffers():
        docs.update(buffer)
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
        ids_sha256=ids_sha256,
        docs_sha256=docs.hexdigest(),
        pieces=tuple(pieces),
        bad=tuple(progress.bad),
        notes=dict(sorted(progress.notes.items())),
        prefix=job.prefix,
        offset=job.offset,
    )


def _take_sample(progress: _Progress, texts: list[bytes], encoded: tuple[Ids, Int64], wanted: tuple[int, Work]) -> None:
    """Keep some short documents, evenly spread over the batch, with the ids that they were given (framing removed)."""
    sample_bytes, work = wanted
    left = sample_bytes - sum(map(len, progress.sample.texts))
    if left <= 0:
        return
    ids, lengths = encoded
    ends = np.cumsum(lengths)
    front, back = int(work.before is not None), int(work.after is not None)
    chosen: list[int] = []
    step = max(1, sum(map(len, texts)) // left)
    for i in range(0, len(texts), step):
        if len(texts[i]) <= left and _is_sample(texts[i]):
            chosen.append(i)
            left -= len(texts[i])
    taken = [ids[ends[i] - lengths[i] + front : ends[i] - back] for i in chosen]
    old = progress.sample
    progress.sample = Sample(
        [*old.texts, *(texts[i] for i in chosen)],
        np.concatenate([old.ids, *taken]).astype(np.int64),
        np.concatenate([old.lengths, lengths[chosen] - front - back]),
    )


def _is_sample(text: bytes) -> bool:
    return len(text) <= SAMPLE_RUN_BYTES or (len(text) <= SAMPLE_TEXT_BYTES and LONG_RUN.search(text) is None)
