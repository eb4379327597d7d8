"""Several rivers as one, and their packings as one: what a loader reads of a mixture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tokenriver.extents import join
from tokenriver.lossmask import JoinedMask, Trained, mask_of
from tokenriver.mapped import Mapped, Raw
from tokenriver.ranges import distinct
from tokenriver.types import Int64, Packing, River


class JoinedRiver:
    """Rivers end to end; `fingerprint` is what determines them all."""

    def __init__(self, rivers: Sequence[River], fingerprint: str) -> None:
        self._rivers = tuple(rivers)
        sizes = np.array([river.num_tokens for river in rivers], np.int64)
        self._ends = np.cumsum(sizes)
        self._begins = self._ends - sizes
        self.num_tokens = int(self._ends[-1])
        counts = [river.num_documents for river in rivers]
        known = [count for count in counts if count is not None]
        self.num_documents = sum(known) if len(known) == len(counts) else None
        self._documents = np.cumsum([0, *known])
        self.fingerprint = fingerprint
        masked = any(mask_of(river) is not None for river in rivers)
        self.loss_mask: Trained | None = JoinedMask(rivers, self._ends) if masked else None

    def gather(self, starts: Int64, n: int, out: Int64) -> None:
        """Each source's windows by its own river."""
        which = np.searchsorted(self._ends, starts, "right")
        for source in distinct(which):
            here = np.flatnonzero(which == source)
            part = np.empty((len(here), n), np.int64)
            self._rivers[source].gather(starts[here] - self._begins[source], n, part)
            out[here] = part

    def cut(self, starts: Int64, sizes: Int64 | int) -> Raw | None:
        """What `Mapped.cut` gives."""
        mapped = self.mapped()
        return None if mapped is None else mapped.cut(starts, sizes)

    def mapped(self) -> Mapped | None:
        """Where the ids of all sources lie, if all of them know it and store them alike."""
        found = [look_up() if (look_up := getattr(river, "mapped", None)) else None for river in self._rivers]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found) or any(part.dtype != parts[0].dtype for part in parts):
            return None
        return Mapped(join([part.extents for part in parts]), parts[0].dtype)

    def take(self, starts: Int64, sizes: Int64, out: Int64) -> None:
        """Each source's runs by its own river; padding goes with the first."""
        which = np.where(starts < 0, 0, np.searchsorted(self._ends, starts, "right"))
        places = np.cumsum(sizes) - sizes
        flat = np.empty(out.size, np.int64)
        for source in distinct(which):
            here = np.flatnonzero(which == source)
            part = np.empty(int(sizes[here].sum()), np.int64)
            moved = np.where(starts[here] < 0, -1, starts[here] - self._begins[source])
            self._rivers[source].take(moved, sizes[here], part)
            inside = np.arange(len(part)) - np.repeat(np.cumsum(sizes[here]) - sizes[here], sizes[here])
            flat[np.repeat(places[here], sizes[here]) + inside] = part
        out[:] = flat.reshape(out.shape)

    def document_at(self, position: int) -> int:
        source = int(np.searchsorted(self._ends, position, "right"))
        return int(self._documents[source]) + self._rivers[source].document_at(position - int(self._begins[source]))

    def documents_at(self, positions: Int64) -> Int64:
        """Each source's by its own river."""
        which = np.searchsorted(self._ends, positions, "right")
        found = np.empty_like(positions)
        for source in distinct(which):
            here = np.flatnonzero(which == source)
            local = self._rivers[source].documents_at(positions[here] - self._begins[source])
            found[here] = local + self._documents[source]
        return found

    def ends_of(self, documents: Int64) -> Int64:
        """Each source's by its own river."""
        which = np.searchsorted(self._documents, documents, "right") - 1
        found = np.empty_like(documents)
        for source in distinct(which):
            here = np.flatnonzero(which == source)
            found[here] = self._rivers[source].ends_of(documents[here] - self._documents[source]) + self._begins[source]
        return found

    def doc_bounds(self, i: int) -> tuple[int, int]:
        source = int(np.searchsorted(self._documents, i, "right")) - 1
        start, stop = self._rivers[source].doc_bounds(i - int(self._documents[source]))
        return start + int(self._begins[source]), stop + int(self._begins[source])

    def doc_ends(self) -> Int64:
        return np.concatenate([r.doc_ends() + b for r, b in zip(self._rivers, self._begins.tolist(), strict=True)])


@dataclass(frozen=True, slots=True)
class JoinedPacking:
    """The packings of a mixture's sources as one: row i of source s is row bases[s] + i."""

    packings: tuple[Packing, ...]
    bases: Int64
    """(S + 1,): the first row of each source, and the number of all rows."""
    begins: Int64
    """(S,): where each source's river begins in the joined one."""

    @property
    def seq_len(self) -> int:
        return self.packings[0].seq_len

    @property
    def windows(self) -> bool:
        return self.packings[0].windows

    @property
    def chained(self) -> bool:
        return self.packings[0].chained

    @property
    def tag(self) -> str:
        return self.packings[0].tag

    @property
    def num_targets(self) -> int:
        return sum(packing.num_targets for packing in self.packings)

    @property
    def balance(self) -> Mapping[str, int]:
        """Sums over the sources, each served once."""
        names = dict.fromkeys(name for packing in self.packings for name in packing.balance)
        return {name: sum(packing.balance.get(name, 0) for packing in self.packings) for name in names}

    def __len__(self) -> int:
        return int(self.bases[-1])

    def starts(self, rows: Int64, epochs: Int64) -> Int64:
        out = np.empty(len(rows), np.int64)
        for source, here in self._by_source(rows):
            local = rows[here] - self.bases[source]
            out[here] = self.packings[source].starts(local, epochs[here]) + self.begins[source]
        return out

    def spans(self, rows: Int64, epoch: int) -> tuple[Int64, Int64, Int64]:
        found = []
        for source, here in self._by_source(rows):
            which, starts, stops = self.packings[source].spans(rows[here] - self.bases[source], epoch)
            found.append((here[which], starts + self.begins[source], stops + self.begins[source]))
        which, starts, stops = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(which, kind="stable")
        return which[order], starts[order], stops[order]

    def _by_source(self, rows: Int64) -> list[tuple[int, Int64]]:
        sources = np.searchsorted(self.bases, rows, "right") - 1
        return [(source, np.flatnonzero(sources == source)) for source in distinct(sources)]
