"""Text that knows where each of its characters comes from: a template, or what a message says.

Joining and cutting keep the origins. What a template makes of a text in any other way is a plain str, which counts as
said by somebody: an origin can be lost, never won.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, SupportsIndex

OWN, SAID = 0, 1
"""Origins: the template's own text; something said, one cannot tell by whom."""
Runs = tuple[tuple[int, int], ...]
"""Origin and length of each stretch of a text."""
_IN_BLOCK = 1 << 40


class Part(NamedTuple):
    """A stretch of one origin, as long as can be."""

    start: int
    end: int
    origin: int
    in_block: bool
    """Is it part of a generation block?"""


class Marked(str):
    """A text with the origin of its characters."""

    __slots__ = ("runs",)
    runs: Runs

    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> "Marked":
        return marked(str.__add__(self, other), self.runs + runs_of(other))

    def __radd__(self, other: str) -> "Marked":
        return marked(str.__add__(other, self), runs_of(other) + self.runs)

    def __getitem__(self, place: SupportsIndex | slice) -> str:
        cut = str.__getitem__(self, place)
        start, stop, step = place.indices(len(self)) if isinstance(place, slice) else (0, 0, 0)
        return _cut(self, start, max(start, stop)) if step == 1 else cut

    def lstrip(self, characters: str | None = None, /) -> "Marked":
        return _cut(self, len(self) - len(str.lstrip(self, characters)), len(self))

    def rstrip(self, characters: str | None = None, /) -> "Marked":
        return _cut(self, 0, len(str.rstrip(self, characters)))

    def strip(self, characters: str | None = None, /) -> "Marked":
        return self.rstrip(characters).lstrip(characters)

    def upper(self) -> str:
        return _alike(self, str.upper(self))

    def lower(self) -> str:
        return _alike(self, str.lower(self))

    def title(self) -> str:
        return _alike(self, str.title(self))

    def capitalize(self) -> str:
        return _alike(self, str.capitalize(self))


def marked(text: str, runs: Runs) -> Marked:
    """A text and the origins of its characters; the lengths sum up to the text's."""
    made = Marked(text)
    made.runs = runs
    return made


def own(text: str) -> Marked:
    """A text of the template's."""
    return said(text, OWN)


def said(text: str, origin: int) -> Marked:
    """A text of one origin."""
    return marked(text, ((origin, len(text)),))


def content_of(number: int) -> int:
    """The origin of what a message says."""
    return 2 + 2 * number


def reasoning_of(number: int) -> int:
    """The origin of what was thought before a message."""
    return 3 + 2 * number


def message_of(origin: int) -> int:
    """The message that an origin belongs to; -1: none, or one cannot tell."""
    return origin // 2 - 1


def runs_of(text: str) -> Runs:
    return text.runs if isinstance(text, Marked) else ((SAID, len(text)),)


def join(parts: Iterable[str]) -> Marked:
    """Texts end to end."""
    listed = list(parts)
    return marked("".join(listed), tuple(chain.from_iterable(map(runs_of, listed))))


def in_block(text: str) -> Marked:
    """A text as part of a generation block."""
    return marked(text, tuple((origin | _IN_BLOCK, length) for origin, length in runs_of(text)))


def plain(text: str) -> str:
    """A text without its origins."""
    return "".join([text])


def parts(text: Marked) -> list[Part]:
    """All of a text's characters by their origins."""
    found: list[Part] = []
    start = end = 0
    last = -1
    for origin, length in text.runs:
        if origin != last:
            if start < end:
                found.append(Part(start, end, last & ~_IN_BLOCK, last >= _IN_BLOCK))
                start = end
            last = origin
        end += length
    if start < end:
        found.append(Part(start, end, last & ~_IN_BLOCK, last >= _IN_BLOCK))
    return found


def stretches(parts: Iterable[Part]) -> Iterator[tuple[int, int]]:
    """(start, end) of parts, those that follow one another as one."""
    start = end = -1
    for part in parts:
        if part.start != end:
            if end > 0:
                yield start, end
            start = part.start
        end = part.end
    if end > 0:
        yield start, end


def _alike(text: Marked, changed: str) -> str:
    """What was made of a text is the template's if all of the text is."""
    return own(changed) if all(origin == OWN for origin, _ in text.runs) else changed


def _cut(text: Marked, start: int, end: int) -> Marked:
    """text[start:end], start <= end."""
    kept = []
    place = 0
    for origin, length in text.runs:
        inside = min(end, place + length) - max(start, place)
        if inside > 0:
            kept.append((origin, inside))
        place += length
    return marked(str.__getitem__(text, slice(start, end)), tuple(kept))
