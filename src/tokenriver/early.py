"""Shards begun while units are still being encoded: a head start for assembly, and nothing that it depends on.

Where a shard ends is known long before the build does (see `assembly.shard_targets`), so a thread copies finished parts
into the shards' temporary files in plan order, and the disk begins with them at once. Assembly takes such a file over,
cuts it or appends to it, and compares it with the parts as if it had written it itself; without the head start it
writes the same bytes.
"""

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import numpy as np

from tokenriver.assembly import Segment, cut_segment, is_final
from tokenriver.errors import RiverError
from tokenriver.feeding import Feeder
from tokenriver.files import AtomicFile, naming
from tokenriver.parts import Receipt, part_path, read_documents
from tokenriver.shards import HEADER_BYTES, Begun, shard_path


@dataclass(frozen=True, slots=True)
class EarlyOptions:
    """What the shards will be called and how long they will be."""

    out: Path
    name: str
    first: int
    """Number of the first shard to be written."""
    shard_tokens: int


class EarlyShards:
    """Copies the finished units of a build in a thread of its own; without options it does nothing. A context manager:
    leaving the block by an exception removes what was begun."""

    def __init__(self, options: EarlyOptions | None, feeder: Feeder) -> None:
        self._options = options
        self._feeder = feeder
        self._item = np.dtype(feeder.work.dtype).itemsize
        self._offered = 0
        self._todo: SimpleQueue[Receipt | None] = SimpleQueue()
        self._begun: list[Begun] = []
        self._waiting: list[tuple[Receipt, Segment]] = []
        self._seen = 0
        self._written = 0
        self._target = 0
        """Where the last shard ends, or would; reached if it is not above what was written."""
        self._thread = threading.Thread(target=self._run, name="tokenriver-early", daemon=True)
        if options is not None:
            self._thread.start()

    def offer(self) -> None:
        """Take up the units that are done with no gap before them."""
        issued, receipts = self._feeder.issued, self._feeder.receipts
        while self._offered < len(issued) and issued[self._offered] in receipts:
            self._todo.put(receipts[issued[self._offered]])
            self._offered += 1

    def finish(self) -> dict[Path, Begun]:
        """Stop, and hand over what was begun, by the shard's path."""
        if self._thread.is_alive():
            self._todo.put(None)
            self._thread.join()
        return {begun.file.path: begun for begun in self._begun}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for begun in self.finish().values() if kind is not None else ():
            begun.file.discard()

    def _run(self) -> None:
        try:
            while (receipt := self._todo.get()) is not None:
                self._add(receipt)
        except RiverError:
            # assembly will meet the same trouble and report it
            for begun in self._begun:
                begun.file.discard()
            self._begun = []
            while self._todo.get() is not None:
                pass

    def _add(self, receipt: Receipt) -> None:
        if not receipt.num_documents:
            return
        self._seen += receipt.num_ids
        self._waiting.append((receipt, Segment(0, 0, receipt.num_documents, 0, receipt.num_ids)))
        while self._waiting and self._room():
            self._copy(*self._waiting.pop(0))

    def _room(self) -> bool:
        """Is there a shard to write to? A next one is begun when it is sure that the last one ends where it does."""
        options = self._options
        assert options is not None, "the thread runs with options only"
        if self._written < self._target:
            return True
        if self._begun:
            if not is_final(self._target, options.shard_tokens, self._seen):
                return False
            self._begun[-1].file.release()
        file = AtomicFile(shard_path(options.out, options.name, "train", options.first + len(self._begun)))
        self._begun.append(Begun(file, 0))
        file.write(bytes(HEADER_BYTES))
        self._target = (self._written // options.shard_tokens + 1) * options.shard_tokens
        return True

    def _copy(self, receipt: Receipt, segment: Segment) -> None:
        """Copy a segment as far as the shard goes; the rest waits."""
        begun, left = self._begun[-1], self._target - self._written
        if left <= segment.stop - segment.start:
            ends = read_documents(self._feeder.work.folder, receipt, self._item).ends
            head, rest, _ = cut_segment(ends, segment, left, "up")
            if rest is not None:
                self._waiting.insert(0, (receipt, rest))
            assert head is not None, "a cut upwards takes at least one document"
            segment = head
        path = part_path(self._feeder.work.folder, receipt.key)
        with naming(path, "read"), path.open("rb", buffering=0) as part:
            begun.file.copy_from(part.fileno(), segment.start * self._item, segment.stop * self._item)
        self._written += segment.stop - segment.start
        self._begun[-1] = replace(begun, num_ids=begun.num_ids + segment.stop - segment.start)
