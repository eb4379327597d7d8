"""Other projects' loaders, written again as they go about it: one batch after another, with all their state.

Each is a generator of batches, a batch a list of the river positions at which its rows start.
"""

import random
from collections.abc import Iterator, Sequence

import numpy as np

Batches = Iterator[list[int]]


def twister(seed: int) -> Iterator[int]:
    """The 32-bit words of MT19937 with its classic seeding by one integer."""
    state = [seed & 0xFFFFFFFF]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) & 0xFFFFFFFF)
    while True:
        for i in range(624):
            both = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7FFFFFFF)
            state[i] = state[(i + 397) % 624] ^ both >> 1 ^ (0x9908B0DF if both & 1 else 0)
        for word in state:
            word ^= word >> 11
            word ^= word << 7 & 0x9D2C5680
            word ^= word << 15 & 0xEFC60000
            yield word ^ word >> 18


def llmc(
    sizes: Sequence[int], seq_len: int, batch: int, rank: int, world_size: int, *, shuffle: bool = True
) -> Batches:
    words = twister(42 + rank)

    def permute(items: list[int]) -> None:
        for i in range(len(items) - 1, 0, -1):
            j = next(words) % (i + 1)
            items[i], items[j] = items[j], items[i]

    order = list(range(len(sizes)))
    while True:
        if shuffle:
            permute(order)
        for shard in order:
            slices = list(range((sizes[shard] - 1) // (world_size * batch * seq_len)))
            if shuffle:
                permute(slices)
            for slice_ in slices:
                begin = sum(sizes[:shard]) + (slice_ * world_size + rank) * batch * seq_len
                yield [begin + row * seq_len for row in range(batch)]


def randint(words: Iterator[int], size: int) -> int:
    """torch.randint(size, (1,)) as torch 2.13 has it."""
    if size < 1 << 28:
        return next(words) % size
    return (next(words) << 32 | next(words)) % size


def nanogpt(num_tokens: int, seq_len: int, batch: int, seed: int) -> Batches:
    words = twister(seed)
    while True:
        yield [randint(words, num_tokens - seq_len) for _ in range(batch)]


def hdf5_iterator(num_tokens: int, seq_len: int, batch: int, seed: int) -> Batches:
    generator = np.random.RandomState(seed)
    windows = np.arange((num_tokens - 1) // seq_len)
    generator.shuffle(windows)
    cursor = 0
    while True:
        if cursor + batch > len(windows):
            generator.shuffle(windows)
            cursor = 0
        yield [int(window) * seq_len for window in windows[cursor : cursor + batch]]
        cursor += batch


def hdf5_shards(num_tokens: int, seq_len: int, batch: int, seed: int) -> Batches:
    dice = random.Random(seed)
    while True:
        yield [dice.randint(0, num_tokens - seq_len - 1) for _ in range(batch)]


def hdf5_sft(rows: int, seq_len: int, batch: int, place: tuple[int, int], *, shuffle: bool) -> Batches:
    rank, world_size = place
    generator = np.random.default_rng(1234 + rank)
    own = np.arange(rank, rows, world_size)
    while True:
        if shuffle:
            generator.shuffle(own)
        for first in range(0, len(own) - batch + 1, batch):
            yield [int(row) * seq_len for row in sorted(own[first : first + batch])]


def original(order: str, sizes: Sequence[int], shape: tuple[int, int], seed: int, place: tuple[int, int]) -> Batches:
    """The loader of an order's name; `shape` is (batch, seq_len), `place` (rank, world size)."""
    (batch, seq_len), (rank, world_size) = shape, place
    if order.startswith("llmc"):
        return llmc(sizes, seq_len, batch, rank, world_size, shuffle=order == "llmc")
    if order.startswith("hdf5-sft"):
        return hdf5_sft(sum(sizes) // seq_len, seq_len, batch, place, shuffle=order == "hdf5-sft")
    if order == "nanogpt":
        return nanogpt(sum(sizes), seq_len, batch, seed + rank)
    return {"hdf5-iterator": hdf5_iterator, "hdf5-shards": hdf5_shards}[order](sum(sizes), seq_len, batch, seed)
