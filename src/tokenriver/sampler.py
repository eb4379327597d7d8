"""Which row is served when: arithmetic, no table and no state.

Rows of a run are numbered g = 0, 1, 2, ...; epoch and place are divmod(g, N); the row at a place is a keyed bijection
of [0, N), computed on the spot for thousands of places at once. It uses integers only, so that another language or
another numpy gives the same order: a mixed-radix Feistel network of eight rounds over (a, b), a * b >= N, with the
finaliser of splitmix64 as its round function and a second walk for the few points past N; below 65,536 rows, where a
small network is measurably uneven, a sort by a keyed hash. The keys are a hash of (domain, seed, epoch, source), so
that no two seeds share an epoch, as they do where an epoch is seeded by `seed + epoch`.
"""

import hashlib
from collections.abc import Callable
from typing import TypeGuard

import numpy as np

from tokenriver.errors import InputError, LimitError
from tokenriver.pointwise import WIDE_FROM, grid, walked
from tokenriver.ranges import distinct
from tokenriver.splitmix import STEP, finish
from tokenriver.types import Int64, UInt64

SORTED_BELOW = 1 << 16
"""Up to this many rows (exclusive) an epoch is a keyed sort."""
CHUNK = 1 << 13
"""Places permuted at once: the temporaries stay in the second-level cache."""
FEW = 16
"""Up to so many points are permuted one by one: some 60 operations on arrays cost more, however short they are."""

_S32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def epoch_keys(domain: str, seed: int, epoch: int, source: str) -> UInt64:
    """Eight 64-bit keys, (8,) uint64: SHA-512 of the four, joined by NUL, as little-endian words."""
    text = "\0".join((domain, str(seed), str(epoch), source))
    digest = hashlib.sha512(text.encode("utf-8", "surrogatepass")).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def permute(places: Int64, size: int, keys: UInt64) -> Int64:
    """The rows at `places`, (k,) int64, each in [0, size), under the permutation of [0, size) that `keys` choose."""
    if size < SORTED_BELOW:
        return sorted_order(size, keys)[places]
    return _walked(places, size, keys, backwards=False)


def unpermute(rows: Int64, size: int, keys: UInt64) -> Int64:
    """The places, (k,) int64, at which `permute` has some rows of [0, size): the other way round."""
    if size < SORTED_BELOW:
        return _ranks(sorted_order(size, keys))[rows]
    return _walked(rows, size, keys, backwards=True)


def _walked(numbers: Int64, size: int, keys: UInt64, *, backwards: bool) -> Int64:
    if len(numbers) <= FEW:
        return np.array(walked(numbers.tolist(), size, keys.tolist(), backwards=backwards), np.int64)
    points = numbers.astype(np.uint64)
    for start in range(0, len(points), CHUNK):
        _walk(points[start : start + CHUNK], size, keys, backwards=backwards)
    return points.view(np.int64)


def _ranks(order: Int64) -> Int64:
    """The inverse of a whole permutation."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=np.int64)
    return places


def sorted_order(size: int, keys: UInt64) -> Int64:
    """The whole permutation of [0, size), (size,) int64: places sorted by a hash that has no ties."""
    points = np.arange(size, dtype=np.uint64)
    points *= STEP
    _mix(points, keys[0], np.empty_like(points), points)
    return np.argsort(points, kind="stable").astype(np.int64, copy=False)


def _walk(points: UInt64, size: int, keys: UInt64, *, backwards: bool = False) -> None:
    """Feistel on the a * b points, in place; those that land past `size` (of all, fewer than a) go round again. A walk
    backwards passes the same points past `size` and so comes back."""
    _feistel(points, size, keys, backwards)
    while points.max(initial=0) >= size:
        outside = np.flatnonzero(points >= np.uint64(size))
        again = points[outside]
        _feistel(again, size, keys, backwards)
        points[outside] = again


def _feistel(points: UInt64, size: int, keys: UInt64, backwards: bool = False) -> None:
    rows, columns = grid(size)
    a, b, wide = np.uint64(rows), np.uint64(columns), size >= WIDE_FROM
    left = points // b
    right = points - left * b
    hashed, scratch = np.empty_like(left), np.empty_like(left)
    for number in range(len(keys))[:: -1 if backwards else 1]:
        key = keys[number]
        side, other, radix = (right, left, b) if number & 1 else (left, right, a)
        _mix(other, key, scratch, hashed)
        _scale(hashed, radix, scratch, wide)
        if backwards:
            np.subtract(radix, hashed, out=hashed)
        side += hashed
        # side mod radix: below radix the difference wraps round to a huge number, and the minimum keeps side
        np.subtract(side, radix, out=scratch)
        np.minimum(side, scratch, out=side)
    np.multiply(left, b, out=points)
    points += right


def _mix(points: UInt64, key: np.uint64, scratch: UInt64, out: UInt64) -> None:
    """out = the finaliser of splitmix64 of (points + key) mod 2^64."""
    np.add(points, key, out=out)
    finish(out, scratch)


def _scale(hashed: UInt64, radix: np.uint64, scratch: UInt64, wide: bool) -> None:
    """hashed = floor(hashed * radix / 2^64), from its upper 32 bits alone unless wide; radix is at most 2^32."""
    if wide:
        np.bitwise_and(hashed, _LOW, out=scratch)
        scratch *= radix
        scratch >>= _S32
    hashed >>= _S32
    hashed *= radix
    if wide:
        hashed += scratch
    hashed >>= _S32


def share(global_batch: int, rank: int, world_size: int) -> tuple[int, int]:
    """[first, last) of a step's rows for one rank: legal for every world size, at most one row apart."""
    return rank * global_batch // world_size, (rank + 1) * global_batch // world_size


