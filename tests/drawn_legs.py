"""Runs in legs, each on other machines than the one before."""

import random
from dataclasses import dataclass


@dataclass
class Leg:
    """A stretch of the run on one set of machines."""

    world_size: int
    micro_batch: int | None
    steps: int
    prefetch: int


def draw_legs(dice: random.Random) -> list[Leg]:
    """One to four legs; the last one goes on to the run's end."""
    legs = [
        Leg(dice.choice((1, 2, 3, 5)), dice.choice((None, 1, 2, 3)), dice.randint(0, 5), dice.choice((0, 0, 0, 2)))
        for _ in range(dice.randint(1, 4))
    ]
    legs[-1].steps = 1 << 30
    return legs
