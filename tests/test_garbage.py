"""Searches for garbage are put off for a while, and the interpreter is left as it was found."""

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tokenriver.garbage import SELDOM, searched_seldom

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_inside_and_behind() -> None:
    with searched_seldom():
        assert gc.get_threshold() == (SELDOM, *USUAL[1:])
        with searched_seldom():
            assert gc.get_threshold()[0] == SELDOM
        assert gc.get_threshold()[0] == SELDOM
    assert gc.get_threshold() == USUAL


def test_an_error_leaves_it_too() -> None:
    with pytest.raises(KeyError), searched_seldom():
        raise KeyError
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("first", [0, SELDOM, SELDOM + 1])
def test_what_is_as_seldom_already_stays(first: int) -> None:
    gc.set_threshold(first)
    with searched_seldom():
        assert gc.get_threshold()[0] == first
    assert gc.get_threshold()[0] == first


def test_what_another_sets_meanwhile_is_theirs() -> None:
    with searched_seldom():
        gc.set_threshold(5)
    assert gc.get_threshold()[0] == 5


def test_the_last_of_several_threads_puts_it_back() -> None:
    both, first_gone = Barrier(2), Barrier(2)

    def first() -> None:
        with searched_seldom():
            both.wait(10)
        first_gone.wait(10)

    def last() -> int:
        with searched_seldom():
            both.wait(10)
            first_gone.wait(10)
            return gc.get_threshold()[0]

    with ThreadPoolExecutor(2) as threads:
        done = threads.submit(first)
        assert threads.submit(last).result(20) == SELDOM
        done.result(20)
    assert gc.get_threshold() == USUAL
