"""The loader beside a bare numpy gather, in one process and in alternating windows of time.

10^8 ids of uint16 in a nanoGPT file, 32 rows, windows of the whole file in shuffled order, int64 x and y, one thread;
the page cache is warm. The gather is `ceilings.bare_gather`. For information: the same loader with a thread that
prefetches, and over a native corpus of many shards.

    python -m benchmarks.load BIN CORPUS SEQ_LEN SECONDS ROUNDS
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tokenriver
from benchmarks import ceilings, corpus, measure
from benchmarks.build import Place, command
from benchmarks.measure import Figure, at_least, python

IDS = 10**8
ROWS = 32
SEQ_LENS = (256, 1024, 8192)
TARGET = 0.7
SHARD_TOKENS = 2_000_000
Pair = tuple[NDArray[np.int64], NDArray[np.int64]]


def run(place: Place) -> list[Figure]:
    """Ratios at each length; the promise is for 1,024."""
    path, shards = ids_file(place.work), _many_shards(place)
    measure.warm([path, *shards.glob("*.bin")])
    figures = []
    for seq_len in SEQ_LENS:
        rates = measure.answer(python("-m", "benchmarks.load", path, shards, seq_len, 0.3, 3 * place.rounds))
        figures += [
            Figure(f"T={seq_len}: {name}", f"{rate / 1e6:,.0f} M ids/s", data=rate) for name, rate in rates.items()
        ]
        ratio = rates["ours"] / rates["bare gather"]
        promised = at_least(f"T={seq_len}: ours over the bare gather", ratio, TARGET)
        figures.append(promised if seq_len == 1024 else Figure(promised.name, promised.value))
    return figures


def ids_file(work: Path) -> Path:
    """A nanoGPT file of random GPT-2 ids: what they are does not matter to a gather."""
    path = work / "ids.bin"
    if not path.exists() or path.stat().st_size != 2 * IDS:
        np.random.default_rng(0).integers(0, 50257, IDS, dtype=np.uint16).tofile(path)
    return path


def _many_shards(place: Place) -> Path:
    texts = corpus.texts(place.work, place.megabytes)
    out = place.work / f"shards-{place.megabytes}"
    measure.call([*command([texts.eight], out), "--shard-tokens", str(SHARD_TOKENS)])
    return out


def main(path: str, shards: str, seq_len: int, seconds: float, rounds: int) -> dict[str, float]:
    """Median ids a second of each contender over alternating windows of `seconds`."""
    takes: dict[str, Callable[[], Pair]] = {
        "bare gather": ceilings.bare_gather(Path(path), seq_len, ROWS).__next__,
        "ours": loader(path, seq_len, prefetch=0),
        "ours, prefetch=2": loader(path, seq_len, prefetch=2),
        "ours, many shards": loader(shards, seq_len, prefetch=0),
    }
    for name, take in takes.items():
        x, y = take()
        assert x.shape == y.shape == (ROWS, seq_len), name
        assert x.dtype == y.dtype == np.int64, name
        assert np.array_equal(x[:, 1:], y[:, :-1]), name
    jobs = {name: partial(rate, take, seq_len, seconds) for name, take in takes.items()}
    measure.alternate(jobs, 1)
    return {name: measure.median(rates) for name, rates in measure.alternate(jobs, rounds).items()}


def loader(path: str | Path, seq_len: int, prefetch: int, *, masked: bool = True) -> Callable[[], Pair]:
    """Gives the next batch of a shuffled run without an end; not `masked`: as if the corpus had no loss mask."""
    river = tokenriver.open_corpus(path)
    if not masked:
        river.loss_mask = None
    batches = iter(tokenriver.Loader(river, seq_len=seq_len, global_batch=ROWS, seed=1, epochs=None, prefetch=prefetch))

    def take() -> Pair:
        batch = next(batches)
        return batch.input_ids, batch.targets

    return take


def rate(take: Callable[[], Pair], seq_len: int, seconds: float) -> float:
    """Ids a second; the consumer holds the batch while the next one is made, as a training loop does, and looks at
    one element of every sixteenth."""
    seen = count = 0
    begin = now = time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        for _ in range(16):
            x, y = take()
        seen += int(x[0, 0]) + int(y[-1, -1])
        count += 16
    assert seen >= 0
    return count * ROWS * seq_len / (now - begin)


if __name__ == "__main__":
    _bin, _shards, _seq_len, _seconds, _rounds = sys.argv[1:]
    print(json.dumps(main(_bin, _shards, int(_seq_len), float(_seconds), int(_rounds))))
