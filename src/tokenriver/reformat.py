"""The end of a build in a format that is not our own: from finished parts to that format's shards.

What can be refused before a text is read (a vocabulary too large, a format that is read only) is refused there; the
rest, when all documents are known and nothing of the target is written yet. What was written is read back through the
format's own reader and compared with the parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tokenriver import registry, transfer
from tokenriver.assembly import Parts, Plan
from tokenriver.buildplan import BuildOptions
from tokenriver.errors import InputError, LimitError
from tokenriver.manifest import FileInfo, tokenizer_info
from tokenriver.partflow import PartFlow
from tokenriver.parts import differs
from tokenriver.storage import Format, ShardReader, WrittenFile
from tokenriver.transfer import Cut, Cutting, Job, Outcome
from tokenriver.types import Int64, Tokenizer

OURS = ("native", "llmc")
"""Formats whose shards are copied from the parts as they are."""


def stored_dtype(options: BuildOptions, vocab_size: int, encoded: str) -> str:
    """How ids of a vocabulary are stored in the format: as asked, as they are encoded, or in its first dtype that holds
    them. InputError for a format that is read only, LimitError where no dtype fits."""
    if options.format in OURS:
        return encoded
    module: Format = registry.load("formats", options.format)
    if not module.DTYPES:
        raise InputError(f"format: got {options.format!r}, which is read only; choose another")
    allowed = (options.stored,) if options.stored else tuple(dict.fromkeys((encoded, *module.DTYPES)))
    fitting = [d for d in allowed if d in module.DTYPES and vocab_size - 1 <= transfer.largest_in(d)]
    if not fitting:
        raise LimitError(
            f"vocabulary: got ids up to {vocab_size - 1}, expected at most "
            f"{max(map(transfer.largest_in, module.DTYPES))} in {options.format}; choose another format"
        )
    return fitting[0]


@dataclass(frozen=True, slots=True)
class Encoded:
    """What a build has made: its parts, where they go, the rows before each unit's pieces, and the inputs' names."""

    parts: Parts
    plan: Plan
    rows_before: Sequence[Int64]
    sources: Sequence[str]


def write_parts(out: Path, options: BuildOptions, dtype: str, found: Encoded, made_by: Tokenizer) -> dict[str, Outcome]:
    """Write the splits of a plan in the format, ids stored as `dtype`."""
    module: Format = registry.load("formats", options.format)
    encoded = "uint16" if found.parts.item_bytes == 2 else "uint32"
    target = transfer.base_target(options.name, dtype, options.layout, tokenizer_info(made_by), found.sources)
    jobs = []
    for split, shards in sorted(found.plan.splits.items()):
        flow = PartFlow(found.parts, encoded, [segment for shard in shards for segment in shard], found.rows_before)
        flow.check()
        cutting = Cutting(options.shard_tokens, exact=False)
        jobs.append(transfer.make_job(flow, module, cutting, replace(target, split=split), indexed=True))
    transfer.refuse_unheld(module, jobs)
    outcomes = {}
    for job in jobs:
        outcomes[job.target.split] = outcome = transfer.write_split(out, module, job)
        for shard, cut in zip(outcome.shards, job.cuts, strict=True):
            _compare(out / shard.file, module, job, cut)
    return outcomes


def vocabulary_files(out: Path, made_by: Tokenizer | None) -> list[FileInfo]:
    """Write a vocabulary that lies nowhere but in its corpus (`char`) beside the shards; nothing for any other."""
    if made_by is None or not hasattr(made_by, "write_beside"):
        return []
    written: WrittenFile = made_by.write_beside(out)
    return [FileInfo(written.path.name, written.num_bytes, written.sha256)]


def _compare(path: Path, module: Format, job: Job, cut: Cut) -> None:
    """Read a shard back and compare its ids with the flow's."""
    reader: ShardReader = module.open_reader(path, dtype=job.target.dtype)
    at = 0
    for block in job.flow.blocks(cut.start, cut.stop):
        if reader.num_tokens < at + len(block) or not np.array_equal(reader.read(at, at + len(block)), block):
            raise differs(path)
        at += len(block)
    reader.close()
