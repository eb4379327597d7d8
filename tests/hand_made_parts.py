"""Finished units written by hand: parts and receipts of documents of given lengths; no source, no tokenizer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash

from tokenriver.assembly import Parts
from tokenriver.parts import DOC_BYTES, Documents, PieceReceipt, Receipt, part_path, write_receipt

PLAN = "the plan"


def hand_made(folder: Path, units: Sequence[Sequence[int]], held_out: Sequence[Sequence[bool]] | None = None) -> Parts:
    """Units of documents of these lengths; id number i of all units is i modulo 65,536. Document j of a unit is raw row
    2j of it, so each unit has twice as many rows as documents; all are of source 0."""
    folder.mkdir(parents=True, exist_ok=True)
    receipts, first = [], 0
    for number, lengths in enumerate(units):
        held = held_out[number] if held_out is not None else [False] * len(lengths)
        receipt = hand_made_unit(folder, (number, 0), first, lengths, held)
        first += receipt.num_ids
        receipts.append(receipt)
    return Parts(folder, receipts, 2)


def hand_made_unit(
    folder: Path, key: tuple[int, int], first: int, lengths: Sequence[int], held: Sequence[bool]
) -> Receipt:
    """One part and its receipt; its ids count from `first`."""
    k = len(lengths)
    ids = np.arange(first, first + sum(lengths)).astype("<u2").tobytes()
    documents = Documents(
        np.cumsum(lengths, dtype=np.int64),
        np.arange(k, dtype=np.int64) * 2,
        np.zeros(k, np.int32),
        np.array(held, np.bool_),
    )
    docs = b"".join(documents.buffers())
    assert len(docs) == k * DOC_BYTES
    part_path(folder, key).write_bytes(ids + docs)
    receipt = Receipt(
        key=key,
        plan=PLAN,
        num_ids=sum(lengths),
        num_documents=k,
        text_bytes=sum(lengths),
        ids_xxh3=xxhash.xxh3_128_hexdigest(ids),
        docs_xxh3=xxhash.xxh3_128_hexdigest(docs),
        pieces=(PieceReceipt(0, 2 * k, ("00" * 32,)),),
        bad=(),
        notes={},
        prefix="",
        offset=0,
        encoded_ids=sum(lengths),
        dropped={},
        digested=False,
        once=False,
    )
    write_receipt(folder, receipt)
    return receipt
