"""The values last used, a few of them, by number; threads share them without a lock.

A dictionary's own operations are atomic and it remembers the order of its keys. An OrderedDict is not fit for this:
threads were seen to leave its order and its values apart for good, so that it never became shorter. Threads at worst
make a value twice; a fork never inherits a lock that nobody will release.
"""

from contextlib import suppress
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by number, in the order of their last use."""

    def __init__(self) -> None:
        self._values: dict[int, V] = {}

    def take(self, number: int) -> V | None:
        """The value, which is no longer kept, or None."""
        return self._values.pop(number, None)

    def keep(self, number: int, value: V, limit: int) -> None:
        """Keep it as the last used; only the last `limit` stay."""
        self._values[number] = value
        while len(self._values) > limit:
            # another thread may have taken the oldest away, or changed the dictionary while it was looked for
            with suppress(StopIteration, RuntimeError):
                self._values.pop(next(iter(self._values)), None)

    def __len__(self) -> int:
        return len(self._values)
