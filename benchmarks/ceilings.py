"""What parts of the work cost alone on this machine: the ceilings that a build and a loader are held against.

    python ceilings.py encoder HOW TABLE TEXT.jsonl     seconds, ids: the cold encoder on texts in memory
    python ceilings.py llmc TABLE OUT TEXT.jsonl.zst    llm.c's structure with tiktoken

Each runs in a process of its own and prints one JSON line.
"""

import functools
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson
import tiktoken
import zstandard
from gigatoken.gigatoken_rs import BPETokenizer
from numpy.typing import NDArray
from tiktoken.load import load_tiktoken_bpe

END = 50256
THREADS = 2
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
# megabytes a call: small ones keep a thread's work in its cache, large ones ask for memory that must be faulted in
ENCODERS = {"parallel-4": 4, "parallel-16": 16, "parallel-64": 64, "threads-2": 2}


def bare_gather(path: Path, seq_len: int, rows: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The least that any shuffling loader must do, quoted in full: x and y of random windows of a file of uint16."""
    ids = np.asarray(np.memmap(path, dtype=np.uint16, mode="r"))
    count = (len(ids) - 1) // seq_len
    windows = np.lib.stride_tricks.as_strided(ids, (count, seq_len + 1), (2 * seq_len, 2), writeable=False)
    buffer = np.empty((rows, seq_len + 1), np.int64)
    x, y = buffer[:, :-1], buffer[:, 1:]
    generator = np.random.default_rng(0)
    while True:
        order = generator.permutation(count)
        for first in range(0, count - rows + 1, rows):
            np.copyto(buffer, windows[order[first : first + rows]])
            yield x, y


def bare_rows(
    path: Path, batches: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], shape: tuple[int, int]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The least that any loader of packed rows must do in Python and numpy, quoted in full: x and y of spans that lie
    at random in a file of uint16. Their (starts, sizes in positions) are known beforehand; a start of -1 is padding."""
    ids = np.asarray(np.memmap(path, dtype=np.uint16, mode="r"))
    view, zeros, cells = ids.data.cast("B"), memoryview(bytes(2 * shape[1])), shape[0] * shape[1]
    x, y = np.empty(shape, np.int64), np.empty(shape, np.int64)
    known = [
        (
            (2 * starts).tolist(),
            (2 * (starts + sizes)).tolist(),
            (starts + sizes)[starts >= 0],
            sizes.cumsum()[starts >= 0],
        )
        for starts, sizes in batches
    ]
    while True:
        for begins, ends, followers, places in known:
            pieces = [view[a:b] if a >= 0 else zeros[: b - a] for a, b in zip(begins, ends, strict=True)]
            found = np.frombuffer(bytearray().join([*pieces, b"--"]), np.uint16)
            np.copyto(x, found[:cells].reshape(shape))
            # a span's last target is no input: it comes where the next span's first input was
            found[places] = ids[followers]
            np.copyto(y, found[1:].reshape(shape))
            yield x, y


def encoder(how: str, table: str, text: str) -> dict[str, float]:
    """Seconds of the encoder alone, cold: the texts lie in memory as bytes, the tokenizers are loaded and have seen
    no text, and what they return is counted and dropped."""
    with open(text, "rb") as file:
        texts = [orjson.loads(line)["text"].encode() for line in file]
    _load(table).encode_batch([b"x"], parallel=False)  # what the first call imports is no encoding
    batches = _batches(texts, ENCODERS[how] << 20)
    tokenizers = [_load(table) for _ in range(THREADS if how.startswith("threads") else 1)]
    begin = time.perf_counter()
    ids = _in_threads(tokenizers, batches) if len(tokenizers) > 1 else _parallel(tokenizers[0], batches)
    return {"seconds": time.perf_counter() - begin, "ids": ids, "bytes": sum(map(len, texts))}


def _load(table: str) -> BPETokenizer:
    return BPETokenizer.from_tiktoken(table, "gpt2", None)


def _batches(texts: Sequence[bytes], size: int) -> list[list[bytes]]:
    batches: list[list[bytes]] = [[]]
    room = size
    for text in texts:
        if room <= 0:
            batches.append([])
            room = size
        batches[-1].append(text)
        room -= len(text)
    return batches


def _parallel(tokenizer: BPETokenizer, batches: Sequence[list[bytes]]) -> int:
    return sum(len(tokenizer.encode_batch(batch, parallel=True).layout.content) for batch in batches)


def _in_threads(tokenizers: Sequence[BPETokenizer], batches: Sequence[list[bytes]]) -> int:
    waiting = iter(batches)
    lock = threading.Lock()
    counts: list[int] = []

    def work(tokenizer: BPETokenizer) -> None:
        while True:
            with lock:
                batch = next(waiting, None)
            if batch is None:
                return
            counts.append(len(tokenizer.encode_batch(batch, parallel=False).layout.content))

    crew = [threading.Thread(target=work, args=(tokenizer,)) for tokenizer in tokenizers]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return sum(counts)


def llmc(table: str, out: str, text: str) -> dict[str, float]:
    """The structure of llm.c's fineweb.py: a pool of processes, one document a call, chunks of 16, tiktoken's
    encode_ordinary, ids collected in one array of the shard's size. Start of the pool included."""
    begin = time.perf_counter()
    shard = np.empty(10**8, np.uint16)
    filled = total = 0
    with multiprocessing.Pool(THREADS) as pool, open(out, "wb") as file:
        for ids in pool.imap(functools.partial(_encode, table), _texts(text), chunksize=16):
            if filled + len(ids) > len(shard):
                file.write(shard[:filled].data)
                filled = 0
            shard[filled : filled + len(ids)] = ids
            filled += len(ids)
            total += len(ids)
        file.write(shard[:filled].data)
        file.flush()
        os.fsync(file.fileno())
    return {"seconds": time.perf_counter() - begin, "ids": total}


def _texts(path: str) -> Iterator[str]:
    with open(path, "rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
        rest = b""
        while block := stream.read(1 << 20):
            *lines, rest = (rest + block).split(b"\n")
            yield from (orjson.loads(line)["text"] for line in lines)
        if rest:
            yield orjson.loads(rest)["text"]


@functools.cache
def _reference(table: str) -> tiktoken.Encoding:
    ranks = load_tiktoken_bpe(table)
    return tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": END})


def _encode(table: str, text: str) -> NDArray[np.uint16]:
    return np.array([END, *_reference(table).encode_ordinary(text)]).astype(np.uint16)


if __name__ == "__main__":
    print(json.dumps({"encoder": encoder, "llmc": llmc}[sys.argv[1]](*sys.argv[2:])))
