"""What a template may spend, and the filters that could make much of little, each charged before it does."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from jinja2 import Undefined
from jinja2.exceptions import SecurityError

from tokenriver.templates import _marked

ALLOWANCE = 2_000_000
"""What a rendering may spend beside FOR_A_CHARACTER for each character that it is given."""
FOR_A_CHARACTER = 50
STEP = 50
_DEEPEST = 16
Thing = TypeVar("Thing")
_SIZED = (str, list, tuple, dict, range)


class Work:
    """The meter of one template, for each thread its own, and the filters that run on it."""

    def __init__(self) -> None:
        self._meter = threading.local()

    def start(self, characters: int) -> None:
        """Begin a rendering in this thread that is given so many characters."""
        self._meter.left = ALLOWANCE + FOR_A_CHARACTER * characters

    def charge(self, amount: int) -> None:
        left = getattr(self._meter, "left", ALLOWANCE) - amount
        self._meter.left = left
        if left < 0:
            raise SecurityError("it works without an end, or makes too much text")

    def tick(self, nothing: object = None) -> None:
        """A turn of a loop, or a call of a macro."""
        self.charge(STEP)

    def weigh(self, value: Thing) -> Thing:
        """Charge for all that a container holds, as often as it holds it."""
        waiting: list[object] = [value]
        while waiting:
            one = waiting.pop()
            self.charge(STEP + (len(one) if isinstance(one, str) else 0))
            if isinstance(one, Mapping):
                waiting.extend(one)
                waiting.extend(one.values())
            elif isinstance(one, list | tuple | set):
                waiting.extend(one)
        return value

    def charged(self, done: Callable[..., Any]) -> Callable[..., Any]:
        """A filter or test that is charged for what it reads and gives; it keeps the marks by which Jinja passes it its
        context."""

        def run(*given: object, **named: object) -> object:
            for one in given:
                self.count(one)
            value = done(*given, **named)
            self.count(value)
            return value

        vars(run).update(getattr(done, "__dict__", {}))
        return run

    def count(self, value: Thing) -> Thing:
        """Charge for a value that is read through or was made."""
        self.charge(STEP + (len(value) if isinstance(value, _SIZED) else 0))
        return value

    def joined(self, parts: Iterable[str]) -> _marked.Marked:
        """Texts end to end, with the origin of each character."""
        listed = []
        for part in parts:
            self.charge(STEP + len(part))
            listed.append(part)
        return _marked.join(listed)

    def concatenated(self, parts: Iterable[object]) -> str:
        """What `~` makes."""
        return self.joined(self.text(part) for part in parts)

    def shown(self, value: Thing) -> Thing:
        """A value that is about to become text."""
        return value if isinstance(value, str) else self.weigh(value)

    def text(self, value: object) -> str:
        return str(self.shown(value))

    # ------------------------------------------------------------------------------------------ filters of our own

    def join(self, value: Iterable[object], d: str = "", attribute: str | None = None) -> str:
        parts: list[str] = []
        for item in value:
            if parts and d:
                parts.append(d)
            parts.append(self.text(item if attribute is None else _part(item, attribute)))
            self.charge(STEP)
        return self.joined(parts)

    def replace(self, s: object, old: str, new: str, count: int | None = None) -> str:
        text, found = self.text(s), self.text(s).count(old)
        self.charge(STEP + len(text) + found * len(new))
        return text.replace(old, new, -1 if count is None else count) if found else text

    def indent(self, s: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        gap = width if isinstance(width, str) else " " * min(width, STEP)
        lines = self.text(s).split("\n")
        self.charge(sum(map(len, lines)) + len(lines) * (STEP + len(gap)))
        return "\n".join(
            gap + line if (line or blank) and (first or number) else line for number, line in enumerate(lines)
        )

    def sum(self, value: Iterable[object], attribute: str | None = None, start: float = 0) -> float:
        total = start
        for item in value:
            self.charge(STEP)
            number = item if attribute is None else _part(item, attribute)
            if not isinstance(number, int | float):
                raise SecurityError(f"a sum of {type(number).__name__}")
            total += number
        return total

    def tojson(
        self,
        x: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        if indent is not None and not 0 <= int(indent) <= _DEEPEST:
            raise SecurityError(f"tojson with an indent of {indent}")
        text = json.dumps(
            self.weigh(x), ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        self.charge(len(text))
        return text


def _part(item: object, name: str) -> object:
    return item.get(name, Undefined(name=name)) if isinstance(item, Mapping) else Undefined(name=name)
