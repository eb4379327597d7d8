"""Raw records -> encoded examples: each read by its shape, rendered by a template, encoded chunk by chunk.

A record that gives no example is told of with the reason, and so is what was cut or left out of the others. Two
threads encode some chunks while the next is read and rendered, where the encoder does without the interpreter's lock.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson

from tokenriver import registry
from tokenriver.chat import Chat
from tokenriver.errors import InputError
from tokenriver.forms import Filled, Talks
from tokenriver.hashing import held_out
from tokenriver.inputs import InputFile
from tokenriver.lanes import in_lanes
from tokenriver.messages import Message, Rendered
from tokenriver.records import LONE_SURROGATE, Fault, Records, joined_records, read_records
from tokenriver.spool import have_trained
from tokenriver.steps import Steps
from tokenriver.tally import ListingTally
from tokenriver.types import Bools, Int64, Json, SourceOptions, TokenBatch

NOTHING = "nothing-to-train"
TOO_LONG = "too-long"
CUT_AWAY = "answer-cut-away"
TRUNCATED = "truncated"
LANES = 2
"""Threads that encode: one has the fast encoder, and one all else, its reference too."""
BLOCKS = 2
"""Blocks of an input that a third thread reads ahead."""
TOGETHER = 3 << 19
"""Stored bytes of rows that are encoded together, at least: two blocks."""


class RecordReader(Protocol):
    """Reads the records of one input (examples/sft.py)."""

    def read(self, record: Json) -> tuple[list[Message], Sequence[Json], Sequence[str]]:
        """Messages, tools, and what was left out of them."""

    def talks(self, records: Sequence[object]) -> Talks | None:
        """The same sooner, for records of which that is messages with a role and a content each and nothing else; None
        if only `read` can tell it of any."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which examples are made of conversations."""

    shape: str
    max_length: int | None
    """Ids of the longest example."""
    overflow: str
    """What becomes of a longer one: drop, or truncate (from the right)."""
    val_fraction: float


