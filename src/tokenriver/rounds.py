"""A run over samples that stay together, as arithmetic: which a rank serves in which micro-batch, and the state.

The rule is that of every run (docs/order.md), a sample in place of a row: step s takes the numbers from g_s on, rank r
of W those of its share, in as many micro-batches on every rank; what no sample fills is filler, -1.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tokenriver.ahead import in_turn
from tokenriver.course import LARGEST, STATE_VERSION, compare_plans, read_state, tag
from tokenriver.errors import InputError, LimitError
from tokenriver.sampler import Sampler, check_rank, share
from tokenriver.types import Int64

B = TypeVar("B")


def rows_per_sample(options: Mapping[str, Any]) -> int:
    """Documents that make one sample of a corpus, by its manifest's options: 2 in one of pairs, else 1."""
    number = options.get("rows_per_sample", 1)
    return number if isinstance(number, int) else 1


@dataclass(frozen=True, slots=True)
class Round:
    """One micro-batch of a rank."""

    step: int
    micro: int
    samples: Int64
    """(B,) which sample each place shows, -1 for filler, always the last places."""
    row_numbers: Int64
    """(B,) the number of each in the run, -1 for filler."""
    state: dict[str, Any]
    """The run's state after it: until the last micro-batch of a step it is the step's start."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How a run is cut, and how much of it is made ahead; micro_batch None: a rank's share of a step. epochs None:
    endless."""

    global_batch: int
    micro_batch: int | None = None
    rank: int = 0
    world_size: int = 1
    epochs: int | None = 1
    prefetch: int = 0

    def check(self) -> None:
        """InputError for a size that makes no sense."""
        check_rank(self.rank, self.world_size)
        for name in ("global_batch", "micro_batch", "epochs"):
            value = getattr(self, name)
            if value is None and name != "global_batch":
                continue
            _check(name, value, 1)
        _check("prefetch", self.prefetch, 0)

    @property
    def places(self) -> int:
        """Samples of a micro-batch."""
        largest = -(-self.global_batch // self.world_size)
        return largest if self.micro_batch is None else self.micro_batch

    @property
    def micros(self) -> int:
        """Micro-batches a step, equal on all ranks."""
        largest = -(-self.global_batch // self.world_size)
        return -(-largest // self.places)


@dataclass(frozen=True, slots=True)
class Leg:
    """The run of one rank from a place in it: pure arithmetic from step and micro-batch to samples."""

    sampler: Sampler
    sizes: Sizes
    plan: tuple[int, ...]
    row: int
    step: int
    """Where it begins."""
    end: int | None
    """First number that is no longer served; None without an end."""

    @property
    def num_steps(self) -> int | None:
        """The step at which the run ends; None for an endless one."""
        if self.end is None:
            return None
        return self.step + -(-(self.end - self.row) // self.sizes.global_batch)

    def row_of(self, step: int) -> int:
        """Numbers that are behind the run at the start of a step."""
        row = self.row + (step - self.step) * self.sizes.global_batch
        return row if self.end is None else min(row, self.end)

    def at(self, step: int, micro: int) -> Round:
        """Any micro-batch of the run; LimitError for one that is not of it."""
        sizes, last = self.sizes, self.num_steps
        if not self.step <= step or (last is not None and step >= last) or not 0 <= micro < sizes.micros:
            raise LimitError(
                f"step, micro: got {step}, {micro}, expected a step from {self.step}"
                f"{'' if last is None else f' to {last - 1}'} and a micro-batch from 0 to {sizes.micros - 1}"
            )
        begin, end = self.row_of(step), self.row_of(step + 1)
        first, stop = share(sizes.global_batch, sizes.rank, sizes.world_size)
        numbers = begin + first + micro * sizes.places + np.arange(sizes.places, dtype=np.int64)
        filled = numbers < min(begin + stop, end)
        samples = np.full(sizes.places, -1, np.int64)
        samples[filled] = self.sampler.locate(numbers[filled])[0]
        done = step + (micro == sizes.micros - 1)
        return Round(step, micro, samples, np.where(filled, numbers, -1), self.state(done))

    def serve(self, make: Callable[[Round], B], first: int, stride: int) -> Generator[B, None, None]:
        """Micro-batches first, first + stride, ... to the end."""
        last = self.num_steps
        while last is None or self.step + first // self.sizes.micros < last:
            step, micro = divmod(first, self.sizes.micros)
            yield make(self.at(self.step + step, micro))
            first += stride

    def state(self, step: int) -> dict[str, Any]:
        """The state at the start of a step."""
        return {
            "v": STATE_VERSION,
            "row": self.row_of(step),
            "step": step,
            "corpus": self.plan[0],
            "plan": list(self.plan[1:]),
        }


class Rounds:
    """The run of one rank: loops over its micro-batches, a state, and any of them at once. What becomes of a
    micro-batch is the caller's business (`make`)."""

    leg: Leg
    """The run from where the state stands."""
    _next: int
    """The micro-batch that comes next, counted from there."""
    _ended: bool
    """Has a loop reached the end?"""
    _turn: object
    """Whose turn it is: the last loop's."""

    def __init__(self, num_samples: int, names: Mapping[str, str], order: tuple[str, int], sizes: Sizes) -> None:
        """`names` are what a state must agree with: "corpus" (a fingerprint) and "packing" (what makes rows of
        samples); `order` is (name, seed). LimitError for fewer samples than a step takes."""
        sizes.check()
        if sizes.global_batch > num_samples:
            raise LimitError(
                f"global_batch: got {sizes.global_batch}, expected 1 to {num_samples}, the samples of one epoch (N); "
                "take fewer a step, or give more"
            )
        name, seed = order
        self._sampler = Sampler(num_samples, global_batch=sizes.global_batch, seed=seed, order=name)
        self.sizes = sizes
        self._names = (names["corpus"], name, names["packing"], "", str(seed))
        self._plan = (tag(names["corpus"], 8), *(tag(part, 4) for part in self._names[1:]))
        self._stand(0, 0)

    def loop(self, make: Callable[[Round], B]) -> Iterator[B]:
        """Micro-batches from where the run stands to its end; it stands behind each as it is given out. A run that a
        loop has ended serves its length once more."""
        if self._ended:
            step = self._at
            self._stand(self.leg.row_of(step), step, again=True)
        turn = self._turn = object()
        batches = self.leg.serve(make, self._next, 1)
        yield from in_turn(batches, self.sizes.prefetch, lambda: self._turn is turn, self._pass)
        self._ended = True

    def strided(
        self, make: Callable[[Round], B], first: int, stride: int, state: Mapping[str, Any] | None
    ) -> Iterator[B]:
        """Every stride-th micro-batch, beginning with the first-th, from a state (None: the run's own, the start of the
        unfinished step) to its end; the run does not move."""
        if state is not None:
            return self._leg_at(*self._read(state, ())).serve(make, first, stride)
        return self.leg.serve(make, (self._at - self.leg.step) * self.sizes.micros + first, stride)

    def state(self) -> dict[str, Any]:
        """The state of the last one given out."""
        return self.leg.state(self._at)

    def load(self, state: Mapping[str, Any], allow: Collection[str] = ()) -> None:
        """Stand where the state was taken, by a run of any sizes. MismatchError names what differs of corpus, order,
        packing and seed, unless `allow` has it, which is a warning then."""
        self._stand(*self._read(state, allow))

    @property
    def _at(self) -> int:
        """The step that is not finished."""
        return self.leg.step + self._next // self.sizes.micros

    def _pass(self, batch: object) -> None:
        self._next += 1

    def _read(self, state: Mapping[str, Any], allow: Collection[str]) -> tuple[int, int]:
        row, step, plan = read_state(state)
        compare_plans(plan, self._plan, self._names, allow, depth=4)
        return row, step

    def _stand(self, row: int, step: int, *, again: bool = False) -> None:
        self.leg = self._leg_at(row, step, again=again)
        self._next, self._ended, self._turn = 0, False, object()

    def _leg_at(self, row: int, step: int, *, again: bool = False) -> Leg:
        """The run from a place, which ends with the length that holds it. A place between two belongs to the first, so
        that a finished run stays finished, unless it is to go on `again`."""
        end = None
        if self.sizes.epochs is not None:
            length = self.sizes.epochs * self._sampler.num_rows
            end = length * max(1, -(-(row + again) // length))
        return Leg(self._sampler, self.sizes, self._plan, row, step, end)


def _check(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST:
        raise InputError(f"{name}: got {value!r}, expected an integer from {least}; give one")
