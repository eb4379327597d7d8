"""Something that is made in steps, so that threads can do those of several things beside one another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Steps(Generic[Made]):
    """The first step is given nothing, each other one what the one before it gave; what the last one gives is made. Any
    thread may do each."""

    steps: Sequence[Callable[..., Any]]

    def run(self) -> Made:
        """All of them, on the calling thread."""
        first, *others = self.steps
        made: Any = first()
        for step in others:
            made = step(made)
        found: Made = made
        return found
