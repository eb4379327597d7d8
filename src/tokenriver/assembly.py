"""What goes where: from the receipts of all units, in plan order, to the splits and shards of the corpus.

Everything that depends on more than one unit is decided here and nowhere else: `max_tokens`, the validation split,
where shards end, and how many raw rows lie before each unit. A corpus therefore depends on inputs and options alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from tokenriver.parts import Documents, Receipt, read_documents
from tokenriver.types import Bools, Int64


@dataclass(frozen=True, slots=True)
class Cuts:
    """The options that assembly decides by."""

    max_tokens: int | None
    val_tokens: int | None
    val_fraction: float
    shard_tokens: int
    exact: bool
    """Cut validation and shards at the id (llm.c) instead of at the next document's end."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of whole documents (or, cut at the id, of ids) of one unit: what is copied in one piece."""

    unit: int
    """Index into the receipts."""
    first: int
    last: int
    """Documents [first, last) of the unit."""
    start: int
    stop: int
    """Ids [start, stop) of the unit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where every kept id goes, and what was left out."""

    splits: dict[str, list[list[Segment]]]
    """By split: its shards, each a list of segments."""
    used: int
    """Units [0, used) were needed."""
    dropped: tuple[int, int]
    """(documents, ids) of the used units beyond max_tokens."""
    cut_documents: int
    """Documents that lie in two shards or splits, because the cut is at the id."""


class Parts:
    """The finished parts of a build; document columns are read when needed and the last ones kept."""

    def __init__(self, folder: Path, receipts: list[Receipt], item_bytes: int) -> None:
        self.folder = folder
        self.receipts = receipts
        self.item_bytes = item_bytes
        self._last: tuple[int, Documents] | None = None

    def documents(self, unit: int) -> Documents:
        if self._last is None or self._last[0] != unit:
            self._last = (unit, read_documents(self.folder, self.receipts[unit], self.item_bytes))
        return self._last[1]


def assemble(parts: Parts, cuts: Cuts) -> Plan:
    """Decide everything; a split without documents is absent."""
    everything = [
        Segment(unit, 0, receipt.num_documents, 0, receipt.num_ids)
        for unit, receipt in enumerate(parts.receipts)
        if receipt.num_documents
    ]
    kept, dropped = everything, (0, 0)
    if cuts.max_tokens is not None:
        (kept, _), _ = divide(parts, everything, [cuts.max_tokens], "down")
        dropped = _beyond(parts, kept)
    sides, cut = _sides(parts, kept, cuts)
    splits = {}
    for name, segments in sides.items():
        shards, more = _shards(parts, segments, cuts)
        cut += more
        if shards:
            splits[name] = shards
    used = len(parts.receipts) if cuts.max_tokens is None else _used(parts, cuts.max_tokens)
    return Plan(splits, used, dropped, cut)


def stays(plan: Plan, documents: Sequence[int]) -> Iterator[Bools]:
    """Of each unit, by its number of documents: which of them are in the corpus, (k,) bool."""
    runs: dict[int, list[Segment]] = {}
    for segment in chain.from_iterable(chain.from_iterable(plan.splits.values())):
        runs.setdefault(segment.unit, []).append(segment)
    for unit, count in enumerate(documents):
        found = np.zeros(count, np.bool_)
        for segment in runs.get(unit, ()):
            found[segment.first : segment.last] = True
        yield found


def ids_of(segments: Iterable[Segment]) -> int:
    return sum(segment.stop - segment.start for segment in segments)


def enough(receipts: Iterable[Receipt], max_tokens: int) -> bool:
    """Do these leading units already hold every document that max_tokens lets in?"""
    return sum(receipt.num_ids for receipt in receipts) > max_tokens


def _used(parts: Parts, max_tokens: int) -> int:
    """Units that were needed to know where max_tokens falls: up to the first that passes it."""
    total = 0
    for unit, receipt in enumerate(parts.receipts):
        total += receipt.num_ids
        if total > max_tokens:
            return unit + 1
    return len(parts.receipts)


def _beyond(parts: Parts, kept: list[Segment]) -> tuple[int, int]:
    """(documents, ids) of the unit in which max_tokens falls that lie beyond it."""
    total = sum(receipt.num_ids for receipt in parts.receipts)
    have, seen, documents = ids_of(kept), 0, 0
    if have == total:
        return 0, 0
    for receipt in parts.receipts:
        seen += receipt.num_ids
        documents += receipt.num_documents
        if seen > have:
            break
    return documents - sum(segment.last - segment.first for segment in kept), seen - have


