"""The words that the orders draw, and llm.c's shuffle by them."""

import json
import random
from itertools import islice

import pytest

import naive_replays
from golden_data import golden
from tokenriver.orders import _words
from tokenriver.orders._words import Words, shuffle

FIRST = {
    0: [2357136044, 2546248239, 3071714933, 3626093760],
    42: [1608637542, 3421126067, 4083286876, 787846414],
    43: [494155588, 2134003008, 2615920895, 442015537],
    2**32 - 1: [419326371, 479346978, 3918654476, 2416749639],
}
PERMUTED = [
    [1, 3, 9, 7, 6, 0, 8, 4, 5, 2],
    [2, 5, 9, 0, 3, 1, 4, 8, 6, 7],
    [4, 9, 6, 0, 7, 5, 2, 1, 3, 8],
    [1, 7, 2, 3, 5, 4, 6, 0, 9, 8],
]


@pytest.mark.parametrize("seed", FIRST)
def test_words_of_a_seed(seed: int) -> None:
    expected = list(islice(naive_replays.twister(seed), 2000))
    assert expected[:4] == FIRST[seed]
    assert Words(seed).at(0, 2000).tolist() == expected


@pytest.mark.parametrize("seed", [0, 1, 123, 2**32 - 1, 2**32, 2**40 + 5, 2**100])
def test_words_of_a_seed_as_python_has_it(seed: int) -> None:
    key = [seed >> shift & 0xFFFFFFFF for shift in range(0, max(1, seed.bit_length()), 32)]
    dice = random.Random(seed)
    assert Words(key).at(0, 700).tolist() == [dice.getrandbits(32) for _ in range(700)]


def test_any_place_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_words, "SKIP", 7)
    expected = list(islice(naive_replays.twister(5), 1000))
    words = Words(5)
    for place, count in ((3, 4), (7, 2), (9, 0), (700, 100), (2, 5), (0, 1000), (999, 1), (1, 1)):
        assert words.at(place, count).tolist() == expected[place : place + count]


def test_llmcs_shuffle() -> None:
    """One array shuffled again and again by one generator."""
    items, words, place = list(range(10)), Words(42), 0
    for row in PERMUTED:
        shuffle(items, words.at(place, 9))
        place += 9
        assert items == row
    for few in ([], [4]):
        shuffle(few, words.at(0, 0))
    assert few == [4]


def test_llmcs_own_words_and_shuffles() -> None:
    known = json.loads(golden("llmc/mt19937.json").read_text(encoding="utf-8"))
    for seed, values in known["randint32"].items():
        assert Words(int(seed)).at(0, len(values)).tolist() == values
    for name, fresh in (("permutation_cumulative", False), ("permutation_fresh", True)):
        for case in known[name]:
            count, words = case["n"], Words(case["seed"])
            items = list(range(count))
            for turn, row in enumerate(case["rows"]):
                items = list(range(count)) if fresh else items
                shuffle(items, words.at(turn * (count - 1), count - 1))
                assert items == row
