"""Runs in buckets drawn at random, the loaders of their ranks, and a check of every cell of a batch."""

import random
from dataclasses import dataclass
from typing import Any

import naive_buckets
import naive_packing
from drawn_legs import Leg, draw_legs
from naive_buckets import Step
from rivers import ArrayRiver
from tokenriver.batch import Batch
from tokenriver.loader import Loader
from tokenriver.types import IGNORE


@dataclass
class Run:
    lengths: list[int]
    seq_len: int
    overflow: str
    order: str
    seed: int
    epochs: int
    global_batch: int | None
    max_tokens: int | None
    buckets: int | list[int]
    legs: list[Leg]

    def __post_init__(self) -> None:
        rows = naive_packing.rows_of("document", self.lengths, self.seq_len, self.overflow)
        self.spans = [span for (span,) in rows]
        self.sizes = [stop - start - 1 for start, stop in self.spans]
        """Positions of each row."""
        self.river = ArrayRiver(sum(self.lengths), self.lengths)

    def steps(self, widths: list[int]) -> list[Step]:
        """All steps of the run, by the naive reference."""
        most = {}
        for width in widths:
            bounds = [] if self.global_batch is None else [self.global_batch]
            bounds += [] if self.max_tokens is None else [self.max_tokens // width]
            most[width] = min(bounds)
        return [
            step
            for number in range(self.epochs)
            for step in naive_buckets.epoch(self.sizes, widths, most, self.order, self.seed, number)
        ]


def draw(dice: random.Random) -> Run:
    seq_len = dice.choice((1, 3, 8, 8, 13))
    lengths = [dice.choice((0, 1, 2, 3, 5, 8, 9, 14, 18)) for _ in range(dice.randint(1, 14))] + [dice.randint(2, 5)]
    edges = sorted(dice.sample(range(1, seq_len + 1), dice.randint(1, min(4, seq_len))))
    legs = draw_legs(dice)
    budget = dice.choice((None, seq_len, 2 * seq_len + 1, 5 * seq_len))
    return Run(
        lengths,
        seq_len,
        dice.choice(("split", "split", "truncate", "drop")) if seq_len > 3 else "split",
        dice.choice(("shuffled", "shuffled", "sequential")),
        dice.randrange(3),
        dice.choice((1, 1, 2, 3)),
        dice.randint(1, 6) if budget is None or dice.random() < 0.5 else None,
        budget,
        dice.choice((dice.randint(1, 5), edges)),
        legs,
    )


def make(run: Run, rank: int = 0, leg: Leg | None = None, **options: object) -> Loader:
    leg = leg or Leg(1, None, 0, 0)
    asked = {"buckets": run.buckets, "max_tokens_per_batch": run.max_tokens}
    given: dict[str, Any] = {
        "seq_len": run.seq_len,
        "global_batch": run.global_batch,
        "packing": "document",
        "packing_options": asked,
        "micro_batch": leg.micro_batch,
        "overflow": run.overflow,
        "order": run.order,
        "seed": run.seed,
        "rank": rank,
        "world_size": leg.world_size,
        "epochs": run.epochs,
        "prefetch": leg.prefetch,
        **options,
    }
    return Loader(run.river, **given)


def shows(run: Run, batches: list[Batch]) -> list[int]:
    """The rows of one rank's micro-batches of a step; every cell is checked."""
    found: list[int] = []
    for batch in batches:
        width = batch.input_ids.shape[1]
        for line, sample in enumerate(batch.sample_ids.tolist()):
            start, stop = run.spans[sample] if sample >= 0 else (0, 1)
            padding = width - (stop - start - 1)
            assert batch.targets[line].tolist() == [*range(start + 1, stop), *[IGNORE] * padding]
            assert batch.input_ids[line, : width - padding].tolist() == list(range(start, stop - 1))
            found += [sample] if sample >= 0 else []
        assert batch.num_targets == batch.loss_mask.sum()
        assert int(batch.cu_seqlens[-1]) == batch.input_ids.size
    return found