def _sides(parts: Parts, kept: list[Segment], cuts: Cuts) -> tuple[dict[str, list[Segment]], int]:
    if cuts.val_fraction:
        return {"train": _by_hash(parts, kept, False), "val": _by_hash(parts, kept, True)}, 0
    if cuts.val_tokens:
        (val, train), cut = divide(parts, kept, [cuts.val_tokens], "exact" if cuts.exact else "up")
        return {"train": train, "val": val}, cut
    return {"train": kept}, 0


def _by_hash(parts: Parts, segments: list[Segment], held_out: bool) -> list[Segment]:
    """The runs of documents whose text hashes to this side."""
    out = []
    for segment in segments:
        documents = parts.documents(segment.unit)
        wanted = documents.held_out[segment.first : segment.last] == held_out
        edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False)) + segment.first
        ends = np.concatenate([[0], documents.ends])
        for first, last in edges.reshape(-1, 2).tolist():
            out.append(Segment(segment.unit, first, last, int(ends[first]), int(ends[last])))
    return out


def _shards(parts: Parts, segments: list[Segment], cuts: Cuts) -> tuple[list[list[Segment]], int]:
    """Shards of about shard_tokens of whole documents, or of exactly shard_tokens cut at the id."""
    total = ids_of(segments)
    if cuts.exact:
        targets = list(range(cuts.shard_tokens, total, cuts.shard_tokens))
    else:
        targets = shard_targets(total, cuts.shard_tokens)
    shards, cut = divide(parts, segments, targets, "exact" if cuts.exact else "up")
    return [shard for shard in shards if shard], cut


def shard_targets(total: int, shard_tokens: int) -> list[int]:
    """Where shards of whole documents end, in ids: at the multiples of shard_tokens; a remainder of less than half of
    it would be a small last shard, so the last two then share evenly."""
    targets = [target for target in range(shard_tokens, total, shard_tokens) if is_final(target, shard_tokens, total)]
    rest = total - len(targets) * shard_tokens
    return [*targets, total - rest // 2] if rest > shard_tokens else targets


def is_final(target: int, shard_tokens: int, seen: int) -> bool:
    """Does a shard surely end at this multiple of shard_tokens, when so many ids were seen, whatever follows?"""
    return 2 * (seen - target) >= shard_tokens


def divide(parts: Parts, segments: list[Segment], targets: list[int], how: str) -> tuple[list[list[Segment]], int]:
    """Cut a list of segments at len(targets) running totals of ids: at the id itself ("exact"), at the first document
    end at or after it ("up"), or at the last one at or before it ("down"). Also: the documents cut in two."""
    out: list[list[Segment]] = [[]]
    left = list(targets)
    position = cut = 0
    for segment in segments:
        rest: Segment | None = segment
        while rest is not None:
            while left and left[0] <= position:
                left.pop(0)
                out.append([])
            size = rest.stop - rest.start
            if not left or left[0] > position + size:
                out[-1].append(rest)
                position += size
                break
            head, rest, halved = cut_segment(parts.documents(rest.unit).ends, rest, left.pop(0) - position, how)
            cut += halved
            if head is not None:
                out[-1].append(head)
                position += head.stop - head.start
            out.append([])
    out.extend([] for _ in range(len(targets) + 1 - len(out)))
    return out, cut


def cut_segment(ends: Int64, segment: Segment, ids: int, how: str) -> tuple[Segment | None, Segment | None, int]:
    """A segment cut after about `ids` of its ids (at least one, at most all)."""
    at = segment.start + ids
    inside = ends[segment.first : segment.last]
    last = segment.first + int(np.searchsorted(inside, at, "right" if how == "down" else "left"))
    if how == "up":
        last += 1
    if how != "exact":
        at = int(ends[last - 1]) if last > segment.first else segment.start
        first, halved = last, 0
    else:
        first, last, halved = (last + 1, last + 1, 0) if int(ends[last]) == at else (last, last + 1, 1)
    head = replace(segment, last=last, stop=at) if at > segment.start else None
    tail = replace(segment, first=first, start=at) if at < segment.stop else None
    return head, tail, halved


def rows_before(receipts: Iterable[Receipt]) -> Iterator[Int64]:
    """For each unit in plan order: the raw rows of each of its pieces' sources that lie before it, (pieces,)."""
    seen: dict[int, int] = {}
    for receipt in receipts:
        yield np.array([seen.get(piece.source, 0) for piece in receipt.pieces], np.int64)
        for piece in receipt.pieces:
            seen[piece.source] = seen.get(piece.source, 0) + piece.rows
