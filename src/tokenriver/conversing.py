"""Raw records -> encoded examples: each read by its shape, rendered by a template, encoded chunk by chunk.

A record that gives no example is told of with the reason, and so is what was cut or left out of the others. A thread
encodes one chunk while the next is read and rendered, where the encoder does without the interpreter's lock.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson

from tokenriver import registry
from tokenriver.chat import Chat
from tokenriver.errors import InputError, RiverError
from tokenriver.forms import Filled, Turns
from tokenriver.hashing import held_out
from tokenriver.inputs import InputFile
from tokenriver.messages import Message, Rendered
from tokenriver.records import LONE_SURROGATE, Fault, Records, read_records
from tokenriver.spool import num_trained
from tokenriver.tally import ListingTally
from tokenriver.types import Bools, Int64, Json, SourceOptions, TokenBatch

AHEAD = 1
"""Chunks that are read and rendered while one is encoded."""
NOTHING = "nothing-to-train"
TOO_LONG = "too-long"
CUT_AWAY = "answer-cut-away"
TRUNCATED = "truncated"
EMPTY = TokenBatch(np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.bool_))


class RecordReader(Protocol):
    """Reads the records of one input (examples/sft.py)."""

    def read(self, record: Json) -> tuple[list[Message], Sequence[Json], Sequence[str]]:
        """Messages, tools, and what was left out of them."""

    def turns(self, record: Json) -> Turns | None:
        """The same sooner, for a record of which that is messages with a role and a content each and nothing else; None
        for what only `read` can tell."""


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
    """What can be encoded of some rows: conversations, the rows' places, and whether each is held out; and what is
    wrong with other rows."""

    rendered: list[Rendered | Filled]
    places: Int64
    held: Bools
    faults: dict[int, Fault]


class _Part(NamedTuple):
    """Some rows of an input, and what of them is to be encoded."""

    source: int
    file: InputFile
    rows: Records
    chunk: _Chunk


def encode_records(files: Sequence[InputFile], chat: Chat, wanted: Wanted, tally: ListingTally) -> Iterator[Examples]:
    """The examples of all inputs, in order. InputError for an input that cannot be read, or whose shape is unknown;
    MismatchError if the fast encoder is not what its reference is."""
    chat.self_check()
    parts = _parts(files, chat, wanted, tally)
    waiting: deque[tuple[_Part, Callable[[], TokenBatch]]] = deque()
    failure: RiverError | None = None
    more = True
    with ThreadPoolExecutor(1) as thread:
        while more or waiting:
            try:
                part = next(parts, None)
            except RiverError as error:  # what was read before comes first
                failure, part = error, None
            more = part is not None
            if part is not None:
                encode = partial(_encoded, chat, part.chunk)
                waiting.append((part, thread.submit(encode).result if chat.threaded else encode))
            if waiting and (not more or len(waiting) > AHEAD):
                begun, batch = waiting.popleft()
                yield _ended(begun, batch(), wanted, tally)
    if failure is not None:
        raise failure


def _parts(files: Sequence[InputFile], chat: Chat, wanted: Wanted, tally: ListingTally) -> Iterator[_Part]:
    for source, file in enumerate(files):
        renderer = _Renderer(file, chat, wanted, tally)
        for rows in read_records(file, SourceOptions()):
            yield _Part(source, file, rows, renderer.chunk(rows))


def _encoded(chat: Chat, chunk: _Chunk) -> TokenBatch:
    return chat.encode(chunk.rendered) if chunk.rendered else EMPTY


def _ended(part: _Part, batch: TokenBatch, wanted: Wanted, tally: ListingTally) -> Examples:
    """What stays of some rows, all of them counted."""
    source, file, rows, chunk = part
    tally.rows[source] += len(rows.rows)
    if rows.mended:
        tally.notes[LONE_SURROGATE] += rows.mended
    keep, batch = _fitted(chunk, batch, wanted, tally)
    for place, fault in sorted(chunk.faults.items()):
        tally.fault(file, rows.first + place, rows.offset_of(place), fault)
    return Examples(source, selected(batch, keep), chunk.places[keep] + rows.first, chunk.held[keep])


class _Renderer:
    """Makes what can be encoded of the records of one input, or says why it cannot."""

    def __init__(self, file: InputFile, chat: Chat, wanted: Wanted, tally: ListingTally) -> None:
        self._module = registry.load("examples", "sft")
        self._reader: RecordReader = self._module.Reader(str(file.path), wanted.shape)
        self._chat, self._roles, self._tally = chat, chat.roles, tally
        self._fraction = wanted.val_fraction

    def chunk(self, rows: Records) -> _Chunk:
        """What can be encoded of some rows."""
        rendered: list[Rendered | Filled] = []
        places, talks = [], []
        faults: dict[int, Fault] = {}
        hashed = self._fraction > 0
        for place, row in enumerate(rows.rows):
            found = row if isinstance(row, Fault) else self._render(row)
            if isinstance(found, Fault):
                faults[place] = found
                continue
            rendered.append(found[0])
            places.append(place)
            if hashed:
                talks.append(_content(found[1]))
        held = held_out(talks, self._fraction) if hashed else np.zeros(len(rendered), np.bool_)
        return _Chunk(rendered, np.array(places, np.int64), held, faults)

    def _render(self, row: dict[str, Any]) -> Fault | tuple[Rendered | Filled, Turns | list[Message]]:
        try:
            turns = self._reader.turns(row)
            if turns is not None and (filled := self._chat.fill(turns)) is not None:
                return filled, turns
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


def _content(said: Turns | Sequence[Message]) -> bytes:
    """What a conversation says, the same for equal ones: it decides the split."""
    if isinstance(said, Turns):
        columns: list[list[Any]] = [[role, content, None, [], None] for role, content in zip(*said, strict=True)]
    else:
        columns = [[m.role, m.content, m.reasoning, list(m.tool_calls), m.train] for m in said]
    return orjson.dumps(columns, option=orjson.OPT_SORT_KEYS)


def _fitted(chunk: _Chunk, batch: TokenBatch, wanted: Wanted, tally: ListingTally) -> tuple[Bools, TokenBatch]:
    """(which examples stay, all of them): they have something to train on, and none is too long. Those with nothing are
    put among the faults."""
    assert batch.loss_mask is not None, "a chat says what is trained"
    keep = num_trained(batch.lengths, batch.loss_mask) > 0
    chunk.faults.update(dict.fromkeys(chunk.places[~keep].tolist(), Fault(NOTHING)))
    if wanted.max_length is not None:
        long = keep & (batch.lengths > wanted.max_length)
        if wanted.overflow == "drop":
            tally.dropped[TOO_LONG] += int(long.sum())
            keep &= ~long
        elif long.any():
            batch = truncated(batch, wanted.max_length)
            assert batch.loss_mask is not None, "as before"
            idle = long & (num_trained(batch.lengths, batch.loss_mask) == 0)
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
    ids = np.repeat(keep, batch.lengths)
    return TokenBatch(batch.ids[ids], batch.lengths[keep], batch.loss_mask[ids])
