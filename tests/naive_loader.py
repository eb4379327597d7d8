"""Everything that decides the rows of a run in one loader of Python lists: corpora, packing, mixture, lengths, order.

It joins the other naive references, one row at a time: naive_packing has the rows of a corpus, naive_mixing the source
of each row, naive_order the row that comes next, naive_schedule the rows of runs whose seq_len changes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import islice

import naive_mixing
import naive_order
import naive_packing
from naive_schedule import parts_of

IGNORE = -100
Pairs = Sequence[tuple[int, int]]
"""(river position of an input, that of its target or -1) of each filled cell of a row."""


@dataclass(frozen=True)
class Packing:
    """A packing by name, with the options that it was asked for."""

    name: str
    overflow: str = "split"
    phase_shift: bool = False
    own: tuple[tuple[str, int], ...] = ()
    """Options that only this packing has; for sliding its stride."""

    def rows(self, lengths: tuple[int, ...], seq_len: int) -> list[Pairs]:
        """Every row of a corpus, documents being of these lengths."""
        return _rows(self, lengths, seq_len)

    def balance(self, lengths: tuple[int, ...], seq_len: int) -> dict[str, int]:
        """Ids of an epoch by fate."""
        shown = {at for row in self.rows(lengths, seq_len) for pair in row for at in pair if at >= 0}
        found = {"river": sum(lengths), "served": len(shown)}
        if self.name in ("concat", "sliding"):
            return {**found, "unused": sum(lengths) - len(shown)}
        parts = [(length, sum(at in shown for at in range(end - length, end))) for length, end in _ends(lengths)]
        cut = sum(length - seen for length, seen in parts if seen)
        if self.name == "bos_aligned":
            return {**found, "cut": cut, "unused": sum(length for length, seen in parts if not seen)}
        found["too_short"] = lengths.count(1)
        if self.name == "minimind":
            return {**found, "cut": cut}
        return {**found, "cut": cut, "dropped": sum(length for length, seen in parts if not seen and length > 1)}


@lru_cache(maxsize=1 << 10)
def _rows(packing: Packing, lengths: tuple[int, ...], seq_len: int) -> list[Pairs]:
    own = dict(packing.own)
    if packing.name == "minimind":
        return [_chain(ids, seq_len) for ids in naive_packing.minimind(lengths, seq_len)]
    if packing.name == "bos_aligned":
        fetch = own.get("fetch_documents", 128)
        lots = [range(at, min(at + fetch, len(lengths))) for at in range(0, len(lengths), fetch)]
        rows = naive_packing.bos_aligned(lengths, seq_len, own.get("buffer_documents", 1000), lots)
        return [_chain(ids, seq_len) for ids in rows]
    if "block_documents" in own:
        spans = naive_packing.in_blocks(lengths, seq_len, packing.overflow, own["block_documents"])
    else:
        spans = naive_packing.rows_of(packing.name, lengths, seq_len, packing.overflow, own.get("stride"))
    return [[(at, at + 1) for start, stop in row for at in range(start, stop - 1)] for row in spans]


def _chain(ids: Sequence[int], seq_len: int) -> Pairs:
    return list(zip(ids, [*ids[1:], -1], strict=True))[:seq_len]


def _ends(lengths: Sequence[int]) -> list[tuple[int, int]]:
    return [(length, sum(lengths[: number + 1])) for number, length in enumerate(lengths)]


@dataclass(frozen=True)
class Text:
    """A corpus: documents of so many ids, which count up from the first one."""

    lengths: tuple[int, ...]
    first_id: int


@dataclass(frozen=True)
class Mixed:
    """How sources are mixed: weights from some row numbers on, in the order of the sources' names."""

    stages: tuple[tuple[int, tuple[float, ...]], ...]
    unit: str
    exhausted: str
    period: int


@dataclass(frozen=True)
class Shown:
    """A row of the run."""

    source: int
    sample: int
    """Which of the rows of its source, at its own length."""
    inputs: list[int]
    targets: list[int]


