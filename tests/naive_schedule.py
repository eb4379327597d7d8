"""Schedules, written again from their description alone: one row at a time, Python lists, no numpy."""

from dataclasses import dataclass, field

import naive_order

Row = tuple[int, int]
"""(river position of the first id, seq_len)."""


@dataclass
class Run:
    """Steps of a run as the rows that each serves: (seq_len, rows of each step) of each segment in turn; the last
    segment's last step goes on for ever."""

    num_tokens: int
    seed: int
    order: str
    segments: list[tuple[int, list[int]]]
    epochs: int
    _known: dict[int, list[int]] = field(default_factory=dict)

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
        epoch, inside = divmod(place, self.blocks)
        if self.order == "sequential":
            return inside
        if epoch not in self._known:
            numbers = range(epoch * self.blocks, (epoch + 1) * self.blocks)
            self._known[epoch] = [naive_order.row(g, self.blocks, self.seed) for g in numbers]
        return self._known[epoch][inside]

    def rows(self) -> list[Row]:
        """Every row of the run in its order."""
        found: list[Row] = []
        begin, end = 0, self.epochs * self.blocks
        for number, (seq_len, sizes) in enumerate(self.segments):
            parts = self.longest // seq_len
            stop = begin + sum(sizes) // parts if number < len(self.segments) - 1 else end
            for epoch in range(self.epochs):
                first, last = max(begin, epoch * self.blocks), min(stop, (epoch + 1) * self.blocks)
                windows = [(self.block(p), part) for p in range(first, last) for part in range(parts)]
                if self.order == "shuffled" and parts > 1:
                    source, size = f"parts of {parts} from block {first}", len(windows)
                    windows = [windows[naive_order.row(place, size, self.seed, source)] for place in range(size)]
                found += [(block * self.longest + part * seq_len, seq_len) for block, part in windows]
            begin = stop
        return found

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
