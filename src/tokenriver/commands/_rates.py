"""What this machine can do, measured beside what we do: ids a second of a loader, and of a bare numpy gather."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tokenriver
from tokenriver.corpus import Corpus
from tokenriver.errors import LimitError


def loader_rate(
    corpus: Corpus, seq_len: int, rows: int, seconds: float, prefetch: int, ledger: Path | None = None
) -> float:
    """Ids a second that a fresh Loader serves to one thread, shuffled, endless."""
    options: dict[str, Any] = {"seq_len": seq_len, "global_batch": rows, "prefetch": prefetch, "ledger": ledger}
    loader = tokenriver.Loader(corpus, order="shuffled", seed=1, epochs=None, **options)
    return _rate((len(batch.input_ids) * seq_len for batch in loader), seconds)


def packed_rate(corpus: Corpus, seq_len: int, rows: int, seconds: float) -> float | None:
    """Positions a second of rows of whole documents (best_fit), with the edges that attention needs; None for a corpus
    without document bounds, or with fewer such rows than a batch."""
    if corpus.num_documents is None:
        return None
    try:
        loader = tokenriver.Loader(
            corpus, seq_len=seq_len, global_batch=rows, packing="best_fit", seed=1, epochs=None, prefetch=0
        )
    except LimitError:
        return None
    return _rate((len(batch.cu_seqlens) and batch.input_ids.size for batch in loader), seconds)


def gather_rate(corpus: Corpus, seq_len: int, rows: int, seconds: float) -> float:
    """Ids a second of the least that any loader must do: random windows of one shard into one reused int64 buffer."""
    return _rate(_gather(corpus, seq_len, rows), seconds)


def _gather(corpus: Corpus, seq_len: int, rows: int) -> Iterator[int]:
    ids = corpus.read(0, min(corpus.num_tokens, max(shard.num_tokens for shard in corpus.shards)))
    count = (len(ids) - 1) // seq_len
    step = ids.strides[0]
    windows = np.lib.stride_tricks.as_strided(ids, (count, seq_len + 1), (seq_len * step, step), writeable=False)
    buffer = np.empty((rows, seq_len + 1), np.int64)
    generator = np.random.default_rng(0)
    while True:
        order = generator.permutation(count)
        for first in range(0, count - rows + 1, rows):
            np.copyto(buffer, windows[order[first : first + rows]])
            yield rows * seq_len


def _rate(work: Iterator[int], seconds: float) -> float:
    """Ids a second over about `seconds`, after one batch that is not counted."""
    next(work)
    done, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        for _ in range(8):
            done += next(work)
    return done / (now - begin)
