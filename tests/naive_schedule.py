"""Schedules, written again from their description alone: one row at a time, Python lists, no numpy."""

from collections.abc import Sequence
from dataclasses import dataclass

import naive_order

Row = tuple[int, int]
"""(river position of the first id, seq_len)."""


def parts_of(
    lengths: Sequence[tuple[int, int]], blocks: int, epochs: int, seed: int | None
) -> list[tuple[int, int, int]]:
    """(block's place in the run, part of the block, seq_len) of every row of a run of so many epochs of blocks of the
    longest seq_len. `lengths`: (row number, seq_len) of each segment; seed None: in order."""
    found: list[tuple[int, int, int]] = []
    longest, begin = max(seq_len for _, seq_len in lengths), 0
    for number, (row, seq_len) in enumerate(lengths):
        parts, stop = longest // seq_len, epochs * blocks
        if number + 1 < len(lengths):
            stop = begin + (lengths[number + 1][0] - row) // parts
        for epoch in range(epochs):
            first, last = max(begin, epoch * blocks), min(stop, (epoch + 1) * blocks)
            windows = [(place, part, seq_len) for place in range(first, last) for part in range(parts)]
            if seed is not None and parts > 1:
                source, size = f"parts of {parts} from block {first}", len(windows)
                windows = [windows[naive_order.row(place, size, seed, source)] for place in range(size)]
            found += windows
        begin = stop
    return found


@dataclass
class Run:
    """Steps of a run as the rows that each serves: (seq_len, rows of each step) of each segment in turn; the last
    segment's last step goes on for ever."""

    num_tokens: int
    seed: int
    order: str
    segments: list[tuple[int, list[int]]]
    epochs: int

    @property
    def longest(self) -> int:
        return max(seq_len for seq_len, _ in self.segments)

    @property
    def blocks(self) -> int:
        return (self.num_tokens - 1) // self.longest

    def changes(self) -> list[tuple[int, dict[str, int]]]:
        """The schedule that a loader is given; its first step's sizes are arguments of their own."""
        found, step, last = [], 0, (0, 0)
        for seq_len, sizes in self.segments:
            for size in sizes:
                if (seq_len, size) != last and step:
                    found.append((step, {"seq_len": seq_len, "global_batch": size}))
                last, step = (seq_len, size), step + 1
        return found

    def block(self, place: int) -> int:
        """The block at a place of the run."""
        return place % self.blocks if self.order == "sequential" else naive_order.row(place, self.blocks, self.seed)

    def rows(self) -> list[Row]:
        """Every row of the run in its order."""
        lengths, begin = [], 0
        for seq_len, sizes in self.segments:
            lengths.append((begin, seq_len))
            begin += sum(sizes)
        parts = parts_of(lengths, self.blocks, self.epochs, self.seed if self.order == "shuffled" else None)
        return [(self.block(place) * self.longest + part * seq_len, seq_len) for place, part, seq_len in parts]

    def steps(self) -> list[tuple[int, int, list[Row]]]:
        """(row number of the first row, global batch, rows) of each step."""
        sizes = [size for _, segment in self.segments for size in segment]
        found: list[tuple[int, int, list[Row]]] = []
        rows, at = self.rows(), 0
        while at < len(rows):
            size = sizes[min(len(found), len(sizes) - 1)]
            found.append((at, size, rows[at : at + size]))
            at += size
        return found
