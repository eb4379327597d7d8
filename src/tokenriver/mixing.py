"""Mixtures of named corpora: weights become row quotas, each source keeps its own epochs and its own order.

    Mixture({"web": (corpus, 0.7), "code": (corpus2, 0.3)}, unit="tokens", exhausted="repeat")

A source's order depends on seed and name alone, so adding a source leaves the others' order alone, and the order of
the list does not matter. To a loader a mixture is one river, the sources' rivers end to end in the order of their
names, with one packing and one sampler; only here is it known where one source ends and the next begins.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tokenriver.errors import InputError, LimitError, MismatchError
from tokenriver.joining import JoinedPacking, JoinedRiver
from tokenriver.quotas import Quotas, make_quotas
from tokenriver.ranges import distinct
from tokenriver.sampler import Sampler
from tokenriver.types import Int64, Packing, River

UNITS = ("tokens", "rows", "documents")
EXHAUSTED = ("repeat", "stop", "renormalise")
Weights = Mapping[str, float]


class Mixture:
    """Named corpora and their weights. `unit`: what the weights are shares of (tokens with loss, rows, documents);
    `exhausted`: a source that has been served once is repeated, ends the run, or leaves its share to the others.
    `curriculum` has other weights from some rows of the run on: [(row, {name: weight, ...}), ...]."""

    def __init__(
        self,
        sources: Mapping[str, tuple[River, float]],
        *,
        unit: str = "tokens",
        exhausted: str = "repeat",
        curriculum: Sequence[tuple[int, Weights]] = (),
    ) -> None:
        if not sources:
            raise InputError("mixture: got no source, expected some")
        _one_of("unit", unit, UNITS)
        _one_of("exhausted", exhausted, EXHAUSTED)
        self.names = tuple(sorted(sources))
        self.rivers = tuple(sources[name][0] for name in self.names)
        self.unit, self.exhausted = unit, exhausted
        self.stages = _stages({name: sources[name][1] for name in self.names}, curriculum, exhausted)
        _check_tokenizers(self.names, self.rivers)

    @property
    def fingerprint(self) -> str:
        """Hex digest of what determines the ids: names and fingerprints of the sources."""
        text = "\n".join(f"{name}\0{river.fingerprint}" for name, river in zip(self.names, self.rivers, strict=True))
        return hashlib.sha256(b"tokenriver mixture 1\n" + text.encode()).hexdigest()

    @property
    def tag(self) -> str:
        """Everything that determines which source comes when, as a short text."""
        stages = [f"{row}:" + ",".join(f"{n}={float(w)!r}" for n, w in weights.items()) for row, weights in self.stages]
        return f"mixture {self.unit} {self.exhausted} " + " ".join(stages)


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{name}: got {value!r}, expected one of {', '.join(known)}")


def _stages(
    weights: Weights, curriculum: Sequence[tuple[int, Weights]], exhausted: str
) -> tuple[tuple[int, dict[str, Fraction]], ...]:
    """(first row, weights by name) of each stage, weights as exact numbers."""
    if curriculum and exhausted != "repeat":
        raise InputError(f"curriculum: got one with exhausted {exhausted!r}, expected 'repeat'; leave one of them out")
    stages: list[tuple[int, dict[str, Fraction]]] = []
    for row, given in [(0, weights), *curriculum]:
        if stages and row <= stages[-1][0]:
            raise InputError(f"curriculum: row: got {row}, expected more than {stages[-1][0]}, where the last begins")
        if set(given) != set(weights):
            raise InputError(f"curriculum: got weights of {sorted(given)}, expected each of {sorted(weights)}")
        for name, weight in given.items():
            if not (isinstance(weight, int | float) and 0 < weight < float("inf")):
                raise InputError(f"mixture: weight of {name!r}: got {weight!r}, expected a number above 0")
        stages.append((int(row), {name: Fraction(given[name]) for name in sorted(given)}))
    return tuple(stages)


def _check_tokenizers(names: Sequence[str], rivers: Sequence[River]) -> None:
    known: dict[str, str] = {}
    for name, river in zip(names, rivers, strict=True):
        made_by = getattr(river, "tokenizer_fingerprint", None)
        if isinstance(made_by, str):
            known.setdefault(made_by, name)
    if len(known) > 1:
        first, other = list(known.values())[:2]
        raise MismatchError(f"mixture: got {first!r} and {other!r} with different tokenizers, expected one for all")


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of the run with one set of quotas."""

    first: int
    quotas: Quotas
    active: Int64
    """Sources that the quotas are of."""
    before: Int64
    """(S,) rows of each source before this stage."""


