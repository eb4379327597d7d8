"""A leg of a random history on one rank, each batch checked against the rows of a loader of Python lists."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from itertools import zip_longest
from typing import Any

import naive_order
from naive_loader import IGNORE, Run, Shown, Text
from random_histories import Leg, Pace
from tokenriver.batch import Batch
from tokenriver.corpus import Corpus
from tokenriver.loader import Loader
from tokenriver.mixing import Mixture

Corpora = Mapping[Text, Corpus]


def make(run: Run, corpora: Corpora, leg: Leg, rank: int) -> Loader:
    options = dict(run.packing.own)
    first, *_ = leg.paces
    given: dict[str, Any] = {
        "seq_len": first.seq_len,
        "global_batch": first.global_batch,
        "micro_batch": first.micro,
        "packing": run.packing.name,
        "overflow": run.packing.overflow,
        "phase_shift": run.packing.phase_shift,
        "stride": options.pop("stride", None),
        "packing_options": options,
        "order": run.order,
        "seed": run.seed,
        "world_size": leg.world_size,
        "rank": rank,
        "prefetch": leg.prefetch,
        "epochs": leg.epochs,
        "steps": leg.steps,
        "schedule": schedule(leg),
        "repeat_batch": leg.repeat,
    }
    return Loader(corpus_of(run, corpora), **given)


def schedule(leg: Leg) -> list[tuple[int, dict[str, int]]]:
    """The changes of a leg's paces; each names all sizes."""
    found = []
    for pace in leg.paces[1:]:
        sizes = {"seq_len": pace.seq_len, "global_batch": pace.global_batch}
        found.append((pace.step, sizes if pace.micro is None else {**sizes, "micro_batch": pace.micro}))
    return found


def corpus_of(run: Run, corpora: Corpora) -> Corpus | Mixture:
    if run.mixed is None:
        return corpora[run.sources[""]]
    (_, first), *others = [(row, dict(zip(run.names, weights, strict=True))) for row, weights in run.mixed.stages]
    sources = {name: (corpora[text], first[name]) for name, text in run.sources.items()}
    return Mixture(sources, unit=run.mixed.unit, exhausted=run.mixed.exhausted, curriculum=others)


class Place:
    """Where a run stands, by adding up the rows of each step."""

    def __init__(self, run: Run, leg: Leg, row: int, step: int) -> None:
        self.leg, self.row, self.step = leg, row, step
        self.end = None if leg.steps or leg.epochs is None else run.end(leg.epochs)

    @property
    def ended(self) -> bool:
        return self.step == self.leg.steps or self.row == self.end

    @property
    def pace(self) -> Pace:
        return [pace for pace in self.leg.paces if pace.step <= self.step][-1]

    def micros(self, rank: int) -> list[list[int]]:
        """The row numbers of the step that comes next, micro-batch by micro-batch."""
        ranks, batch = (rank, self.leg.world_size), self.pace.global_batch
        first = self.row if self.leg.repeat is None else self.leg.repeat * batch
        return naive_order.dealt(first, batch, ranks, self.pace.micro, self.end)

    def move(self, steps: int) -> int:
        """Go on by so many steps, or to the end; the steps passed."""
        begin = self.step
        while self.step < begin + steps and not self.ended:
            stop = self.row + (self.pace.global_batch if self.leg.repeat is None else 0)
            self.row, self.step = stop if self.end is None else min(stop, self.end), self.step + 1
        return self.step - begin


class Rank:
    """One rank of a leg, which checks what its loader gives."""

    def __init__(self, run: Run, loader: Loader, place: Place, rank: int, dice: random.Random) -> None:
        self.run, self.loader, self.place, self.rank, self.dice = run, loader, place, rank, dice
        self.state = loader.state_dict()
        self.kept: list[int] = []
        """Row numbers of the steps that were served to their end."""
        self.skipped: list[int] = []
        self.targets: Counter[int] = Counter()
        self.stream = self.loop()

    def loop(self) -> Iterator[Batch]:
        """Another loop, from where the loader stands."""
        workers = self.place.leg.workers
        if not workers:
            return iter(self.loader)
        self.loader.load_state_dict(self.state)
        parts = [iter(self.loader.strided(first, workers)) for first in range(workers)]
        return (batch for turn in zip_longest(*parts) for batch in turn if batch is not None)

    def follow(self) -> None:
        """All of the leg."""
        for what, count in self.place.leg.events:
            self.look_ahead()
            if what == "serve":
                for _ in range(count):
                    if self.place.ended:
                        assert next(self.stream, None) is None
                        break
                    self.serve()
            if what == "torn":
                self.tear(count)
            if what == "skip":
                self.skip(count)
            # a loop over a run that a loop has ended begins it anew
            if what == "again" and not self.place.ended:
                self.stream = self.loop()
        if not self.place.leg.workers:
            assert self.loader.state_dict() == self.state

    def look_ahead(self) -> None:
        """Sometimes: any batch that is to come, at once."""
        if self.dice.randrange(6):
            return
        here = copy(self.place)
        self.place.move(self.dice.randrange(4))
        if not self.place.ended:
            micros = self.place.micros(self.rank)
            micro = self.dice.randrange(len(micros))
            self.check(self.loader.batch(self.place.step, micro), micro, micros[micro])
        self.place = here

    def serve(self) -> None:
        """A step to its end."""
        micros = self.place.micros(self.rank)
        for micro, numbers in enumerate(micros):
            if micro and not self.place.leg.workers and not self.dice.randrange(16):
                self.stream = self.loop()
            batch = next(self.stream)
            self.check(batch, micro, numbers)
            if self.place.leg.repeat is None:
                self.targets.update(batch.targets[batch.targets >= 0].tolist())
                self.kept += [number for number in batch.row_numbers.tolist() if number >= 0]
            if micro + 1 == len(micros):
                self.place.move(1)
            self.take(batch.state)

    def tear(self, count: int) -> None:
        """Some micro-batches of a step that is begun, and not ended."""
        if not self.place.ended:
            micros = self.place.micros(self.rank)
            for micro, numbers in enumerate(micros[: min(count, len(micros) - 1)]):
                batch = next(self.stream)
                self.check(batch, micro, numbers)
                self.take(batch.state)

    def skip(self, steps: int) -> None:
        """Pass over some steps, that which is begun among them."""
        begin = self.place.row
        if self.place.leg.workers:
            self.loader.load_state_dict(self.state)
        self.loader.skip(self.place.move(steps))
        self.skipped += range(begin, self.place.row)
        self.take(self.loader.state_dict())
        self.stream = self.loop()

    def take(self, state: dict[str, Any]) -> None:
        self.state = state
        assert (state["row"], state["step"]) == (self.place.row, self.place.step)

    def check(self, batch: Batch, micro: int, numbers: list[int]) -> None:
        """A batch against the rows that it should have."""
        width = self.place.pace.seq_len
        filler = Shown(-1, -1, [0] * width, [IGNORE] * width)
        rows = [self.run.row(number) if number >= 0 else filler for number in numbers]
        assert (batch.step, batch.micro) == (self.place.step, micro)
        assert batch.row_numbers.tolist() == numbers
        assert batch.sample_ids.tolist() == [row.sample for row in rows]
        assert batch.source_ids.tolist() == [row.source for row in rows]
        assert batch.input_ids.tolist() == [row.inputs for row in rows]
        assert batch.targets.tolist() == [row.targets for row in rows]
        assert batch.num_targets == sum(target != IGNORE for row in rows for target in row.targets)
