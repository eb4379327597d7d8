"""Writing a corpus in any format: from a flow of ids and documents to shards, index files and their entries in a
manifest.

Where shards end is decided first, then everything that the format cannot hold is refused, and only then is anything
written. A document that is cut by the end of a shard is closed there for the format's own bounds, and goes on in the
document index beside the shard (`NAME.docs`), which is written for every format.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import files
from tokenriver.assembly import shard_targets
from tokenriver.errors import LimitError
from tokenriver.formats._docindex import index_path, pack_index
from tokenriver.lossmask import mask_name, pack
from tokenriver.manifest import FileInfo, ShardInfo, TokenizerInfo
from tokenriver.storage import BLOCK_IDS, Columns, Content, Flow, Format, Target, WrittenFile
from tokenriver.types import Bools, Ids, Int32, Int64

Progress = Callable[[int], None]
MaskBlocks = Callable[[int, int], Iterator[Bools]]
"""The loss mask of the ids [start, stop) of a flow, in blocks of any length."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a flow is cut into shards: about shard_tokens each, at document ends, or exactly so many; None: one shard.
    With samples, which have so many ids each, shards hold whole samples, and what is left at the end has its own."""

    shard_tokens: int | None
    exact: bool
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """One shard: the ids [start, stop) of a flow, and the documents [first, last) that end in it; the last `carried`
    ids are of a document that ends in a later shard."""

    start: int
    stop: int
    first: int
    last: int
    carried: int


@dataclass(frozen=True, slots=True)
class Job:
    """One split to be written: its flow, its target, its shards, whether documents are known, and its loss mask."""

    flow: Flow
    target: Target
    cuts: tuple[Cut, ...]
    indexed: bool
    mask: MaskBlocks | None = None
    samples: int | None = None
    """Ids of each sample, which takes the place of a document in the format's own bounds."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was written of one split."""

    shards: list[ShardInfo]
    files: list[FileInfo]
    cut_documents: int


def base_target(name: str, dtype: str, layout: str, made_by: TokenizerInfo | None, sources: Sequence[str]) -> Target:
    """What the targets of all splits of a corpus have in common."""
    return Target(
        name=name,
        split="",
        dtype=dtype,
        shards=0,
        tokenizer=made_by.name if made_by else None,
        vocab_size=made_by.vocab_size if made_by else None,
        bos_id=made_by.bos_id if made_by else None,
        eos_id=made_by.eos_id if made_by else None,
        sources=sources,
        layout=layout,
    )


def make_job(
    flow: Flow, module: Format, cutting: Cutting, target: Target, *, indexed: bool, mask: MaskBlocks | None = None
) -> Job:
    """The job of writing a flow to a target, whose number of shards is filled in; LimitError if a shard would hold more
    ids than the format allows."""
    total, wanted, most = flow.num_tokens, cutting.shard_tokens, module.MAX_SHARD_TOKENS
    if wanted is not None and wanted > most:
        raise LimitError(f"shard_tokens: got {wanted}, expected at most {most} in this format")
    if cutting.samples is not None:
        stops = _sample_stops(total, min(most, total if wanted is None else wanted), cutting.samples)
    elif wanted is None:
        stops = []
    elif cutting.exact:
        stops = list(range(wanted, total, wanted))
    else:
        stops = sorted({flow.end_around(at - 1) for at in shard_targets(total, wanted)} - {total})
    cuts = tuple(_cuts(flow, [*stops, total]))
    longest = max(cut.stop - cut.start for cut in cuts)
    if longest > most:
        raise LimitError(
            f"shard: got one of {longest} ids, expected at most {most} in this format; give shard_tokens a lower number"
        )
    return Job(flow, replace(target, shards=len(cuts)), cuts, indexed, mask, cutting.samples)


def _sample_stops(total: int, wanted: int, size: int) -> list[int]:
    """Where shards of at most `wanted` ids end that hold whole samples of a size; the rest of the ids has a shard of
    its own, since a format may hold samples of one length alone."""
    if wanted < min(size, total):
        raise LimitError(f"sample_tokens: got {size}, expected at most {wanted}, the ids of a shard")
    whole = total - total % size
    stops = list(range(wanted - wanted % size, whole, wanted - wanted % size)) if whole else []
    return [*stops, whole] if 0 < whole < total else stops


