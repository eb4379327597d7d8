"""Rank and world size: the command line wins over the launcher's environment."""

import pytest

from tokenriver.commands._environment import rank_and_world_size
from tokenriver.errors import InputError


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [
        ((None, None), {}, (0, 1)),
        ((None, None), {"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ((1, None), {"RANK": "3", "WORLD_SIZE": "8"}, (1, 8)),
        ((1, 2), {"RANK": "3", "WORLD_SIZE": "8"}, (1, 2)),
        ((None, None), {"RANK": " ", "WORLD_SIZE": ""}, (0, 1)),
    ],
)
def test_who_wins(given: tuple[int | None, int | None], environment: dict[str, str], expected: tuple[int, int]) -> None:
    assert rank_and_world_size(*given, environment) == expected


@pytest.mark.parametrize(
    ("given", "environment", "what"),
    [
        ((2, 2), {}, "--rank: got 2"),
        ((-1, 2), {}, "--rank: got -1"),
        ((None, None), {"RANK": "first"}, "RANK: got 'first'"),
        ((None, None), {"RANK": "4", "WORLD_SIZE": "4"}, "--rank: got 4"),
    ],
)
def test_refusals(given: tuple[int | None, int | None], environment: dict[str, str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        rank_and_world_size(*given, environment)