@dataclass(frozen=True, slots=True)
class Examples:
    """Some examples of one input, in order."""

    source: int
    batch: TokenBatch
    records: Int64
    held: Bools
    """(k,): does it belong to the validation split?"""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What can be encoded of some rows: conversations, the places of their rows, and whether each is held out; and what
    is wrong with other rows."""

    rendered: list[Rendered | Filled]
    places: Int64
    held: Bools
    faults: dict[int, Fault]


class _Made(NamedTuple):
    """What was made so far of the rows of a chunk: conversations, their rows' places, what they say if it decides the
    split, and what is wrong with other rows."""

    rendered: list[Rendered | Filled]
    places: list[int]
    said: list[bytes]
    faults: dict[int, Fault]


class _Part(NamedTuple):
    """Some rows of an input, and what was made of them."""

    source: int
    file: InputFile
    records: Records
    """Without the rows themselves, which are not needed any more."""
    rows: int
    """How many those were."""
    chunk: _Chunk


def encode_records(
    files: Sequence[InputFile], chat: Chat, wanted: Wanted, tally: ListingTally, *, beside: bool
) -> Iterator[Examples]:
    """The examples of all inputs, in order; with `beside` threads encode. InputError for an input that cannot be read,
    or whose shape is unknown; MismatchError if the fast encoder is not what its reference is."""
    beside = beside and chat.threaded
    check = partial(chat.self_check, beside=beside)
    with closing(_parts(files, chat, wanted, tally, beside)) as parts:
        for part, batch in in_lanes(parts, check, LANES if beside else 0):
            yield _ended(part, batch, wanted, tally)


def _parts(
    files: Sequence[InputFile], chat: Chat, wanted: Wanted, tally: ListingTally, beside: bool
) -> Generator[tuple[_Part, Steps[TokenBatch]], None, None]:
    encode = chat.in_steps if beside else partial(_in_one, chat)
    for source, file in enumerate(files):
        renderer = _Renderer(file, chat, wanted, tally)
        read = read_records(file, SourceOptions(), partial(tally.raw, source), ahead=BLOCKS if beside else 0)
        with closing(read) as several:
            for records in joined_records(several, TOGETHER):
                chunk = renderer.chunk(records)
                part = _Part(source, file, replace(records, rows=()), len(records.rows), chunk)
                yield part, encode(chunk.rendered)


def _in_one(chat: Chat, rendered: Sequence[Rendered | Filled]) -> Steps[TokenBatch]:
    return Steps((partial(chat.encode, rendered),))


def _ended(part: _Part, batch: TokenBatch, wanted: Wanted, tally: ListingTally) -> Examples:
    """What stays of some rows, all of them counted."""
    source, file, records, rows, chunk = part
    tally.rows[source] += rows
    if records.mended:
        tally.notes[LONE_SURROGATE] += records.mended
    keep, batch = _fitted(chunk, batch, wanted, tally)
    for place, fault in sorted(chunk.faults.items()):
        tally.fault(file, records.first + place, records.offset_of(place), fault)
    return Examples(source, selected(batch, keep), chunk.places[keep] + records.first, chunk.held[keep])


class _Renderer:
    """Makes what can be encoded of the records of one input, or says why it cannot."""

    def __init__(self, file: InputFile, chat: Chat, wanted: Wanted, tally: ListingTally) -> None:
        self._module = registry.load("examples", "sft")
        self._reader: RecordReader = self._module.Reader(str(file.path), wanted.shape)
        self._chat, self._roles, self._tally = chat, chat.roles, tally
        self._fraction = wanted.val_fraction

    def chunk(self, rows: Records) -> _Chunk:
        """What can be encoded of some rows."""
        made = _Made([], [], [], {})
        self._add(made, rows.rows, 0)
        hashed = self._fraction > 0
        held = held_out(made.said, self._fraction) if hashed else np.zeros(len(made.places), np.bool_)
        return _Chunk(made.rendered, np.array(made.places, np.int64), held, made.faults)

    def _add(self, made: "_Made", rows: Sequence[dict[str, Any] | Fault], first: int) -> None:
        """Add rows, `first` being the place of the first: all at once if they are plain, else by halves."""
        talks = self._reader.talks(rows)
        filled = None if talks is None else self._chat.fill(talks)
        if talks is not None and filled is not None:
            made.rendered.append(filled)
            made.places.extend(range(first, first + len(rows)))
            if self._fraction > 0:
                made.said.extend(map(_turns_content, talks.each()))
        elif len(rows) > 1:
            half = len(rows) // 2
            self._add(made, rows[:half], first)
            self._add(made, rows[half:], first + half)
        else:
            self._add_one(made, rows[0], first)

    def _add_one(self, made: "_Made", row: dict[str, Any] | Fault, place: int) -> None:
        found = row if isinstance(row, Fault) else self._render(row)
        if isinstance(found, Fault):
            made.faults[place] = found
            return
        rendered, messages = found
        made.rendered.append(rendered)
        made.places.append(place)
        if self._fraction > 0:
            made.said.append(
                _content([[m.role, m.content, m.reasoning, list(m.tool_calls), m.train] for m in messages])
            )

    def _render(self, row: dict[str, Any]) -> Fault | tuple[Rendered, list[Message]]:
        try:
            messages, tools, notes = self._reader.read(row)
        except self._module.Refused as refused:
            return Fault(refused.reason, refused.detail)
        if self._roles is not None:
            for message in messages:
                if message.role not in self._roles:
                    return Fault("unknown-role", message.role)
        try:
            rendered = self._chat.render(messages, tools=tools)
        except InputError as error:
            return Fault("template", str(error))
        if notes:
            self._tally.notes.update(notes)
        return rendered, messages


def _turns_content(turns: tuple[Sequence[str], Sequence[str]]) -> bytes:
    return _content([[role, content, None, [], None] for role, content in zip(*turns, strict=True)])


def _content(said: list[list[Any]]) -> bytes:
    """What a conversation says, the same for equal ones: it decides the split."""
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)


def _fitted(chunk: _Chunk, batch: TokenBatch, wanted: Wanted, tally: ListingTally) -> tuple[Bools, TokenBatch]:
    """(which examples stay, all of them): they have something to train on, and none is too long. Those with nothing are
    put among the faults."""
    assert batch.loss_mask is not None, "a chat says what is trained"
    keep = have_trained(batch.lengths, batch.loss_mask)
    chunk.faults.update(dict.fromkeys(chunk.places[~keep].tolist(), Fault(NOTHING)))
    if wanted.max_length is not None:
        long = keep & (batch.lengths > wanted.max_length)
        if wanted.overflow == "drop":
            tally.dropped[TOO_LONG] += int(long.sum())
            keep &= ~long
        elif long.any():
            batch = truncated(batch, wanted.max_length)
            assert batch.loss_mask is not None, "as before"
            idle = long & ~have_trained(batch.lengths, batch.loss_mask)
            tally.dropped[CUT_AWAY] += int(idle.sum())
            keep &= ~idle
            tally.notes[TRUNCATED] += int((long & keep).sum())
    return keep, batch


def truncated(batch: TokenBatch, most: int) -> TokenBatch:
    """Each example's first `most` ids."""
    assert batch.loss_mask is not None, "asked only of examples"
    ends = np.cumsum(batch.lengths)
    inside = np.arange(len(batch.ids)) - np.repeat(ends - batch.lengths, batch.lengths) < most
    return TokenBatch(batch.ids[inside], np.minimum(batch.lengths, most), batch.loss_mask[inside])


def selected(batch: TokenBatch, keep: Bools) -> TokenBatch:
    """The examples that stay."""
    assert batch.loss_mask is not None, "asked only of examples"
    if keep.all():
        return batch
    edges = np.flatnonzero(np.diff(keep, prepend=False, append=False))
    bounds = np.append(0, np.cumsum(batch.lengths))[edges]
    runs = [slice(start, stop) for start, stop in bounds.reshape(-1, 2).tolist()] or [slice(0)]
    ids, mask = (np.concatenate([column[run] for run in runs]) for column in (batch.ids, batch.loss_mask))
    return TokenBatch(ids, batch.lengths[keep], mask)