def _cuts(flow: Flow, stops: Sequence[int]) -> Iterator[Cut]:
    start = first = end = 0
    for stop in stops:
        last = flow.ended(stop)
        if last > first:
            end = next(int(ends[-1]) for ends, *_ in flow.documents(last - 1, last))
        yield Cut(start, stop, first, last, stop - max(start, end))
        start, first = stop, last


def contents_of(job: Job, progress: Progress | None = None) -> list[Content]:
    """What goes into each shard of a job; `progress` is told the ids of each block that is taken."""
    return [_content(job, cut, progress) for cut in job.cuts]


def _content(job: Job, cut: Cut, progress: Progress | None) -> Content:
    flow, cut_documents = job.flow, int(cut.carried > 0)

    def ids() -> Iterator[Ids]:
        for block in flow.blocks(cut.start, cut.stop):
            yield _narrow(block, job.target.dtype)
            if progress is not None:
                progress(len(block))

    def ends() -> Iterator[Int64]:
        if job.samples is not None:
            yield from _sample_ends(cut.stop - cut.start, job.samples)
            return
        for columns in _columns(flow, cut):
            yield columns[0]
        if cut.carried:
            yield np.array([cut.stop - cut.start], np.int64)

    def origins() -> Iterator[tuple[Int64, Int32]]:
        # the document that is cut here has its origin in a later shard's index, where it ends
        for columns in flow.documents(cut.first, cut.last + cut_documents):
            yield columns[1:]

    if job.samples is not None:
        return Content(cut.stop - cut.start, -(-(cut.stop - cut.start) // job.samples), ids, ends, None)
    count = cut.last - cut.first + cut_documents
    return Content(cut.stop - cut.start, count, ids, ends, origins if job.indexed and job.target.sources else None)


def _sample_ends(count: int, size: int) -> Iterator[Int64]:
    """Where samples of a size end in `count` ids, the last one perhaps shorter."""
    for at in range(0, count, size * BLOCK_IDS):
        stop = min(count, at + size * BLOCK_IDS)
        yield np.minimum(np.arange(at + size, stop + size, size, dtype=np.int64), stop)


def _columns(flow: Flow, cut: Cut) -> Iterator[Columns]:
    """The documents that end in a shard, ends counted from its first id."""
    for ends, records, sources in flow.documents(cut.first, cut.last):
        yield ends - cut.start, records, sources


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
    for number, (content, cut) in enumerate(zip(contents_of(job, progress), job.cuts, strict=True)):
        path = folder / module.file_name(job.target, number)
        main, *more = module.write(path, content, job.target)
        index = _write_index(path, job.flow, cut) if job.indexed else None
        done.append((main, content))
        others += more
        if job.mask is not None:
            others.append(_write_mask(path, job.mask(cut.start, cut.stop)))
        shards.append(
            ShardInfo(
                file=str(path.relative_to(out)),
                split=job.target.split,
                num_tokens=content.num_tokens,
                num_documents=cut.last - cut.first if job.indexed else 0,
                num_bytes=main.num_bytes,
                sha256=main.sha256,
                index_bytes=index.num_bytes if index else 0,
                index_sha256=index.sha256 if index else "",
            )
        )
    others += module.finish(folder, job.target, done)
    infos = [FileInfo(str(file.path.relative_to(out)), file.num_bytes, file.sha256) for file in others]
    return Outcome(shards, infos, sum(cut.carried > 0 for cut in job.cuts) if job.indexed else 0)


def _write_index(path: Path, flow: Flow, cut: Cut) -> files.AtomicFile:
    """The document index beside a shard."""
    with files.AtomicFile(index_path(path)) as file:
        for piece in pack_index(cut.last - cut.first, cut.carried, lambda: _columns(flow, cut)):
            file.write(piece)
    return file


def _write_mask(path: Path, blocks: Iterator[Bools]) -> WrittenFile:
    """The loss mask beside a shard."""
    with files.AtomicFile(path.with_name(mask_name(path.name))) as file:
        for piece in pack(blocks):
            file.write(piece)
    return WrittenFile(file.path, file.num_bytes, file.sha256)


def refuse_unheld(module: Format, jobs: Sequence[Job]) -> None:
    """LimitError for whatever the format cannot hold, before anything is written."""
    for job in jobs:
        if job.mask is not None and not getattr(module, "LOSS_MASKS", False):
            raise LimitError(
                "loss masks: got a corpus of examples with them, expected none: the format has no place for them; "
                "keep it native"
            )
        module.check(job.target, contents_of(job))
