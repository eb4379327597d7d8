"""What a given trainer would refuse about a corpus, and what it would swallow with a surprise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LLMC_HEADER = 1024
INT32 = 2**31


@dataclass(frozen=True, slots=True)
class Shard:
    """One file that the trainer would open."""

    path: Path
    split: str
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Facts:
    """A corpus as a trainer meets it."""

    format: str
    dtype: np.dtype[Any]
    shards: Sequence[Shard]
    seq_len: int | None
    global_batch: int | None
    world_size: int
    masked: bool = False
    """Has it loss masks?"""


Answer = tuple[list[str], list[str]]
"""(refusals, remarks)"""


def llmc(facts: Facts) -> Answer:
    """llm.c's C trainers: a header with int32 counts, int32 file offsets, and one whole step in every shard."""
    refused: list[str] = []
    remarks: list[str] = []
    if facts.format not in ("native", "llmc"):
        refused.append(f"format: got {facts.format}, expected llm.c shards; build with --format llmc")
        return refused, remarks
    item = facts.dtype.itemsize
    if item != 2:
        refused.append(f"dtype: got {facts.dtype}, expected uint16; only the Python trainer reads version 7 files")
    for shard in facts.shards:
        if shard.num_tokens >= INT32:
            refused.append(
                f"{shard.path}: ids: got {shard.num_tokens:,}, expected fewer than 2^31; lower --shard-tokens"
            )
        elif LLMC_HEADER + shard.num_tokens * item >= INT32:
            size = LLMC_HEADER + shard.num_tokens * item
            refused.append(f"{shard.path}: size: got {size:,} bytes, expected fewer than 2^31; lower --shard-tokens")
    if facts.seq_len and facts.global_batch:
        refused += _llmc_steps(facts, facts.seq_len, facts.global_batch)
    else:
        remarks.append("the least size of a shard depends on --seq-len and --batch-size: give both to have it checked")
    if facts.masked:
        remarks.append("loss masks: the trainers read none, so every id would be trained, prompts too")
    if not any(shard.split == "val" for shard in facts.shards):
        remarks.append("there is no val split; the trainers open one (-j): give --val-fraction or name another corpus")
    return refused, remarks


def _llmc_steps(facts: Facts, seq_len: int, global_batch: int) -> list[str]:
    if global_batch % facts.world_size:
        return [f"--batch-size: got {global_batch} rows, expected a multiple of --world-size {facts.world_size}"]
    needed = global_batch * seq_len + 1
    least = f"{facts.world_size} x {global_batch // facts.world_size} x {seq_len} + 1 = {needed:,}"
    return [
        f"{shard.path}: ids: got {shard.num_tokens:,}, expected at least {least}; lower the batch"
        for shard in facts.shards
        if shard.num_tokens < needed
    ]


def nanogpt(facts: Facts) -> Answer:
    """nanoGPT: train.bin and val.bin, bare uint16 ids."""
    refused: list[str] = []
    remarks: list[str] = []
    if facts.format != "nanogpt":
        refused.append(
            f"format: got {facts.format}, expected bare ids; its first {LLMC_HEADER // 2} ids would be the header"
        )
    if facts.dtype.itemsize != 2:
        refused.append(f"dtype: got {facts.dtype}, expected uint16")
    for split in ("train", "val"):
        files = [shard for shard in facts.shards if shard.split == split]
        if len(files) != 1:
            refused.append(f"{split}.bin: got {len(files)} files, expected 1")
        for shard in files:
            if facts.seq_len and shard.num_tokens <= facts.seq_len:
                refused.append(
                    f"{shard.path}: ids: got {shard.num_tokens:,}, expected more than --seq-len {facts.seq_len}"
                )
    remarks.append("rows are drawn at random with replacement: an epoch neither covers the corpus nor avoids repeats")
    return refused, remarks


TRAINERS: dict[str, Callable[[Facts], Answer]] = {"llmc": llmc, "nanogpt": nanogpt}
