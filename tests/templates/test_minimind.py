"""The chances that minimind's trainer takes are Python's."""

import random

import pytest

from tokenriver.messages import Message
from tokenriver.templates import minimind

TALKS = [
    [Message("user", "a"), Message("assistant", "b")],
    [Message("system", "s"), Message("user", "a"), Message("assistant", "b", "why"), Message("assistant", "c", "\n")],
    [Message("user", "a"), Message("assistant", "b", "why")],
    [Message("user", "a"), Message("assistant", "<think>why</think>b")],
    [],
]
SYSTEMS = [f"system {number}" for number in range(10)]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("tools", [(), ({"name": "f"},)])
def test_drawn_as_by_python(seed: int, tools: tuple[dict[str, str], ...]) -> None:
    chances, python = minimind.draws(seed), random.Random(seed)
    for _ in range(60):
        for number, talk in enumerate(TALKS):
            drawn = minimind.as_drawn(talk, tools, chances, SYSTEMS)
            system = []
            if number in (0, 2, 3) and not tools and python.random() < 0.2:
                system = [Message("system", python.choice(SYSTEMS))]
            shown = "" if number in (0, 1) and python.random() <= 0.2 else None
            bare = {0: [1], 1: [3]}.get(number, [])
            expected = [Message(m.role, m.content, shown) if place in bare else m for place, m in enumerate(talk)]
            assert drawn == [*system, *expected]
