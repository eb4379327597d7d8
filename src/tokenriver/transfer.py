"""Writing a corpus in any format: from a flow of ids and documents to shards, index files and their entries in a
manifest.

Where shards end is decided first, then everything that the format cannot hold is refused, and only then is anything
written. A document that is cut by the end of a shard is closed there for the format's own bounds, and goes on in the
document index beside the shard (`NAME.docs`), which is written for every format.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenriver import files
from tokenriver.assembly import shard_targets
from tokenriver.errors import LimitError
from tokenriver.flows import Flow
from tokenriver.formats._docindex import index_header, index_path
from tokenriver.manifest import FileInfo, ShardInfo
from tokenriver.storage import Content, Format, Target, WrittenFile
from tokenriver.types import Ids, Int32, Int64

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a flow is cut into shards: about shard_tokens each, at document ends, or exactly so many; None: one shard."""

    shard_tokens: int | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Job:
    """One split to be written: its flow, its target, where shards end, and whether documents are known."""

    flow: Flow
    target: Target
    cuts: tuple[tuple[int, int], ...]
    indexed: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was written of one split."""

    shards: list[ShardInfo]
    files: list[FileInfo]
    cut_documents: int


def cut(flow: Flow, cutting: Cutting, most: int) -> tuple[tuple[int, int], ...]:
    """[start, stop) of each shard; LimitError if one would hold more than `most` ids."""
    total, wanted = flow.num_tokens, cutting.shard_tokens
    if wanted is not None and wanted > most:
        raise LimitError(f"shard_tokens: got {wanted}, expected at most {most} in this format")
    if wanted is None:
        stops = []
    elif cutting.exact:
        stops = list(range(wanted, total, wanted))
    else:
        stops = sorted({flow.end_around(target - 1) for target in shard_targets(total, wanted)} - {total})
    cuts = tuple(zip([0, *stops], [*stops, total], strict=True))
    longest = max(stop - start for start, stop in cuts)
    if longest > most:
        raise LimitError(
            f"shard: got one of {longest} ids, expected at most {most} in this format; give shard_tokens a lower number"
        )
    return cuts


def contents_of(job: Job, progress: Progress | None = None) -> list[Content]:
    """What goes into each shard of a job; `progress` is told the ids of each block that is taken."""
    return [_content(job, start, stop, progress) for start, stop in job.cuts]


def _content(job: Job, start: int, stop: int, progress: Progress | None) -> Content:
    flow = job.flow
    first = flow.ended(start) if start else 0
    last = flow.ended(stop)
    carried = stop - _last_end(flow, first, last, start)

    def ids() -> Iterator[Ids]:
        for block in flow.blocks(start, stop):
            yield _narrow(block, job.target.dtype)
            if progress is not None:
                progress(len(block))

    def ends() -> Iterator[Int64]:
        for columns in flow.documents(first, last):
            yield columns[0] - start
        if carried:
            yield np.array([stop - start], np.int64)

    def origins() -> Iterator[tuple[Int64, Int32]]:
        # the document that is cut here has its origin in a later shard's index, where it ends
        for columns in flow.documents(first, last + (carried > 0)):
            yield columns[1:]

    return Content(stop - start, last - first + (carried > 0), ids, ends, origins if job.indexed else None)


def _last_end(flow: Flow, first: int, last: int, start: int) -> int:
    """Where the last of the documents [first, last) ends; `start` if there are none."""
    return next((int(columns[0][-1]) for columns in flow.documents(last - 1, last)), start) if last > first else start


def _narrow(ids: Ids, dtype: str) -> Ids:
    """Ids in the target's dtype; LimitError for one that it cannot hold."""
    wanted: np.dtype[Any] = np.dtype(dtype).newbyteorder("<")
    if ids.dtype != wanted and len(ids) and not np.can_cast(ids.dtype, wanted, "safe"):
        limit, largest, least = int(np.iinfo(wanted).max), int(ids.max()), int(ids.min())
        if least < 0 or largest > limit:
            worst = largest if largest > limit else least
            raise LimitError(f"id: got {worst}, expected 0 to {limit}, what {dtype} holds; choose a wider dtype")
    return np.ascontiguousarray(ids, wanted)


def largest_in(dtype: str) -> int:
    """The largest id that a dtype holds."""
    return int(np.iinfo(dtype).max)


def largest_id(flow: Flow) -> int:
    """The largest id of a flow, all of it read."""
    return max((int(block.max()) for block in flow.blocks(0, flow.num_tokens)), default=0)


def write_split(out: Path, module: Format, job: Job, progress: Progress | None = None) -> Outcome:
    """Write the shards of a split below `out`, each with its document index if documents are known, and then what
    belongs to all of them. The caller has called the format's `check`, and writes the manifest."""
    folder = out / job.target.split if module.SPLIT_FOLDERS else out
    files.make_folder(folder)
    shards: list[ShardInfo] = []
    others: list[WrittenFile] = []
    done: list[tuple[WrittenFile, Content]] = []
    for number, (content, (start, stop)) in enumerate(zip(contents_of(job, progress), job.cuts, strict=True)):
        path = folder / module.file_name(job.target, number)
        main, *more = module.write(path, content, job.target)
        index = _write_index(path, job, start, stop) if job.indexed else None
        done.append((main, content))
        others += more
        shards.append(
            ShardInfo(
                file=str(path.relative_to(out)),
                split=job.target.split,
                num_tokens=content.num_tokens,
                num_documents=_documents_ending(job.flow, start, stop) if job.indexed else 0,
                num_bytes=main.num_bytes,
                sha256=main.sha256,
                index_bytes=index.num_bytes if index else 0,
                index_sha256=index.sha256 if index else "",
            )
        )
    others += module.finish(folder, job.target, done)
    infos = [FileInfo(str(file.path.relative_to(out)), file.num_bytes, file.sha256) for file in others]
    pieces = sum(content.num_documents for _, content in done)
    return Outcome(shards, infos, pieces - sum(shard.num_documents for shard in shards) if job.indexed else 0)


def _documents_ending(flow: Flow, start: int, stop: int) -> int:
    return flow.ended(stop) - (flow.ended(start) if start else 0)


def _write_index(path: Path, job: Job, start: int, stop: int) -> files.AtomicFile:
    """The document index beside a shard, one column after another."""
    flow = job.flow
    first = flow.ended(start) if start else 0
    last = flow.ended(stop)
    carried = stop - _last_end(flow, first, last, start)
    with files.AtomicFile(index_path(path)) as file:
        file.write(index_header(last - first, carried))
        for column, base, dtype in ((0, start, "<i8"), (1, 0, "<i8"), (2, 0, "<i4")):
            for columns in flow.documents(first, last):
                block: NDArray[Any] = columns[column]
                if len(block):
                    file.write(np.ascontiguousarray(block - base, dtype).data)
    return file


def refuse_unheld(module: Format, jobs: Sequence[Job]) -> None:
    """LimitError for whatever the format cannot hold, before anything is written."""
    for job in jobs:
        module.check(job.target, contents_of(job))
