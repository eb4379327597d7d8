"""A run over samples that stay together, as arithmetic: which a rank serves in which micro-batch, and the state.

The rule is that of every run (docs/order.md), a sample in place of a row: step s takes the numbers from g_s on, rank r
of W those of its share, in as many micro-batches on every rank; what no sample fills is filler, -1.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenriver.course import LARGEST, STATE_VERSION, compare_plans, read_state, tag
from tokenriver.errors import InputError, LimitError
from tokenriver.sampler import Sampler, check_rank, share
from tokenriver.types import Int64


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
    """How a run is cut; micro_batch None: a rank's share of a step. epochs None: endless."""

    global_batch: int
    micro_batch: int | None = None
    rank: int = 0
    world_size: int = 1
    epochs: int | None = 1

    def check(self) -> None:
        """InputError for a size that makes no sense."""
        check_rank(self.rank, self.world_size)
        for name in ("global_batch", "micro_batch", "epochs"):
            value = getattr(self, name)
            if value is None and name != "global_batch":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
                raise InputError(f"{name}: got {value!r}, expected an integer from 1; give one")

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


class Rounds:
    """The run of one rank: micro-batch after micro-batch, a state, and any of them at once."""

    _row: int
    _step: int
    """Where the last state stands."""
    _at: int
    _micro: int
    """The step and micro-batch that come next."""
    _end: int | None
    _ended: bool
    """Has a loop reached the end?"""

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
        self.sampler = Sampler(num_samples, global_batch=sizes.global_batch, seed=seed, order=name)
        self.sizes = sizes
        self._names = (names["corpus"], name, names["packing"], "", str(seed))
        self._plan = (tag(names["corpus"], 8), *(tag(part, 4) for part in self._names[1:]))
        self._stand(0, 0)

    @property
    def num_steps(self) -> int | None:
        """The step at which this run ends; None for an endless one."""
        if self._end is None:
            return None
        return self._step + -(-(self._end - self._row) // self.sizes.global_batch)

    def at(self, step: int, micro: int) -> Round:
        """Any micro-batch of the run from the last state on."""
        sizes, last = self.sizes, self.num_steps
        if not self._step <= step or (last is not None and step >= last) or not 0 <= micro < sizes.micros:
            raise LimitError(
                f"step, micro: got {step}, {micro}, expected a step from {self._step}"
                f"{'' if last is None else f' to {last - 1}'} and a micro-batch from 0 to {sizes.micros - 1}"
            )
        begin, end = self._row_of(step), self._row_of(step + 1)
        first, stop = share(sizes.global_batch, sizes.rank, sizes.world_size)
        numbers = begin + first + micro * sizes.places + np.arange(sizes.places, dtype=np.int64)
        filled = numbers < min(begin + stop, end)
        samples = np.full(sizes.places, -1, np.int64)
        samples[filled] = self.sampler.locate(numbers[filled])[0]
        done = step + (micro == sizes.micros - 1)
        return Round(step, micro, samples, np.where(filled, numbers, -1), self._state(done))

    def __iter__(self) -> Iterator[Round]:
        """Micro-batches from where the run stands to its end; it stands behind each as it is given out. A run that a
        loop has ended serves its length once more."""
        if self._ended:
            self._stand(self._row_of(self._at), self._at, again=True)
        while self.num_steps is None or self._at < self.num_steps:
            place = self.at(self._at, self._micro)
            self._micro += 1
            if self._micro == self.sizes.micros:
                self._at, self._micro = self._at + 1, 0
            yield place
        self._ended = True

    def state(self) -> dict[str, Any]:
        """The state of the last one given out."""
        return self._state(self._at)

    def load(self, state: Mapping[str, Any], allow: Collection[str] = ()) -> None:
        """Stand where the state was taken, by a run of any sizes. MismatchError names what differs of corpus, order,
        packing and seed, unless `allow` has it, which is a warning then."""
        row, step, plan = read_state(state)
        compare_plans(plan, self._plan, self._names, allow, depth=3)
        self._stand(row, step)

    def _stand(self, row: int, step: int, *, again: bool = False) -> None:
        """Stand at a place; the run ends with the length that holds it. A place between two belongs to the first, so
        that a finished run stays finished, unless it is to go on `again`."""
        self._row, self._step, self._at, self._micro, self._ended = row, step, step, 0, False
        self._end = None
        if self.sizes.epochs is not None:
            length = self.sizes.epochs * self.sampler.num_rows
            self._end = length * max(1, -(-(row + again) // length))

    def _row_of(self, step: int) -> int:
        row = self._row + (step - self._step) * self.sizes.global_batch
        return row if self._end is None else min(row, self._end)

    def _state(self, step: int) -> dict[str, Any]:
        return {
            "v": STATE_VERSION,
            "row": self._row_of(step),
            "step": step,
            "corpus": self._plan[0],
            "plan": list(self._plan[1:]),
        }
