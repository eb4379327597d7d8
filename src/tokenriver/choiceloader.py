"""Multiple-choice examples as batches for a model: k lines an example, loss on the choice alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenriver.choicedata import ChoiceExamples
from tokenriver.choiceplan import LAYOUTS, Shape, ranges
from tokenriver.errors import InputError, refuse_name
from tokenriver.types import IGNORE, Bools, Int64


@dataclass(frozen=True, slots=True)
class EvalBatch:
    """B lines of T positions; filler lines have input 0, targets IGNORE and -1 everywhere else."""

    input_ids: Int64
    """(B, T) int64: the context, then the choice; 0 behind them."""
    targets: Int64
    """(B, T) int64, already shifted: the ids of the choice where they are predicted, IGNORE (-100) elsewhere."""
    example_ids: Int64
    """(B,) int64: the example that each line belongs to; -1 for filler."""
    choice_ids: Int64
    """(B,) int64: which of its choices, from 0; -1 for filler."""
    labels: Int64
    """(B,) int64: which choice of the example is right; -1 for filler."""
    cut: Int64
    """(B,) int64: ids that the context lost on its left; 0 for filler."""
    num_targets: int
    """Positions with loss."""

    @property
    def loss_mask(self) -> Bools:
        """(B, T) bool: targets != IGNORE."""
        mask: Bools = self.targets != IGNORE
        return mask

    @property
    def position_ids(self) -> Int64:
        """(B, T) int64: 0, 1, ... in each line."""
        rows, width = self.input_ids.shape
        return np.tile(np.arange(width, dtype=np.int64), (rows, 1))


class EvalLoader:
    """Batches of some multiple-choice examples. Each loop over it is the same pass again."""

    def __init__(
        self,
        examples: ChoiceExamples,
        *,
        batch_rows: int,
        seq_len: int,
        rank: int = 0,
        world_size: int = 1,
        layout: str = "native",
    ) -> None:
        """Lines of seq_len positions, batch_rows of them a batch, for rank `rank` of `world_size`.

        layout "native": every example once over all ranks, any number of choices, long contexts cut on the left (see
        `summary`), all ranks as many batches. "llmc": the lines of llm.c's loader, to the cell, and its refusals.
        InputError for arguments that cannot be meant, LimitError for sizes that are too small."""
        refuse_name("examples", examples, "what open_choices makes of it")
        for name, value, least in (
            ("batch_rows", batch_rows, 1),
            ("seq_len", seq_len, 1),
            ("world_size", world_size, 1),
        ):
            if value < least:
                raise InputError(f"{name}: got {value}, expected at least {least}")
        if not 0 <= rank < world_size:
            raise InputError(f"rank: got {rank} of world_size {world_size}, expected 0 to {world_size - 1}")
        if layout not in LAYOUTS:
            raise InputError(f"layout: got {layout!r}, expected {' or '.join(LAYOUTS)}")
        self.examples = examples
        self.batch_rows, self.seq_len = batch_rows, seq_len
        self.rank, self.world_size = rank, world_size
        self._plan = LAYOUTS[layout](examples, Shape(batch_rows, seq_len, rank, world_size))
        self._contexts, self._choices = examples.context_spans(), examples.choice_spans()

    def __len__(self) -> int:
        """Batches of this rank, as many as of any other."""
        return len(self._plan.lines)

    def __iter__(self) -> Iterator[EvalBatch]:
        return map(self.batch, range(len(self)))

    @property
    def unscorable(self) -> Int64:
        """Numbers of the examples that no rank shows, since a choice alone is longer than a line."""
        return self._plan.unscorable

    @property
    def cut(self) -> Int64:
        """(N,) int64: ids that each example's context loses on its left; 0 for those that are unscorable."""
        lost = self._plan.cut.copy()
        lost[self._plan.unscorable] = 0
        return lost

    def summary(self) -> dict[str, Any]:
        """Counts over all ranks but for `batches` and `lines`, which are this rank's."""
        plan, counts = self._plan, self.examples.counts
        shown = np.ones(len(self.examples), np.bool_)
        shown[plan.unscorable] = False
        cut = self.cut
        return {
            "examples": len(self.examples),
            "scored": int(shown.sum()),
            "unscorable": len(plan.unscorable),
            "contexts_cut": int(np.count_nonzero(cut)),
            "context_ids_cut": int(cut.sum()),
            "rows": int(counts[shown].sum()),
            "batches": len(plan.lines),
            "lines": {"used": int((plan.lines >= 0).sum()), "filler": int((plan.lines < 0).sum())},
        }

    def batch(self, number: int) -> EvalBatch:
        """One batch of this rank, 0 to len - 1, in arrays of its own."""
        if not 0 <= number < len(self):
            raise InputError(f"batch: got {number}, expected 0 to {len(self) - 1}")
        lines = self._plan.lines[number]
        used = np.flatnonzero(lines >= 0)
        choices = lines[used]
        owners = np.searchsorted(self.examples.choice_ends, choices, "right")
        numbers = np.full((4, self.batch_rows), -1, np.int64)
        numbers[3] = 0
        first = self.examples.choice_ends[owners] - self.examples.counts[owners]
        numbers[:, used] = owners, choices - first, self.examples.labels[owners], self._plan.cut[owners]
        inputs, targets, scored = self._fill(used, choices, owners)
        example_ids, choice_ids, labels, cut = numbers
        return EvalBatch(inputs, targets, example_ids, choice_ids, labels, cut, scored)

    def _fill(self, used: Int64, choices: Int64, owners: Int64) -> tuple[Int64, Int64, int]:
        """(inputs, targets, positions with loss): the ids of all lines are gathered at once."""
        width, cut = self.seq_len + 1, self._plan.cut[owners]
        starts = np.stack([self._contexts[0][owners] + cut, self._choices[0][choices]], axis=1)
        sizes = np.stack([self._contexts[1][owners] - cut, self._choices[1][choices]], axis=1)
        lengths = sizes.sum(axis=1)
        cells = np.zeros(self.batch_rows * width, np.int64)
        cells[ranges(used * width, lengths)] = self.examples.ids[ranges(starts.ravel(), sizes.ravel())]
        rows = cells.reshape(-1, width)
        begin, end = np.zeros((2, self.batch_rows, 1), np.int64)
        begin[used, 0], end[used, 0] = sizes[:, 0] - 1, lengths - 1
        columns = np.arange(self.seq_len)
        targets = np.where((columns >= begin) & (columns < end), rows[:, 1:], IGNORE)
        inputs = np.where(columns < end + self._plan.last_input, rows[:, :-1], 0)
        return inputs, targets, int(sizes[:, 1].sum())
