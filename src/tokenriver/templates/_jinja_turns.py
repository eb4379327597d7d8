"""A rendered text -> pieces: which stretches the assistant's turns are, and which special tokens are the template's."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from tokenriver.errors import InputError
from tokenriver.messages import ANSWER, CONTEXT, REASONING, SPECIAL, TEXT, Message, Piece
from tokenriver.templates import _marked
from tokenriver.templates._marked import Marked, Part


class Stretch(NamedTuple):
    """Part of a rendered text that the assistant said."""

    start: int
    end: int
    message: int
    loss: int = ANSWER


class Specials:
    """The special tokens of a tokenizer, found where the template's own text spells them."""

    def __init__(self, names: Collection[str], greedy: Collection[str]) -> None:
        self._greedy = greedy
        longest = sorted((name for name in names if name), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest)) or r"(?!)")

    def own(self, text: Marked, parts: Sequence[Part]) -> list[tuple[int, int]]:
        """Where they are. What a message says is text, and so is what it completes to one."""
        find = self._pattern.finditer
        template = (part for part in parts if part.origin == _marked.OWN)
        found = [match for run in _marked.stretches(template) for match in find(text, *run)]
        if self._greedy and (bad := next((match for match in found if match.group() in self._greedy), None)):
            raise InputError(
                f"chat template: got the special token {bad.group()!r}, which changes the text beside it (lstrip, "
                "rstrip or single_word), expected none that does; use a named template"
            )
        return [match.span() for match in found]

    def check(
        self, text: Marked, parts: Sequence[Part], own: Sequence[tuple[int, int]], said: Callable[[], str]
    ) -> None:
        """InputError if the template makes a special token of a text whose origin it hid, and that nobody says."""
        hidden = [part for part in parts if part.origin == _marked.SAID]
        if not hidden:
            return
        known, everything = set(own), None
        for found in self._pattern.finditer(text):
            touched = any(part.start < found.end() and found.start() < part.end for part in hidden)
            if found.span() in known or not touched:
                continue
            everything = said() if everything is None else everything
            if found.group() not in everything:
                raise InputError(
                    f"chat template: got the special token {found.group()!r} made by a method or filter, expected it "
                    "written out or joined by + and ~; mend the template"
                )


def blocks(parts: Sequence[Part], own: Sequence[tuple[int, int]], messages: Sequence[Message]) -> list[Stretch]:
    """What stands in generation blocks, and whose it is: told by the content in it, else by its turn."""
    parts = [part for part in parts if part.in_block]
    found = list(_marked.stretches(parts))
    answers = [number for number, message in enumerate(messages) if message.role == "assistant"]
    stretches = []
    for place, (start, end) in enumerate(found):
        owners = {_marked.message_of(part.origin) for part in parts if start <= part.start < end} - {-1}
        if not owners and len(found) == len(answers):
            owners = {answers[place]}
        if len(owners) != 1 or (owner := owners.pop()) not in answers:
            raise InputError(
                f"chat template: got generation block {place + 1}, which is not that of one message of the assistant, "
                "expected one a turn; mend the template"
            )
        stretches.append(Stretch(start, end, owner))
    ends = {stretch.message: stretch for stretch in stretches}
    if missing := [number for number in answers if number not in ends]:
        raise InputError(f"chat template: got no generation block for message {missing[0]}, expected one a turn")
    for stretch in ends.values():
        if not any(stretch.start <= a and b <= stretch.end for a, b in own):
            raise InputError(
                f"chat template: got a generation block without the token that ends the turn of message "
                f"{stretch.message}, expected it inside; move endgeneration behind it"
            )
    return stretches


def without_reasoning(parts: Sequence[Part], stretch: Stretch, own: Sequence[tuple[int, int]]) -> Iterator[Stretch]:
    """A turn cut where what was thought ends: at the first character of the content."""
    start, end, number, _ = stretch
    parts = [part for part in parts if start < part.end and part.start < end]
    thought = max((part.end for part in parts if part.origin == _marked.reasoning_of(number)), default=0)
    if not thought:
        yield stretch
        return
    behind = next((part for part in parts if part.start >= thought and part.origin != _marked.OWN), None)
    if behind is None:
        cut = max(a for a, b in own if start <= a and b <= end)
    elif behind.origin == _marked.content_of(number):
        cut = behind.start
    else:
        raise InputError(
            f"chat template: got reasoning of message {number} with no content behind it: reasoning=False "
            "cannot tell where it ends; train it, or use a named template"
        )
    yield Stretch(start, cut, number, REASONING)
    yield Stretch(cut, end, number)


def pieces(text: Marked, own: Sequence[tuple[int, int]], stretches: Sequence[Stretch], cut: int) -> list[Piece]:
    """The pieces of a text: special tokens, and what stands between two of them, or between one and an edge.

    Edges are those of the stretches and `cut`, where an opened turn begins."""
    out: list[Piece] = []
    shown = _marked.plain(text)
    waiting, done = list(reversed(own)), 0
    for until, loss, message in _regions(stretches, (cut, len(text))):
        while waiting and waiting[-1][1] <= until:
            start, end = waiting.pop()
            if done < start:
                out.append(Piece(shown[done:start], TEXT, loss, message))
            out.append(Piece(shown[start:end], SPECIAL, loss, message))
            done = end
        if waiting and waiting[-1][0] < until:
            raise InputError("chat template: got a special token across the edge of a turn, expected whole ones")
        if done < until:
            out.append(Piece(shown[done:until], TEXT, loss, message))
            done = until
    return out


def _regions(stretches: Sequence[Stretch], ends: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(end, loss, message) of all parts of a text, those between two stretches too."""
    for stretch in stretches:
        yield stretch.start, CONTEXT, -1
        yield stretch.end, stretch.loss, stretch.message
    for end in ends:
        yield end, CONTEXT, -1
