"""Questions of arithmetic with their answers: a curriculum for reinforcement learning that needs no data.

A level is a set of problems that are numbered, and a run serves them in the library's own keyed order: none comes twice
before all have come, the n-th costs the same wherever it stands, and fewer are always the first of more.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.mersenne import Dice
from tokenriver.sampler import epoch_keys, permute
from tokenriver.types import Int64

LARGEST = 1 << 20
"""Operands may be so large: a product of three is then far below 2^63, and one of two exact as a float."""
AT_ONCE = 1 << 13
SIGNS = "+-*"


@dataclass(frozen=True, slots=True)
class Level:
    """Which problems there are: `numbers` (2 or 3) whole operands of [low, high] joined by operators, the usual
    precedence. Division (`/`, of two numbers alone) always comes out: quotient and divisor are of [low, high]."""

    low: int
    high: int
    operators: str = SIGNS
    numbers: int = 2

    def check(self) -> None:
        """InputError for a level without problems or beyond what a float holds."""
        largest = LARGEST if self.numbers == 2 else 1 << 16
        known = SIGNS + "/" if self.numbers == 2 else SIGNS
        if self.numbers not in (2, 3):
            raise InputError(f"level: numbers: got {self.numbers}, expected 2 or 3")
        if not -largest <= self.low <= self.high <= largest:
            raise InputError(f"level: got {self.low} to {self.high}, expected a range within -{largest} to {largest}")
        if not self.operators or len(set(self.operators)) < len(self.operators) or set(self.operators) - set(known):
            raise InputError(f"level: operators: got {self.operators!r}, expected some of {known}, each once")
        if self.operators == "/" and self.low == self.high == 0:
            raise InputError("level: got division by 0 alone, expected a divisor; raise the range")

    @property
    def size(self) -> int:
        """Problems of the level."""
        return sum(self._sizes())

    def _sizes(self) -> list[int]:
        """Problems of each operator, or pair of operators."""
        span = self.high - self.low + 1
        if self.numbers == 3:
            return [span**3] * len(self.operators) ** 2
        return [span * (span - (self.low <= 0 <= self.high)) if sign == "/" else span**2 for sign in self.operators]

    def problem(self, number: int) -> tuple[str, int]:
        """(expression, value) of one of `size` problems."""
        sizes, place = self._sizes(), 0
        while number >= sizes[place]:
            number -= sizes[place]
            place += 1
        span, low = self.high - self.low + 1, self.low
        if self.numbers == 3:
            rest, c = divmod(number, span)
            a, b = divmod(rest, span)
            first, second = (self.operators[i] for i in divmod(place, len(self.operators)))
            return _three(a + low, first, b + low, second, c + low)
        sign = self.operators[place]
        if sign != "/":
            a, b = divmod(number, span)
            return f"{a + low} {sign} {_shown(b + low)}", _apply(a + low, sign, b + low)
        divisors = span - (low <= 0 <= self.high)
        quotient, divisor = divmod(number, divisors)
        divisor += low + (low <= 0 <= divisor + low)
        return f"{(quotient + low) * divisor} / {_shown(divisor)}", quotient + low


LEVELS = {
    1: Level(0, 9, "+-"),
    2: Level(0, 20),
    3: Level(0, 100, "+-*/"),
    4: Level(0, 20, numbers=3),
    5: Level(-100, 100, numbers=3),
}
"""From one-digit sums to three numbers with signs."""


def problems(
    count: int, *, seed: int = 0, level: int | Level = 2, repeats: bool = False
) -> Iterator[tuple[str, float]]:
    """(prompt, gold) of `count` problems of a level, all different unless `repeats`, where each comes again only when
    all have come. LimitError for more different problems than the level has."""
    if isinstance(level, int):
        if level not in LEVELS:
            raise InputError(f"level: got {level}, expected one of {', '.join(map(str, LEVELS))}; or give a Level")
        level = LEVELS[level]
    level.check()
    if count > level.size and not repeats:
        raise LimitError(
            f"arithmetic: got {count}, expected at most {level.size}, the different problems of this level; "
            "allow repeats or take a higher level"
        )
    return _served(count, seed, level)


def _served(count: int, seed: int, level: Level) -> Iterator[tuple[str, float]]:
    size, source = level.size, f"{level.low} {level.high} {level.operators} {level.numbers}"
    for epoch in range(-(-count // size)):
        keys = epoch_keys("tokenriver arithmetic 1", seed, epoch, source)
        end = min(size, count - epoch * size)
        for start in range(0, end, AT_ONCE):
            places: Int64 = np.arange(start, min(start + AT_ONCE, end), dtype=np.int64)
            for number in permute(places, size, keys).tolist():
                expression, value = level.problem(number)
                yield question(expression), float(value)


def problems_of_hdf5(count: int, *, seed: int = 0, largest: int = 20) -> Iterator[tuple[str, float]]:
    """The problems of the HDF5 project, which repeat."""
    dice = Dice(seed)
    for _ in range(count):
        a, b = dice.below(largest + 1), dice.below(largest + 1)
        sign = SIGNS[dice.below(len(SIGNS))]
        yield question(f"{a} {sign} {b}"), float(_apply(a, sign, b))


def question(expression: str) -> str:
    """The prompt of an expression."""
    return f"What is {expression}?"


def _shown(number: int) -> str:
    """An operand behind an operator."""
    return f"({number})" if number < 0 else str(number)


def _apply(a: int, sign: str, b: int) -> int:
    return a + b if sign == "+" else a - b if sign == "-" else a * b


def _three(a: int, first: str, b: int, second: str, c: int) -> tuple[str, int]:
    expression = f"{a} {first} {_shown(b)} {second} {_shown(c)}"
    if second == "*" and first != "*":
        return expression, _apply(a, first, b * c)
    return expression, _apply(_apply(a, first, b), second, c)
