"""Which line of which batch shows which choice, and how much of its context: arithmetic over whole columns.

The choices of an example are lines side by side in one batch. A context that is too long is cut on the left, equally
for all its choices, so that their losses compare; what even one id of context leaves no room for is unscorable.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tokenriver.choicedata import ChoiceExamples
from tokenriver.errors import InputError, LimitError
from tokenriver.types import Int64

LLMC_CHOICES = 4
LLMC_OVERHEAD = 10
"""uint16 of a record of llm.c's file that are no ids."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a loader was asked for."""

    batch_rows: int
    seq_len: int
    rank: int
    world_size: int


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """The lines of one rank."""

    lines: Int64
    """(batches, B) number of the choice, counted through all examples, that each line shows; -1 for filler."""
    cut: Int64
    """(N,) ids that each example's context loses on its left."""
    unscorable: Int64
    """Numbers of the examples that no batch of any rank shows, rising."""
    last_input: bool
    """Is the last id of a choice an input too? It has no target."""


def ranges(starts: Int64, sizes: Int64) -> Int64:
    """start, start + 1, ... of so many numbers from each start, end to end."""
    ends = np.cumsum(sizes)
    found: Int64 = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return found


def native(examples: ChoiceExamples, shape: Shape) -> ChoicePlan:
    """Every example that fits, once over all ranks, in the same batches for any number of ranks: rank r of W has the
    batches r, r + W, ..., and batches of filler where others have one more."""
    (_, contexts), (_, choices) = examples.context_spans(), examples.choice_spans()
    first = examples.choice_ends - examples.counts
    room = shape.seq_len + 1 - np.maximum.reduceat(choices, first)
    fits = np.flatnonzero(room >= 1)
    if not len(fits):
        raise LimitError(
            f"seq_len: got {shape.seq_len}, expected at least {shape.seq_len + 1 - int(room.max())}, the ids of the "
            "shortest of the examples' longest choices; raise it"
        )
    largest = int(fits[examples.counts[fits].argmax()])
    if examples.counts[largest] > shape.batch_rows:
        raise LimitError(
            f"batch_rows: got {shape.batch_rows}, expected at least {examples.counts[largest]}, the choices of "
            f"{examples.name(largest)}; raise it"
        )
    order, batches = _together(fits, examples.counts, shape.batch_rows)
    lines = _lay(examples, order, batches, shape.batch_rows)
    count = -(-len(lines) // shape.world_size)
    own = np.full((count, shape.batch_rows), -1, np.int64)
    mine = lines[shape.rank :: shape.world_size]
    own[: len(mine)] = mine
    return ChoicePlan(own, np.maximum(contexts - room, 0), np.flatnonzero(room < 1), last_input=False)


def llmc(examples: ChoiceExamples, shape: Shape) -> ChoicePlan:
    """The lines of llm.c's EvalLoader: a stretch of ceil(N / W) examples a rank, four lines each, lines beyond a
    multiple of four unused. A rank whose stretch begins behind the end has none (there the original dies)."""
    _refuse_llmc(examples, shape)
    per_rank, capacity = -(-len(examples) // shape.world_size), shape.batch_rows // LLMC_CHOICES
    start, stop = (min((shape.rank + more) * per_rank, len(examples)) for more in (0, 1))
    order = np.arange(start, stop)
    own = np.full((-(-per_rank // capacity), shape.batch_rows), -1, np.int64)
    laid = _lay(examples, order, (order - start) // capacity, shape.batch_rows)
    own[: len(laid)] = laid
    nothing = np.zeros(0, np.int64)
    return ChoicePlan(own, np.zeros(len(examples), np.int64), nothing, last_input=True)


LAYOUTS: Mapping[str, Callable[[ChoiceExamples, Shape], ChoicePlan]] = {"native": native, "llmc": llmc}


def _refuse_llmc(examples: ChoiceExamples, shape: Shape) -> None:
    other = "use the native layout"
    if shape.batch_rows < LLMC_CHOICES:
        raise InputError(f"batch_rows: got {shape.batch_rows}, expected at least {LLMC_CHOICES} as in llm.c")
    if len(examples) < shape.world_size:
        raise LimitError(
            f"world_size: got {shape.world_size}, expected at most {len(examples)}, the examples, as in llm.c; {other}"
        )
    wrong = examples.counts != LLMC_CHOICES
    if wrong.any():
        at = int(wrong.argmax())
        raise LimitError(
            f"{examples.name(at)}: choices: got {examples.counts[at]}, expected {LLMC_CHOICES} as in llm.c; {other}"
        )
    (_, contexts), (_, choices) = examples.context_spans(), examples.choice_spans()
    longest = contexts + choices.reshape(-1, LLMC_CHOICES).max(axis=1)
    at = int(longest.argmax())
    if longest[at] >= shape.seq_len:
        raise LimitError(
            f"seq_len: got {shape.seq_len}, expected more than {longest[at]}, the ids of {examples.name(at)}; raise "
            f"it, or {other}"
        )
    records = 2 * (LLMC_OVERHEAD + contexts + choices.reshape(-1, LLMC_CHOICES).sum(axis=1))
    at = int(records.argmax())
    if records[at] >= 10 * shape.seq_len:
        raise LimitError(
            f"seq_len: got {shape.seq_len}, expected more than {int(records[at]) // 10}: llm.c takes records below "
            f"10 bytes a position, {examples.name(at)} has {records[at]}; raise it, or {other}"
        )


def _together(fits: Int64, counts: Int64, batch_rows: int) -> tuple[Int64, Int64]:
    """(examples, the batch of each), batch by batch: each begins with the most choices that are left and is filled up
    with the most that fit, so that few lines stay unused; examples of one number of choices keep their order."""
    kinds = np.unique(counts[fits])[::-1].tolist()
    left = {kind: fits[counts[fits] == kind] for kind in kinds}
    done = dict.fromkeys(kinds, 0)
    order: list[Int64] = []
    batches = 0
    sizes: list[int] = []
    while any(done[kind] < len(left[kind]) for kind in kinds):
        room, size = batch_rows, 0
        for kind in kinds:
            take = min(room // kind, len(left[kind]) - done[kind])
            if take:
                order.append(left[kind][done[kind] : done[kind] + take])
                done[kind] += take
                room -= take * kind
                size += take
        sizes.append(size)
        batches += 1
    return np.concatenate(order), np.repeat(np.arange(batches), sizes)


def _lay(examples: ChoiceExamples, order: Int64, batches: Int64, batch_rows: int) -> Int64:
    """(batches, B) the choices of each example side by side in its batch."""
    count = int(batches[-1]) + 1 if len(batches) else 0
    lines = np.full(count * batch_rows, -1, np.int64)
    sizes = examples.counts[order]
    ends = np.cumsum(sizes)
    before = (ends - sizes)[np.searchsorted(batches, batches)]  # lines of the batches before this one
    places = batches * batch_rows + (ends - sizes) - before
    lines[ranges(places, sizes)] = ranges(examples.choice_ends[order] - sizes, sizes)
    return lines.reshape(count, batch_rows)
