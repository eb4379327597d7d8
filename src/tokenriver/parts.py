"""What a finished unit leaves in the hidden folder: a part (its ids and documents) and a receipt.

A part is  ids | ends int64[k] | records int64[k] | pieces int32[k] | held_out uint8[k]  without padding, and behind
them  digests uint64[k, 2]  where duplicates are to be left out; the receipt (JSON) says how many there are and what
they hash to. A receipt whose part hashes to that is a finished unit: nobody waits until either is on the disk, which
would have each id written twice even by a short build, and what a loss of power took is done again.
Records and bad rows count from the start of their piece: how many rows lie before it is known only when all receipts
are there.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from tokenriver.digests import xxh3, xxh3_from
from tokenriver.errors import FormatError, MismatchError
from tokenriver.files import AtomicFile, naming, remove, write_atomic
from tokenriver.types import Bools, Int32, Int64, UInt64
from tokenriver.units import Key, unit_name

DOC_BYTES = 8 + 8 + 4 + 1
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class PieceReceipt:
    """What was found in one piece of a unit."""

    source: int
    rows: int
    digests: tuple[str, ...]
    """sha256 of the digest blocks of the stored file that this unit answers for."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a unit is done, and everything that assembly needs to know about it."""

    key: Key
    plan: str
    """Digest of the plan that the unit belongs to."""
    num_ids: int
    num_documents: int
    text_bytes: int
    ids_xxh3: str
    docs_xxh3: str
    pieces: tuple[PieceReceipt, ...]
    bad: tuple[tuple[int, int, int, str], ...]
    """(piece, record, byte offset, reason) of each row that gave no document."""
    notes: dict[str, int]
    prefix: str
    """Of a stream's unit: digest of the stored bytes up to it; else empty."""
    offset: int
    """Of a stream's unit: its first byte in the decompressed input; else 0."""
    encoded_ids: int
    """Ids that the tokenizer gave, framing included; num_ids of them stayed."""
    dropped: dict[str, tuple[int, int]]
    """(documents, ids) that each filter dropped, by its reason."""
    digested: bool
    """Do digests stand behind the other columns?"""
    once: bool
    """Were duplicates left out? Then the documents that stay lie in a file of their own beside the unit's part."""

    @property
    def doc_bytes(self) -> int:
        return DOC_BYTES + (DIGEST_BYTES if self.digested else 0)

    def path(self, folder: Path) -> Path:
        """Where the ids and documents lie."""
        return part_path(folder, self.key).with_suffix(".once") if self.once else part_path(folder, self.key)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        pieces = tuple(PieceReceipt(p["source"], p["rows"], tuple(p["digests"])) for p in data["pieces"])
        fixed = {"key": tuple(data["key"]), "pieces": pieces, "bad": tuple(tuple(row) for row in data["bad"])}
        dropped = {reason: (count, ids) for reason, (count, ids) in data["dropped"].items()}
        return cls(**{**data, **fixed, "dropped": dropped})


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of a part as columns, each (k,)."""

    ends: Int64
    records: Int64
    pieces: Int32
    held_out: Bools
    digests: UInt64 | None = None
    """(k, 2), where duplicates are to be left out."""

    def buffers(self) -> list[bytes]:
        columns = (self.ends, self.records, self.pieces, self.held_out, self.digests)
        return [column.tobytes() for column in columns if column is not None]

    @property
    def xxh3(self) -> str:
        return xxh3(self.buffers())


def part_path(folder: Path, key: Key) -> Path:
    return folder / f"{unit_name(key)}.part"


def receipt_path(folder: Path, key: Key) -> Path:
    return folder / f"{unit_name(key)}.receipt"


def read_receipt(folder: Path, key: Key, plan: str, item_bytes: int) -> Receipt | None:
    """The receipt of a finished unit of this plan; None if the unit has to be done (again)."""
    path, part = receipt_path(folder, key), part_path(folder, key)
    try:
        receipt = Receipt.from_json(orjson.loads(path.read_bytes()))
        if receipt.plan != plan or receipt.key != key:
            return None
        return receipt if _intact(part, receipt, item_bytes) else None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def _intact(part: Path, receipt: Receipt, item_bytes: int) -> bool:
    """Does the part hold what was written?"""
    ids, documents = receipt.num_ids * item_bytes, receipt.num_documents * receipt.doc_bytes
    if part.stat().st_size != ids + documents:
        return False
    with part.open("rb", buffering=0) as file:
        return xxh3_from(file, ids) == receipt.ids_xxh3 and xxh3_from(file) == receipt.docs_xxh3


def write_receipt(folder: Path, receipt: Receipt) -> None:
    data = orjson.dumps(receipt.as_dict(), option=orjson.OPT_SORT_KEYS)
    write_atomic(receipt_path(folder, receipt.key), data, lasting=False)


def write_documents(file: AtomicFile, documents: Documents) -> None:
    for buffer in documents.buffers():
        file.write(buffer)


def read_documents(folder: Path, receipt: Receipt, item_bytes: int) -> Documents:
    """The document columns of a finished part, compared with its receipt; a damaged part loses its receipt."""
    path, k = receipt.path(folder), receipt.num_documents
    with naming(path, "read"), path.open("rb") as file:
        file.seek(receipt.num_ids * item_bytes)
        data = file.read()
    if len(data) != k * receipt.doc_bytes or xxh3([data]) != receipt.docs_xxh3:
        remove(receipt_path(folder, receipt.key))
        raise FormatError(f"{path}: documents: got other bytes than were written; run the same command again")
    ends = np.frombuffer(data, "<i8", k)
    records = np.frombuffer(data, "<i8", k, 8 * k)
    pieces = np.frombuffer(data, "<i4", k, 16 * k)
    held_out = np.frombuffer(data, np.bool_, k, 20 * k)
    digests = np.frombuffer(data, "<u8", 2 * k, 21 * k).reshape(k, 2) if receipt.digested else None
    return Documents(ends, records, pieces, held_out, digests)


def differs(path: Path, what: str = "") -> MismatchError:
    """What is raised where a file of ours was read back and is not what was written."""
    return MismatchError(
        f"{path}: {what}what the disk gives back differs from what was written; check the disk, then run the same "
        f"command again"
    )
