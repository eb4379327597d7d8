"""Rendered conversations as columns of texts; and the forms in which a template writes conversations of texts alone.

What a template writes around verbatim contents depends on the roles alone, so it is rendered once for all conversations
with the same roles in the same order: contents are put into the places that marks had, for thousands of conversations
at once.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenriver.messages import CONTEXT, REASONING, SPECIAL, Rendered
from tokenriver.types import Int64
from tokenriver.utf8 import as_bytes

BARE = -1
"""No special token: what comes next is a text as well."""
Texts = NDArray[np.object_]
T = TypeVar("T", bound=np.generic)


class Talks(NamedTuple):
    """Conversations of messages that have a role and a content and nothing else, as columns."""

    roles: tuple[str, ...]
    """Of each message."""
    contents: Sequence[str]
    sizes: Sequence[int]
    """Messages of each conversation."""

    def each_roles(self) -> Iterator[tuple[str, ...]]:
        """The roles of one conversation after another."""
        stops = accumulate(self.sizes)
        return (self.roles[stop - size : stop] for size, stop in zip(self.sizes, stops, strict=True))

    def each(self) -> Iterator[tuple[tuple[str, ...], Sequence[str]]]:
        """(roles, contents) of one conversation after another."""
        roles, contents, start = self.roles, self.contents, 0
        for size in self.sizes:
            stop = start + size
            yield roles[start:stop], contents[start:stop]
            start = stop


class Columns(NamedTuple):
    """What is known of texts and of what stands behind each, as bytes of columns with a value for each text."""

    ends: bytes
    """int64: id of the special token behind it, or BARE."""
    trained: bytes
    """bool: is the text trained?"""
    ends_trained: bytes
    """bool: is the special token?"""
    plain: bytes
    """bool: is the text ASCII?"""


class Filled(NamedTuple):
    """Conversations ready to be encoded."""

    texts: list[bytes]
    """UTF-8."""
    columns: Columns
    sizes: Sequence[int]
    """Texts of each conversation."""


class Form(NamedTuple):
    """What a template writes around the contents of some roles."""

    texts: Texts
    """The template's own; nothing in the place of a content."""
    places: Int64
    """Of each content."""
    around: tuple[Texts, Texts]
    """What is encoded together with each content, in front of it and behind it."""
    columns: Columns


def marks(count: int) -> list[str]:
    """Contents for `form_of`, none of which is part of another."""
    return [f"\0{number}\0" for number in range(count)]


def form_of(spelled: Filled, contents: Sequence[str]) -> Form:
    """The form of a conversation whose contents were `marks`."""
    texts = list(spelled.texts)
    places = [place for place, text in enumerate(texts) if b"\0" in text]
    assert len(places) == len(contents), "a template that is VERBATIM writes each content once"
    around = []
    for place, content in zip(places, as_bytes(contents), strict=True):
        before, found, after = texts[place].partition(content)
        assert found, "in its turn"
        assert b"\0" not in before + after, "in a text of its own"
        around.append((before, after))
        texts[place] = b""
    fore, aft = (_objects([pair[side] for pair in around]) for side in range(2))
    return Form(_objects(texts), np.array(places, np.int64), (fore, aft), spelled.columns)


def fill(forms: Sequence[Form], which: Sequence[int], contents: Sequence[str]) -> Filled:
    """Conversations, each of one of the forms, with their contents one after another."""
    numbers = np.array(which, np.int64)
    cells, starts, sizes = _runs([len(form.texts) for form in forms], numbers)
    spots, _, counts = _runs([len(form.places) for form in forms], numbers)
    places = np.concatenate([form.places for form in forms])[spots] + np.repeat(starts, counts)
    said = _objects(as_bytes(contents))
    fore, aft = (np.concatenate([form.around[side] for form in forms]) for side in range(2))
    if fore.any() or aft.any():
        said = fore[spots] + said + aft[spots]
    texts = np.concatenate([form.texts for form in forms])[cells]
    texts[places] = said
    known = joined([form.columns for form in forms])
    plain = _cells(known.plain, np.bool_, cells)
    plain[places] &= np.fromiter(map(str.isascii, contents), np.bool_, len(contents))
    ends = _cells(known.ends, np.int64, cells)
    trained, ends_trained = (_cells(column, np.bool_, cells) for column in (known.trained, known.ends_trained))
    columns = Columns(ends.tobytes(), trained.tobytes(), ends_trained.tobytes(), plain.tobytes())
    return Filled(texts.tolist(), columns, sizes.tolist())


def _runs(sizes: Sequence[int], which: Int64) -> tuple[Int64, Int64, Int64]:
    """Of runs of these sizes, lying end to end, some one after another: (where each of their cells lies, where each of
    them begins, how long each is)."""
    every = np.array(sizes, np.int64)
    lengths = every[which]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    cells = np.repeat((np.cumsum(every) - every)[which] - starts, lengths)
    cells += np.arange(len(cells))
    return cells, starts, lengths


def _cells(column: bytes, dtype: type[T], cells: Int64) -> NDArray[T]:
    found: NDArray[T] = np.frombuffer(column, dtype)[cells]
    return found


def _objects(texts: Sequence[bytes]) -> Texts:
    column = np.empty(len(texts), np.object_)
    column[:] = texts
    return column


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
    columns = Columns(ends.tobytes(), bytes(trained), bytes(ends_trained), bytes(map(str.isascii, texts)))
    return Filled(as_bytes(texts), columns, [len(texts)])


def joined(columns: Iterable[Columns]) -> Columns:
    """The columns of several conversations, end to end."""
    parts = list(columns)
    return Columns(*(b"".join([part[number] for part in parts]) for number in range(len(Columns._fields))))