def check_rank(rank: object, world_size: object) -> tuple[int, int]:
    """(rank, world_size) as plain ints; InputError with both unless they are integers and 0 <= rank < world_size."""
    if _is_whole(rank) and _is_whole(world_size) and 0 <= rank < world_size:
        return int(rank), int(world_size)
    raise InputError(
        f"rank, world_size: got {rank!r}, {world_size!r}, expected integers with 0 <= rank < world_size; "
        "pass this process's number and the number of processes"
    )


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


class Sampler:
    """The order of a run: row number g -> (row, epoch), for N rows an epoch; the same for every rank and world size."""

    __slots__ = ("_ranked", "_sorted", "global_batch", "num_rows", "order", "seed", "source")

    def __init__(
        self, num_rows: int, *, global_batch: int, seed: int = 0, order: str = "shuffled", source: str = ""
    ) -> None:
        """LimitError when global_batch exceeds num_rows (a batch must not hold a row twice); InputError for an
        unknown order."""
        if order not in ORDERS:
            raise InputError(f"order: got {order!r}, expected one of {', '.join(ORDERS)}; choose one of these")
        if not 1 <= global_batch <= num_rows:
            raise LimitError(
                f"global_batch: got {global_batch}, expected 1 to {num_rows}, the rows of one epoch (N); "
                "take fewer rows a step, a smaller seq_len or more text"
            )
        self.num_rows = num_rows
        self.global_batch = global_batch
        self.seed = seed
        self.order = order
        self.source = source
        self._sorted: tuple[int, Int64] | None = None
        self._ranked: tuple[int, Int64] | None = None

    def rows(self, consumed: int, rank: int, world_size: int) -> Int64:
        """Rows of one rank, (B,) int64, in the step that starts when `consumed` rows of the run are behind it:
        numbers [consumed + floor(r*G/W), consumed + floor((r+1)*G/W))."""
        rank, world_size = check_rank(rank, world_size)
        first, last = share(self.global_batch, rank, world_size)
        return self.locate(np.arange(consumed + first, consumed + last, dtype=np.int64))[0]

    def locate(self, numbers: Int64) -> tuple[Int64, Int64]:
        """(rows, epochs) of row numbers of one or a few epochs, each (k,) int64."""
        size, turn = self.num_rows, ORDERS[self.order]
        rows, epochs = np.empty_like(numbers), np.empty_like(numbers)
        if not len(numbers):
            return rows, epochs
        first, last = int(numbers.min()) // size, int(numbers.max()) // size
        if first == last:
            epochs.fill(first)
            return turn(self, numbers - first * size, first), epochs
        np.floor_divide(numbers, size, out=epochs)
        for epoch in distinct(epochs):
            here = epochs == epoch
            rows[here] = turn(self, numbers[here] - epoch * size, epoch)
        return rows, epochs

    def numbers(self, rows: Int64, epochs: Int64) -> Int64:
        """The row numbers, (k,) int64, at which rows come in epochs: `locate` the other way round. InputError for an
        order that has no way back."""
        if self.order not in BACKWARDS:
            raise InputError(f"order: got {self.order!r}, expected {' or '.join(BACKWARDS)} to look a document up in")
        turn, numbers = BACKWARDS[self.order], epochs * self.num_rows
        if len(epochs) and epochs.min() == epochs.max():
            return turn(self, rows, int(epochs[0])) + numbers
        for epoch in distinct(epochs):
            here = epochs == epoch
            numbers[here] += turn(self, rows[here], epoch)
        return numbers

    def epochs(self, source: int, first: int, end: int) -> range:
        """The epochs that have row numbers in [first, end); a run without a mixture has one source, 0."""
        return range(first // self.num_rows, -(-end // self.num_rows))

    def _shuffled(self, places: Int64, epoch: int) -> Int64:
        if self.num_rows >= SORTED_BELOW:
            return permute(places, self.num_rows, self._keys(epoch))
        # one assignment of an immutable pair: a prefetch thread and a random access may be here at the same time
        known = self._sorted
        if known is None or known[0] != epoch:
            self._sorted = known = (epoch, sorted_order(self.num_rows, self._keys(epoch)))
        return known[1][places]

    def _unshuffled(self, rows: Int64, epoch: int) -> Int64:
        if self.num_rows >= SORTED_BELOW:
            return unpermute(rows, self.num_rows, self._keys(epoch))
        known = self._ranked
        if known is None or known[0] != epoch:
            self._ranked = known = (epoch, _ranks(sorted_order(self.num_rows, self._keys(epoch))))
        return known[1][rows]

    def _sequential(self, places: Int64, epoch: int) -> Int64:
        return places

    def _keys(self, epoch: int) -> UInt64:
        return epoch_keys("tokenriver order 1", self.seed, epoch, self.source)


ORDERS: dict[str, Callable[[Sampler, Int64, int], Int64]] = {
    "shuffled": Sampler._shuffled,
    "sequential": Sampler._sequential,
}
"""The orders by name; a new one is a method (places, epoch) -> rows and a line here."""

BACKWARDS: dict[str, Callable[[Sampler, Int64, int], Int64]] = {
    "shuffled": Sampler._unshuffled,
    "sequential": Sampler._sequential,
}
"""The way back, (rows, epoch) -> places, of the orders that have one."""
