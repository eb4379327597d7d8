"""Rows -> columns of multiple-choice examples: rendered, encoded together, and counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tokenriver import digests, registry
from tokenriver.chat import Chat
from tokenriver.choicedata import ChoiceExamples, Rendering
from tokenriver.choiceturns import NOT_RENDERABLE, Asked, ask, encode
from tokenriver.errors import InputError
from tokenriver.inputs import InputFile
from tokenriver.records import BLANK, LONE_SURROGATE, Fault, Records
from tokenriver.types import Ids, Int64, Json, Tokenizer


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns of the examples of some rows; lengths are of pieces."""

    labels: list[int]
    counts: list[int]
    choice_bytes: list[int]
    records: list[int]
    source: int
    ids: Ids
    lengths: Int64


class _Good(NamedTuple):
    """A row that gives an example."""

    record: int
    example: Any
    asked: Asked | None
    """Its pieces in a chat template, if there is one."""


class Collector:
    """Examples so far, all in memory; what was read is an example or in `bad`."""

    def __init__(
        self, tokenizer: Tokenizer, rendering: Rendering, sources: Sequence[InputFile], chat: Chat | None = None
    ) -> None:
        self.bad: list[tuple[int, int, str]] = []
        """(source, 0-based raw row, reason)"""
        self._tokenizer, self._rendering, self._sources, self._chat = tokenizer, rendering, sources, chat
        self._kind = registry.load("examples", "choice")
        self._parts: list[_Part] = []
        self._rows: Counter[int] = Counter()
        self._shapes: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()

    @property
    def num_rows(self) -> int:
        """Raw rows read."""
        return self._rows.total()

    @property
    def num_examples(self) -> int:
        return sum(len(part.labels) for part in self._parts)

    def add(self, source: int, rows: Records) -> None:
        """The examples of some rows of an input. InputError, with the line, for a text that the tokenizer refuses."""
        self._rows[source] += len(rows.rows)
        if rows.mended:
            self._notes[LONE_SURROGATE] += rows.mended
        bad: list[tuple[int, str]] = []
        good: list[_Good] = []
        for record, row in enumerate(rows.rows, rows.first):
            found = row.reason if isinstance(row, Fault) else self._good(record, row)
            if found == BLANK:
                self._notes[BLANK] += 1
            elif isinstance(found, str):
                bad.append((record, found))
            else:
                good.append(found)
        if good:
            bad += self._encode(source, good)
        self.bad += [(source, record, reason) for record, reason in sorted(bad)]

    def _good(self, record: int, row: object) -> _Good | str:
        """The example of a row, ready to be encoded, or why it has none."""
        one = self._kind.example(row, self._rendering)
        if isinstance(one, str):
            return one
        if self._chat is None:
            return _Good(record, one, None)
        try:
            asked = ask(self._chat, one.texts.context, one.texts.choices)
        except InputError:
            return NOT_RENDERABLE
        return _Good(record, self._kind.answered(one, asked.answers), asked)

    def _encode(self, source: int, good: list[_Good]) -> list[tuple[int, str]]:
        """Keep what has ids; the rows of which a text has none."""
        try:
            ids, ends = self._encoded(good)
        except InputError as error:
            raise self._named(source, good, error) from error
        lengths = np.diff(ends, prepend=0)
        owners = np.repeat(np.arange(len(good)), [1 + len(one.example.texts.choices) for one in good])
        stays = np.ones(len(good), np.bool_)
        stays[owners[lengths == 0]] = False
        kept = [good[place] for place in np.flatnonzero(stays).tolist()]
        if kept:
            self._keep(source, kept, ids[np.repeat(stays[owners], lengths)], lengths[stays[owners]])
        return [(good[place].record, self._kind.NO_IDS) for place in np.flatnonzero(~stays).tolist()]

    def _encoded(self, good: list[_Good]) -> tuple[Ids, Int64]:
        """(ids of all pieces, where each ends)."""
        if self._chat is None:
            found: tuple[Ids, Int64] = self._kind.encode([one.example for one in good], self._tokenizer)
            return found
        asked = [one.asked for one in good if one.asked is not None]
        self._kind.check([text for one in asked for text in one.texts], self._tokenizer)
        return encode(asked, self._chat)

    def _keep(self, source: int, kept: list[_Good], ids: Ids, lengths: Int64) -> None:
        examples = [one.example for one in kept]
        self._shapes.update(one.shape for one in examples)
        self._notes.update(note for one in examples for note in self._kind.notes(one))
        self._parts.append(
            _Part(
                labels=[one.label for one in examples],
                counts=[len(one.texts.choices) for one in examples],
                choice_bytes=[size for one in examples for size in one.texts.choice_bytes],
                records=[one.record for one in kept],
                source=source,
                ids=ids,
                lengths=lengths,
            )
        )

    def _named(self, source: int, good: list[_Good], error: InputError) -> InputError:
        """The error of a tokenizer that refuses a text, with the first such row."""
        for one in good:
            try:
                self._encoded([one])
            except InputError as first:
                return InputError(f"{self._sources[source].path}: line {one.record + 1}: {first}")
        return error

    def examples(self, options: Json) -> ChoiceExamples:
        """All that was kept, at least one; `options` are recorded beside the balance."""
        parts = self._parts
        labels = np.concatenate([part.labels for part in parts]).astype(np.int64)
        return ChoiceExamples(
            labels=labels,
            choice_ends=np.cumsum(np.concatenate([part.counts for part in parts]), dtype=np.int64),
            piece_ends=np.cumsum(np.concatenate([part.lengths for part in parts])),
            ids=np.concatenate([part.ids for part in parts]),
            records=np.concatenate([part.records for part in parts]).astype(np.int64),
            sources=np.repeat([part.source for part in parts], [len(part.labels) for part in parts]).astype(np.int32),
            choice_bytes=np.concatenate([part.choice_bytes for part in parts]).astype(np.int64),
            about=self._about(options),
        )

    def _about(self, options: Json) -> dict[str, Any]:
        made_by = self._tokenizer
        return {
            "balance": {
                "rows": self.num_rows,
                "examples": dict(sorted(self._shapes.items())),
                "bad_rows": dict(sorted(Counter(reason for *_, reason in self.bad).items())),
                "notes": dict(sorted(self._notes.items())),
            },
            "options": options,
            "sources": {
                "path": [file.name for file in self._sources],
                "size": [file.size for file in self._sources],
                "sha256": [digests.sha256_file(file.path) for file in self._sources],
                "records": [self._rows[number] for number in range(len(self._sources))],
            },
            "tokenizer": {
                "name": made_by.name,
                "fingerprint": made_by.fingerprint,
                "vocab_size": made_by.vocab_size,
            },
        }
