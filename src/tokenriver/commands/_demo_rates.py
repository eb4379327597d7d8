"""The ceilings of the demo: bare scripts that do a part of the work, measured on the same text in the same run."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import zstandard

from tokenriver.tokenizer import load_tokenizer

BATCH_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Text bytes a second of one process."""

    encoder: float
    """The encoder alone, cold, on texts that lie in memory."""
    script: float
    """A bare script of the same steps: zstd, JSON, encoder, uint16 file, fsync."""


def ceilings(text: Path, scratch: Path) -> Ceilings:
    """Measure both, each with an encoder that has seen no text yet; `scratch` is written and removed."""
    batches = list(_batches(text))
    size = sum(len(one) for batch in batches for one in batch)
    encoder = load_tokenizer("gpt2")
    encoder.encode("so that loading is over")
    begin = time.perf_counter()
    for batch in batches:
        encoder.encode_batch(batch)
    alone = time.perf_counter() - begin
    del batches
    return Ceilings(size / alone, size / _script(text, scratch))


def _script(text: Path, scratch: Path) -> float:
    encoder = load_tokenizer("gpt2")
    encoder.encode("so that loading is over")
    begin = time.perf_counter()
    try:
        with scratch.open("wb") as file:
            for batch in _batches(text):
                ids, _ = encoder.encode_batch(batch)
                file.write(ids.astype(np.uint16).data)
            file.flush()
            os.fsync(file.fileno())
        return time.perf_counter() - begin
    finally:
        scratch.unlink(missing_ok=True)


def _batches(text: Path) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    with text.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
        tail = b""
        while block := stream.read(1 << 20):
            *lines, tail = (tail + block).split(b"\n")
            for line in lines:
                batch.append(orjson.loads(line)["text"].encode())
                size += len(batch[-1])
                if size >= BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
    if batch:
        yield batch
