"""The values last used: which stay, and that threads whose values let others run never break it."""

import threading
import time

import pytest

from tokenriver.recent import Recent


def test_the_last_used_stay() -> None:
    recent: Recent[str] = Recent()
    for number in (0, 1, 2, 0, 3):
        recent.keep(number, recent.take(number) or str(number), 3)
    assert [recent.take(number) for number in (0, 1, 2, 3)] == ["0", None, "2", "3"]
    assert len(recent) == 0


class Value:
    """Its release lets another thread run, as that of a map does."""

    def __del__(self) -> None:
        time.sleep(0)


@pytest.mark.parametrize("limit", [1, 2])
def test_threads_whose_values_let_others_run(limit: int) -> None:
    recent: Recent[Value] = Recent()
    wrong: list[BaseException] = []

    def use(first: int) -> None:
        try:
            for at in range(5000):
                number = (first * 7 + at * (first + 1)) % 9
                recent.keep(number, recent.take(number) or Value(), limit)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(first,), daemon=True) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert len(recent) <= limit