@dataclass
class Run:
    """What decides which rows come, one after another. Without `mixed` there is one source, named ""."""

    sources: dict[str, Text]
    packing: Packing
    order: str
    seed: int
    mixed: Mixed | None = None
    lengths: list[tuple[int, int]] = field(default_factory=list)
    """(row number, seq_len) of each stretch of the run."""
    # what was worked out before
    _sizes: dict[int, dict[str, int]] = field(default_factory=dict, repr=False)
    _ends: dict[int, int] = field(default_factory=dict, repr=False)
    _rows: list[tuple[int, int, int]] = field(default_factory=list, repr=False)
    _shown: dict[int, Shown] = field(default_factory=dict, repr=False)
    _turns: dict[int, list[tuple[str, int]]] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> list[str]:
        return sorted(self.sources)

    @property
    def longest(self) -> int:
        return max(seq_len for _, seq_len in self.lengths)

    @property
    def cuts(self) -> bool:
        """Are rows of all lengths cut from those of the longest?"""
        return self.packing.name == "concat"

    @property
    def repeats(self) -> bool:
        """Has the run no epochs, since each source has its own?"""
        return self.mixed is not None and self.mixed.exhausted == "repeat"

    def sizes(self, seq_len: int) -> dict[str, int]:
        """Rows of each source."""
        if seq_len not in self._sizes:
            rows = {name: self.packing.rows(self.sources[name].lengths, seq_len) for name in self.names}
            self._sizes[seq_len] = {name: len(rows[name]) for name in rows}
        return self._sizes[seq_len]

    def epoch(self, seq_len: int) -> int:
        """Rows of an epoch of this length; where sources are repeated, all their rows."""
        if self.mixed is None or self.repeats:
            return sum(self.sizes(seq_len).values())
        return len(self._turn(seq_len, 0))

    def balance(self, seq_len: int) -> dict[str, int]:
        """Ids of an epoch by fate, over all sources."""
        total: Counter[str] = Counter()
        for text in self.sources.values():
            total.update(self.packing.balance(text.lengths, self.longest if self.cuts else seq_len))
        return dict(total)

    @property
    def impossible(self) -> list[int]:
        """Lengths at which a source has no row, or none in the mixture."""
        return [seq_len for seq_len in sorted(self._laid) if not self._has_rows(seq_len)]

    def _has_rows(self, seq_len: int) -> bool:
        try:
            return all(self.sizes(seq_len).values()) and (self.mixed is None or len(self._turn(seq_len, 1)) > 0)
        except naive_mixing.NoRowError:
            return False

    @property
    def _laid(self) -> set[int]:
        """Lengths for which rows are laid out."""
        return {self.longest} if self.cuts else {seq_len for _, seq_len in self.lengths}

    @property
    def once(self) -> bool:
        """Is every target of an epoch one that no other row of it has?"""
        if self.repeats or self.packing.name == "sliding" or self.packing.phase_shift:
            return False
        return not (self.mixed and self.mixed.exhausted == "stop") and len(self._laid) == 1

    @property
    def num_targets(self) -> int:
        """Positions with loss of all sources' rows."""
        texts = [self.packing.rows(text.lengths, self.longest) for text in self.sources.values()]
        return sum(after >= 0 for rows in texts for row in rows for _, after in row)

    def end(self, epochs: int) -> int:
        """The row number at which so many epochs end."""
        if epochs not in self._ends:
            self._ends[epochs] = len(self.rows(epochs))
        return self._ends[epochs]

    def row(self, number: int) -> Shown:
        """What a row of the run shows."""
        epochs = 1
        while number >= len(self._rows):
            self._rows = self.rows(epochs)
            epochs *= 2
        if number not in self._shown:
            self._shown[number] = self.shown(*self._rows[number])
        return self._shown[number]

    def rows(self, epochs: int) -> list[tuple[int, int, int]]:
        """(place in an order of rows of one length, part of it, seq_len) of every row of so many epochs."""
        if self.cuts or len(self.lengths) == 1:
            seed = self.seed if self.order == "shuffled" else None
            return parts_of(self.lengths, self.epoch(self.longest), epochs, seed)
        found: list[tuple[int, int, int]] = []
        stops = [row for row, _ in self.lengths[1:]]
        done = 0
        for (first, seq_len), stop in zip(self.lengths, [*stops, None], strict=True):
            size = self.epoch(seq_len)
            until = epochs if stop is None else min(epochs, done + (stop - first) // size)
            found += [(place, 0, seq_len) for place in range(done * size, until * size)]
            done = max(done, until)
        return found

    def shown(self, place: int, part: int, seq_len: int) -> Shown:
        """The row at a place of `rows`."""
        whole = self.longest if self.cuts else seq_len
        name, at = self._located(place, whole)
        text, size = self.sources[name], self.sizes(whole)[name]
        sample = naive_order.row(at, size, self.seed, name) if self.order == "shuffled" else at % size
        moved = text.first_id
        if self.packing.phase_shift:
            moved += naive_packing.shift(sum(text.lengths), whole, self.seed, at // size)
        pairs = self.packing.rows(text.lengths, whole)[sample][part * seq_len : (part + 1) * seq_len]
        padding = seq_len - len(pairs)
        inputs = [moved + at for at, _ in pairs] + [0] * padding
        targets = [moved + after if after >= 0 else IGNORE for _, after in pairs] + [IGNORE] * padding
        return Shown(self.names.index(name), sample * (whole // seq_len) + part, inputs, targets)

    def _located(self, place: int, seq_len: int) -> tuple[str, int]:
        """(source, how many of its rows came before) of a place of the run."""
        if self.mixed is None:
            return "", place
        if self.repeats:
            return self._turn(seq_len, place + 1)[place]
        turn, inside = divmod(place, self.epoch(seq_len))
        name, row = self._turn(seq_len, 0)[inside]
        return name, row + turn * self.sizes(seq_len)[name]

    def _turn(self, seq_len: int, least: int) -> list[tuple[str, int]]:
        """(source, how many of its rows came before) of the places of a turn, or of `least` places at least."""
        known = self._turns.get(seq_len, [])
        if not known or len(known) < least:
            rows: Counter[str] = Counter()
            known = []
            for name in self._sources(seq_len, 2 * least):
                known.append((name, rows[name]))
                rows[name] += 1
            self._turns[seq_len] = known
        return known

    def _sources(self, seq_len: int, count: int) -> list[str]:
        """The source of each place of a turn, or of the first `count` places."""
        assert self.mixed is not None, "asked only of mixtures"
        mixed = self.mixed
        stages = [(row, self._shares(weights, seq_len)) for row, weights in mixed.stages]
        if self.repeats:
            return list(islice(naive_mixing.endless(stages, mixed.period), count))
        return naive_mixing.turn(stages[0][1], self.sizes(seq_len), mixed.exhausted, mixed.period)

    def _shares(self, weights: Sequence[float], seq_len: int) -> Mapping[str, Fraction]:
        """Shares of the rows for weights of ids, documents or rows."""
        assert self.mixed is not None, "asked only of mixtures"
        found = {}
        for name, weight in zip(self.names, weights, strict=True):
            lengths = self.sources[name].lengths
            rows = self.packing.rows(lengths, seq_len)
            targets = sum(after >= 0 for row in rows for _, after in row)
            units = {"rows": len(rows), "tokens": targets, "documents": len(lengths)}[self.mixed.unit]
            found[name] = Fraction(weight) * Fraction(len(rows), units)
        return found
