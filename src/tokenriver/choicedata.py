"""Multiple-choice examples as columns: what records become, what files hold, what an evaluation shows.

An example is a context and k choices, k >= 2, one of them right. The ids of one of these texts are a *piece*; pieces
lie end to end: the context of example 0, its choices, the context of example 1, and so on. Choices are numbered through
all examples, so example e has the choices choice_ends[e - 1] to choice_ends[e] and its context is the piece before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tokenriver.types import Ids, Int32, Int64, Json


@dataclass(frozen=True, slots=True)
class Rendering:
    """How records become text."""

    style: str = "auto"
    """A style by name, or each record's own."""
    answers: str = "letters"
    """mmlu: the choices are their letters, or their texts ("full")."""
    join: str = " "
    """plain: what stands between context and choice."""
    turns: bool = False
    """Does a chat template write what stands between them? Then nothing else does."""


@dataclass(frozen=True, slots=True)
class ChoiceExamples:
    """N examples with C choices and M ids in all. Columns may be mapped from a file, read-only."""

    labels: Int64
    """(N,) which choice is right, counted from 0 in each example."""
    choice_ends: Int64
    """(N,) choices of this example and all before it."""
    piece_ends: Int64
    """(N + C,) where each piece ends in `ids`; none is empty."""
    ids: Ids
    """(M,) the ids of all pieces."""
    records: Int64
    """(N,) 0-based raw row of each example in its source; its place in the file where that is not known."""
    sources: Int32
    """(N,) which of about["sources"] it comes from."""
    choice_bytes: Int64 | None = None
    """(C,) UTF-8 bytes of each choice, without the space that joins it to the context; None if they are not known."""
    about: Json = field(default_factory=dict)
    """What made them: tokenizer, style, sources, balance; {} if that is not known."""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"<ChoiceExamples: {len(self):,} examples, {self.num_choices:,} choices, {len(self.ids):,} ids>"

    @property
    def num_choices(self) -> int:
        """Choices of all examples."""
        return int(self.choice_ends[-1]) if len(self) else 0

    @property
    def counts(self) -> Int64:
        """(N,) int64: choices of each example."""
        return np.diff(self.choice_ends, prepend=0)

    def context_spans(self) -> tuple[Int64, Int64]:
        """(starts, sizes) of each context in `ids`, (N,) int64 both."""
        starts, sizes, contexts = self._pieces()
        return starts[contexts], sizes[contexts]

    def choice_spans(self) -> tuple[Int64, Int64]:
        """(starts, sizes) of each choice in `ids`, (C,) int64 both."""
        starts, sizes, contexts = self._pieces()
        return np.delete(starts, contexts), np.delete(sizes, contexts)

    def _pieces(self) -> tuple[Int64, Int64, Int64]:
        """(starts, sizes) of all pieces, and which of them are contexts."""
        starts = np.concatenate([np.zeros(1, np.int64), self.piece_ends[:-1]])
        contexts = self.choice_ends - self.counts + np.arange(len(self))
        return starts, self.piece_ends - starts, contexts

    def pieces(self, example: int) -> list[Ids]:
        """Ids of the context and of each choice of one example."""
        first = (int(self.choice_ends[example - 1]) if example else 0) + example
        last = int(self.choice_ends[example]) + example
        ends = [int(self.piece_ends[first - 1]) if first else 0, *self.piece_ends[first : last + 1].tolist()]
        return [self.ids[start:stop] for start, stop in pairwise(ends)]

    def describe(self) -> dict[str, Any]:
        """Counts and lengths as plain values. A row is a context with one of its choices, whose ids are scored."""
        (_, context), (_, choice) = self.context_spans(), self.choice_spans()
        rows = np.repeat(context, self.counts) + choice
        return {
            "examples": len(self),
            "choices": self.num_choices,
            "choices_an_example": _spread(self.counts),
            "context_ids": _spread(context),
            "choice_ids": _spread(choice),
            "row_ids": _spread(rows),
            "scored_ids": int(choice.sum()),
            "scored_share": int(choice.sum()) / int(rows.sum()),
        }

    def origin(self, example: int) -> tuple[str, int]:
        """(source, 0-based raw row) of an example; ("", its place) if the source is not known."""
        paths = self.about.get("sources", {}).get("path", [])
        return paths[int(self.sources[example])] if paths else "", int(self.records[example])

    def name(self, example: int) -> str:
        """What messages call an example: its number, and its line in its source where that is known."""
        path, record = self.origin(example)
        return f"example {example} ({path} line {record + 1})" if path else f"example {example}"


def _spread(values: Int64) -> dict[str, int]:
    ordered = np.sort(values)
    return {"min": int(ordered[0]), "median": int(ordered[len(ordered) // 2]), "max": int(ordered[-1])}


def fault(examples: ChoiceExamples) -> str:
    """The first thing that is wrong with some columns, as `what: got X, expected Y`; "" if nothing is. They may be
    hostile: values are compared before they are subtracted."""
    return next(_faults(examples), "")


def _faults(examples: ChoiceExamples) -> Iterator[str]:
    count, total = len(examples.labels), len(examples.ids)
    if not count:
        yield "number of examples: got 0, expected at least 1"
        return
    if (at := _falling(examples.choice_ends)) is not None:
        yield f"choices up to example {at}: got {examples.choice_ends[at]}, expected more than in those before it"
        return
    if int(examples.counts.min()) < 2:
        at = int(examples.counts.argmin())
        yield f"choices of example {at}: got {examples.counts[at]}, expected at least 2"
    if len(examples.piece_ends) != count + examples.num_choices:
        pieces = count + examples.num_choices
        yield f"last of the choices: got {len(examples.piece_ends)} pieces, expected {pieces}"
    elif (at := _falling(examples.piece_ends)) is not None:
        yield f"end of piece {at}: got {examples.piece_ends[at]}, expected an id more than in those before it"
    elif int(examples.piece_ends[-1]) != total:
        yield f"end of the last piece: got {examples.piece_ends[-1]}, expected {total}, the number of ids"
    outside = (examples.labels < 0) | (examples.labels >= examples.counts)
    if outside.any():
        at = int(outside.argmax())
        yield f"label of example {at}: got {examples.labels[at]}, expected 0 to {int(examples.counts[at]) - 1}"


def _falling(ends: Int64) -> int | None:
    """Where a column does not rise from 0."""
    flat = np.concatenate([ends[:1] <= 0, ends[1:] <= ends[:-1]])
    return int(flat.argmax()) if flat.any() else None