class MixedSampler:
    """Row number -> (row of the joined packing, epoch of its source)."""

    def __init__(self, samplers: Sequence[Sampler], stages: Sequence[Stage], num_rows: int, global_batch: int) -> None:
        self._samplers, self._stages = tuple(samplers), tuple(stages)
        self._firsts = np.array([stage.first for stage in stages], np.int64)
        self._bases = np.cumsum([0, *(sampler.num_rows for sampler in samplers)])
        self.num_rows, self.global_batch = num_rows, global_batch
        self.order, self.seed = samplers[0].order, samplers[0].seed

    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(rows, epochs) of row numbers, each (k,) int64."""
        turns, inside = np.divmod(numbers, self.num_rows) if self.num_rows else (np.zeros_like(numbers), numbers)
        sources, places = self.places(inside)
        rows, epochs = np.empty_like(numbers), np.empty_like(numbers)
        for source in distinct(sources):
            here = np.flatnonzero(sources == source)
            sampler = self._samplers[source]
            found = sampler.locate(places[here] + turns[here] * sampler.num_rows)
            rows[here], epochs[here] = found[0] + self._bases[source], found[1]
        return rows, epochs

    def places(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(source, how many of its rows came before) of row numbers inside one turn."""
        which = np.searchsorted(self._firsts, numbers, "right") - 1
        sources, places = np.empty_like(numbers), np.empty_like(numbers)
        for number in distinct(which):
            here, stage = np.flatnonzero(which == number), self._stages[number]
            local, row = stage.quotas.locate(numbers[here] - stage.first)
            sources[here] = stage.active[local]
            places[here] = row + stage.before[sources[here]]
        return sources, places

    def numbers(self, rows: Int64, epochs: Int64) -> Int64:
        """The row numbers, (k,) int64, at which rows come in epochs of their source: `locate` the other way round.
        -1 for a row that a turn ends without."""
        numbers = np.full(len(rows), -1, np.int64)
        sources = np.searchsorted(self._bases, rows, "right") - 1
        for source in distinct(sources):
            here = np.flatnonzero(sources == source)
            sampler = self._samplers[source]
            places = sampler.numbers(rows[here] - self._bases[source], epochs[here])
            if not self.num_rows:
                numbers[here] = self._number(source, places)
                continue
            turns, inside = np.divmod(places, sampler.num_rows)
            found = self._number(source, inside)
            numbers[here] = np.where(found < self.num_rows, found + turns * self.num_rows, -1)
        return numbers

    def _number(self, source: int, places: Int64) -> Int64:
        """Row numbers inside a turn of a source's rows, counted in its own order."""
        before = np.array([stage.before[source] for stage in self._stages], np.int64)
        which = np.searchsorted(before, places, "right") - 1
        numbers = np.empty_like(places)
        for number in distinct(which):
            here, stage = np.flatnonzero(which == number), self._stages[number]
            local = int(np.flatnonzero(stage.active == source)[0])
            numbers[here] = stage.quotas.numbers(local, places[here] - before[number]) + stage.first
        return numbers

    def epochs(self, source: int, first: int, end: int) -> range:
        """The epochs of a source that have row numbers in [first, end), or stand next to one that has."""
        if self.num_rows:
            return range(first // self.num_rows, -(-end // self.num_rows))
        size = self._samplers[source].num_rows
        return range(int(self.served(first)[source]) // size, -(-int(self.served(end)[source]) // size))

    def served(self, number: int) -> Int64:
        """(S,) rows of each source among the first `number` rows."""
        stage = self._stages[int(np.searchsorted(self._firsts, number, "right")) - 1]
        counts = stage.before.copy()
        counts[stage.active] += stage.quotas.served(number - stage.first)
        return counts


def mixed(
    mixture: Mixture, packings: tuple[Packing, ...], order: tuple[str, int, int]
) -> tuple[JoinedRiver, JoinedPacking, MixedSampler]:
    """A mixture as one river, packing and sampler; `order` is (order, seed, global_batch)."""
    name, seed, global_batch = order
    stages, num_rows = make_stages(mixture, packings)
    if num_rows and global_batch > num_rows:
        raise LimitError(f"global_batch: got {global_batch}, expected 1 to {num_rows}, the rows of one epoch (N)")
    samplers = [
        Sampler(len(packing), global_batch=1, seed=seed, order=name, source=source)
        for packing, source in zip(packings, mixture.names, strict=True)
    ]
    sizes = np.array([river.num_tokens for river in mixture.rivers], np.int64)
    bases = np.cumsum([0, *map(len, packings)])
    joined = JoinedPacking(packings, bases, np.cumsum(sizes) - sizes)
    return (
        JoinedRiver(mixture.rivers, mixture.fingerprint),
        joined,
        MixedSampler(samplers, stages, num_rows, global_batch),
    )


def make_stages(mixture: Mixture, packings: Sequence[Packing]) -> tuple[list[Stage], int]:
    """(stages, rows of one turn; 0 for a run without an end)."""
    sizes = [_rows_for(mixture.unit, packing, river) for packing, river in zip(packings, mixture.rivers, strict=True)]
    lengths = np.array([len(packing) for packing in packings], np.int64)
    stages: list[Stage] = []
    for row, weights in mixture.stages:
        rows = [weights[name] * size for name, size in zip(mixture.names, sizes, strict=True)]
        _append(stages, row, make_quotas(rows, mixture.names), np.arange(len(sizes)))
    if mixture.exhausted == "repeat":
        return stages, 0
    rows = [mixture.stages[0][1][name] * size for name, size in zip(mixture.names, sizes, strict=True)]
    while True:
        stage = stages[-1]
        left = (lengths - stage.before)[stage.active]
        ends = [stage.quotas.number(local, count - 1) + 1 for local, count in enumerate(left.tolist())]
        end = stage.first + min(ends)
        served = stage.before.copy()
        served[stage.active] += stage.quotas.served(min(ends))
        active = stage.active[served[stage.active] < lengths[stage.active]]
        if mixture.exhausted == "stop" or not len(active):
            return stages, end
        names = [mixture.names[source] for source in active]
        _append(stages, end, make_quotas([rows[source] for source in active], names), active)


def _append(stages: list[Stage], first: int, quotas: Quotas, active: Int64) -> None:
    before = np.zeros(len(active), np.int64)
    if stages:
        last = stages[-1]
        before = last.before.copy()
        before[last.active] += last.quotas.served(first - last.first)
    stages.append(Stage(first, quotas, active, before))


def _rows_for(unit: str, packing: Packing, river: River) -> Fraction:
    """How many rows a unit of weight is of this source."""
    if unit == "rows":
        return Fraction(1)
    if unit == "tokens":
        return Fraction(len(packing), packing.num_targets)
    if not river.num_documents:
        raise LimitError("unit: got 'documents' for a source without document bounds; take 'tokens' or 'rows'")
    return Fraction(len(packing), river.num_documents)
