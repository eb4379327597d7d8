"""Rendered conversations as columns of texts; and the forms in which a template writes conversations of texts alone.

What a template writes around verbatim contents depends on the roles alone, so it is rendered once for all conversations
with the same roles in the same order: contents are put into the places that marks had.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from tokenriver.messages import CONTEXT, REASONING, SPECIAL, Rendered

BARE = -1
"""No special token: what comes next is a text as well."""


class Talks(NamedTuple):
    """Conversations of messages that have a role and a content and nothing else, as columns."""

    roles: tuple[str, ...]
    """Of each message."""
    contents: Sequence[str]
    sizes: Sequence[int]
    """Messages of each conversation."""

    def each(self) -> Iterator[tuple[tuple[str, ...], Sequence[str]]]:
        """(roles, contents) of one conversation after another."""
        roles, contents, start = self.roles, self.contents, 0
        for size in self.sizes:
            stop = start + size
            yield roles[start:stop], contents[start:stop]
            start = stop


class Ends(NamedTuple):
    """What stands behind texts and what of it is trained, as bytes of columns with a value for each text."""

    ids: bytes
    """int64: id of the special token behind it, or BARE."""
    texts_trained: bytes
    """bool"""
    ends_trained: bytes
    """bool"""


class Filled(NamedTuple):
    """Conversations ready to be encoded."""

    texts: list[str]
    ends: Ends
    sizes: Sequence[int]
    """Texts of each conversation."""


class Form(NamedTuple):
    """What a template writes around the contents of some roles."""

    texts: list[str]
    """The template's own; empty in the place of a content."""
    places: list[tuple[int, str, str]]
    """Of each content, and what is encoded together with it, in front and behind."""
    ends: Ends
    apart: slice | None
    """All those places, where they lie at equal distances and each content is encoded on its own."""

    def fill(self, contents: Sequence[str]) -> list[str]:
        """The texts of the conversation of so many contents."""
        texts = self.texts.copy()
        if self.apart is not None:
            texts[self.apart] = contents
            return texts
        for (place, before, after), content in zip(self.places, contents, strict=True):
            texts[place] = f"{before}{content}{after}" if before or after else content
        return texts


def marks(count: int) -> list[str]:
    """Contents for `form_of`, none of which is part of another."""
    return [f"\0{number}\0" for number in range(count)]


def form_of(spelled: Filled, contents: Sequence[str]) -> Form:
    """The form of a conversation whose contents were `marks`."""
    texts, places = list(spelled.texts), []
    marked = [place for place, text in enumerate(texts) if "\0" in text]
    assert len(marked) == len(contents), "a template that is VERBATIM writes each content once"
    for place, content in zip(marked, contents, strict=True):
        before, found, after = texts[place].partition(content)
        assert found, "in its turn"
        assert "\0" not in before + after, "in a text of its own"
        places.append((place, before, after))
        texts[place] = ""
    return Form(texts, places, spelled.ends, _apart(places))


def _apart(places: Sequence[tuple[int, str, str]]) -> slice | None:
    numbers = [place for place, _, _ in places]
    if len(numbers) < 2 or any(before or after for _, before, after in places):
        return None
    step = numbers[1] - numbers[0]
    if step < 2 or numbers != list(range(numbers[0], numbers[-1] + 1, step)):
        return None
    return slice(numbers[0], numbers[-1] + 1, step)


def spell(rendered: Rendered, special: Callable[[str], int], reasoning: bool) -> Filled:
    """The texts of all pieces, and the special token behind each; `special` gives its id by its name."""
    texts: list[str] = []
    ends, trained, ends_trained = array("q"), bytearray(), bytearray()
    turns = rendered.trained
    whole = True  # does the last text have its end?
    for text, kind, loss, message in rendered.pieces:
        kept = loss != CONTEXT and turns[message] and (reasoning or loss != REASONING)
        if kind != SPECIAL:
            if not whole:
                ends.append(BARE)
                ends_trained.append(False)
            texts.append(text)
            trained.append(kept)
            whole = False
            continue
        if whole:
            texts.append("")
            trained.append(False)
        ends.append(special(text))
        ends_trained.append(kept)
        whole = True
    if not whole:
        ends.append(BARE)
        ends_trained.append(False)
    return Filled(texts, Ends(ends.tobytes(), bytes(trained), bytes(ends_trained)), [len(texts)])


def joined(ends: Iterable[Ends]) -> Ends:
    """The columns of several conversations, end to end."""
    parts = list(ends)
    return Ends(*(b"".join([part[column] for part in parts]) for column in range(3)))
