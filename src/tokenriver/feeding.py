"""Handing out the units of a build: which are done already, which come next, when there are enough, what failed.

Units are issued in plan order. What was done before is recognised by its receipt; a stream is decoded again only if a
unit of it is missing, and then what was done of it is compared with what is read now.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenriver.buildfolder import FAILED_NAME
from tokenriver.duplicates import num_ids_once, without_duplicates
from tokenriver.engines._unit import Job, Unreadable, Work
from tokenriver.errors import InputError, MismatchError
from tokenriver.files import write_atomic
from tokenriver.inputs import InputFile
from tokenriver.parts import Receipt, read_receipt
from tokenriver.textdigests import NOTHING, Earlier
from tokenriver.units import Key, Lot, TreeDigest, stream_blocks

SAMPLE_BYTES = 128 << 10
SAMPLE_SHARE = 0.03
SAMPLED_UNITS = 8
"""The gate compares at most 3 % of the text and 1 MiB of it: about 0.3 s of a reference encoder."""


@dataclass(slots=True)
class Feeder:
    """The units of one build. `receipts` fills from other threads, one call of `finished` at a time."""

    lots: list[Lot]
    files: list[InputFile]
    work: Work
    max_tokens: int | None
    check: bool
    earlier: Earlier = NOTHING
    """Texts of the corpus that is appended to, where duplicates are left out."""
    receipts: dict[Key, Receipt] = field(default_factory=dict)
    issued: list[Key] = field(default_factory=list)
    resumed: int = 0
    ends: dict[int, str] = field(default_factory=dict)
    """By source: sha256 of a stream that was read to its end."""
    failures: dict[str, str] = field(default_factory=dict)
    """By input: why it could not be read to its end."""
    done_bytes: int = 0
    """Stored bytes of the inputs that were handed out, for progress."""
    _counted: int = 0
    _ids: int = 0
    _kept_once: int = 0
    _next_look: int = 0
    _broken: set[Key] = field(default_factory=set)
    _first_failure: int | None = None
    """Number of units before the first that an unreadable input kept from being done."""

    def jobs(self) -> Iterator[Job]:
        """The units still to be done, in plan order."""
        for lot in self.lots:
            if self.enough():
                return
            if lot.stream:
                yield from self._stream(lot)
            elif not self._done(lot, 0):
                yield Job((lot.index, 0), lot, self._sample_bytes(lot.num_bytes))
            self.done_bytes += lot.num_bytes

    def ordered(self) -> list[Receipt]:
        """All receipts in plan order; every unit that was issued is done."""
        return [self.receipts[key] for key in self.issued]

    def enough(self) -> bool:
        """Do the leading finished units hold all that max_tokens lets in? Then no further unit is started."""
        if self.max_tokens is None:
            return False
        while self._counted < len(self.issued):
            receipt = self.receipts.get(self.issued[self._counted])
            if receipt is None and self.issued[self._counted] not in self._broken:
                break
            self._ids += receipt.num_ids if receipt is not None else 0
            self._counted += 1
        return self._ids > self.max_tokens and (self.work.filters.once is None or self._enough_once())

    def _enough_once(self) -> bool:
        """The same without duplicates. They are looked for only when it may be so, and after an eighth more ids: units
        too many change nothing."""
        if self.max_tokens is not None and self._ids >= self._next_look:
            kept = num_ids_once(self.work.folder, self._leading(self._counted), np.dtype(self.work.dtype).itemsize)
            self._kept_once = kept
            self._next_look = self._ids + max(self.max_tokens - kept, self._ids // 8)
        return self.max_tokens is not None and self._kept_once > self.max_tokens

    def leave_out_duplicates(self) -> None:
        """Once all units are done: of equal texts the first stays, in the units up to the first that is broken."""
        reason = self.work.filters.once
        if reason is None or (self._first_failure is not None and self.max_tokens is None):
            return
        leading = self._leading(self._first_failure)
        for receipt in without_duplicates(self.work.folder, leading, self.work.dtype, reason, self.earlier):
            self.receipts[receipt.key] = receipt

    def _leading(self, count: int | None) -> list[Receipt]:
        """Receipts of the first `count` units, or of all; what is broken has none."""
        return [self.receipts[key] for key in self.issued[:count] if key in self.receipts]

    def fail(self, unit: Unreadable) -> None:
        """Note a unit that cannot be done; the others go on."""
        self._broken.add(unit.key)
        for source, text in unit.errors:
            self._fail(source, text, self.issued.index(unit.key))

    def _fail(self, source: int, text: str, before: int) -> None:
        self.failures[self.files[source].name] = text
        self._first_failure = before if self._first_failure is None else min(before, self._first_failure)

    def raise_failures(self) -> None:
        """Stop the build if an input could not be read to its end; the others are done and stay done. One that lies
        beyond max_tokens is not missed: whether it was looked at at all depends on the number of workers."""
        if self._first_failure is None:
            return
        before = self.issued[: self._first_failure]
        if self.max_tokens is not None and sum(self.receipts[key].num_ids for key in before) > self.max_tokens:
            del self.issued[self._first_failure :]
            return
        write_atomic(self.work.folder / FAILED_NAME, orjson.dumps(sorted(self.failures)))
        shown = "; ".join(text for _, text in sorted(self.failures.items())[:5])
        raise InputError(
            f"{len(self.failures)} of {len(self.files)} inputs could not be read: {shown}; the others are done, "
            f"so only what is replaced will be read again"
        )

    def _done(self, lot: Lot, k: int) -> bool:
        key = (lot.index, k)
        self.issued.append(key)
        receipt = read_receipt(self.work.folder, key, lot.tag, np.dtype(self.work.dtype).itemsize)
        if receipt is None:
            return False
        self.receipts[key] = receipt
        self.resumed += 1
        return True

    def _stream(self, lot: Lot) -> Iterator[Job]:
        source = lot.pieces[0].source
        path = self.work.folder / f"s{lot.index:06d}.end"
        end = self._read_end(path, lot)
        if end is not None and self._all_done(lot, end["units"]):
            self.ends[source] = end["sha256"]
            return
        digest = TreeDigest(0 if lot.compressions[0] else self.work.unit_bytes)
        units = 0
        try:
            for block in stream_blocks(lot, self.work.options, self.work.unit_bytes, digest):
                units += 1
                if self._done(lot, block.k):
                    self._same_input(self.receipts[lot.index, block.k], block.prefix, lot)
                else:
                    sample = self._sample_bytes(block.size)
                    yield Job((lot.index, block.k), lot, sample, block.data, block.offset, block.prefix)
                if self.enough():
                    return
        except InputError as error:
            self._fail(source, str(error), len(self.issued))
            return
        self.ends[source] = digest.hexdigest()
        content = {"plan": lot.tag, "units": units, "sha256": self.ends[source]}
        write_atomic(path, orjson.dumps(content))

    def _read_end(self, path: Path, lot: Lot) -> dict[str, Any] | None:
        try:
            end: dict[str, Any] = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None
        return end if end.get("plan") == lot.tag else None

    def _all_done(self, lot: Lot, units: int) -> bool:
        before = len(self.issued), self.resumed
        if all(self._done(lot, k) for k in range(units)):
            return True
        del self.issued[before[0] :]
        self.resumed = before[1]
        return False

    def _same_input(self, receipt: Receipt, prefix: str, lot: Lot) -> None:
        if receipt.prefix != prefix:
            raise MismatchError(
                f"{lot.pieces[0].path}: has changed since the build was begun (before unit {receipt.key[1]} of it); "
                f"restore it, or remove the unfinished build and begin anew"
            )

    def _sample_bytes(self, text_bytes: int) -> int:
        """The first units are sampled, then ever fewer: 1, 2, 4, 8 ... 128."""
        number = len(self.issued)
        if not self.check or number & (number - 1) or number >= 1 << SAMPLED_UNITS:
            return 0
        return min(SAMPLE_BYTES, int(text_bytes * SAMPLE_SHARE))
