"""Measure the loader on this corpus, beside a bare numpy gather in the same run."""

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import tokenriver
from tokenriver.commands import _environment, _options, _output, _rates
from tokenriver.compiled import COMPILED
from tokenriver.corpus import Corpus

SeqLens = Annotated[
    list[int] | None, typer.Option("--seq-len", metavar="T", help="Positions of a row (repeatable; 256, 1024, 8192).")
]
Rows = Annotated[int, typer.Option("--batch-size", metavar="B", help="Rows of a batch.", min=1)]
RATES = ("loader", "loader_prefetch", "loader_ledger", "packed", "gather")
Seconds = Annotated[float, typer.Option("--seconds", metavar="S", help="For each figure.", min=0.05)]


def run(
    path: _options.CorpusPath,
    seq_len: SeqLens = None,
    batch_size: Rows = 32,
    seconds: Seconds = 1.0,
    split: _options.Split = "train",
    json: _options.Json = False,
) -> None:
    """Measure the loader on this corpus, beside a bare numpy gather in the same run.

    Shuffled rows from the stored ids to int64 inputs and targets, one thread;
    then with a prefetching thread, or with a ledger of a line a batch, or rows
    of whole documents (best_fit) with cu_seqlens. The gather is the least that
    any loader must do. Million ids a second. A corpus larger than memory
    measures the disk.

    Example:  tokenriver bench corpus
    """
    begin = time.perf_counter()
    corpus = _environment.open_corpus(path, split)
    first = _first_batch(corpus, (seq_len or [1024])[0], batch_size, begin)
    rows = [_measure(corpus, length, batch_size, seconds) for length in _lengths(corpus, seq_len, batch_size)]
    if json:
        known = {"path": str(path), "split": split, "batch_size": batch_size, "first_batch_ms": first}
        _output.emit_json({**known, "compiled": COMPILED is not None, "rates": rows})
        return
    _output.heading(f"{path}: {corpus.num_tokens:,} ids, {batch_size} rows a batch; million ids a second")
    head = ["seq_len", "loader", "prefetch 2", "with ledger", "packed", "bare gather", "loader / gather"]
    table = [
        [
            f"{row['seq_len']}",
            *("-" if row[key] is None else f"{row[key] / 1e6:,.0f}" for key in RATES),
            f"{row['loader'] / row['gather']:.0%}",
        ]
        for row in rows
    ]
    _output.columns(head, table)
    print(f"  first shuffled batch {first:.1f} ms after the corpus was asked for")
    how = "compiled code" if COMPILED is not None else "numpy: no C compiler was found when tokenriver was installed"
    print(f"  packed rows by {how}")


def _lengths(corpus: Corpus, asked: list[int] | None, rows: int) -> list[int]:
    """What was asked for, else those of 256, 1024, 8192 for which one shard holds a batch."""
    room = max(shard.num_tokens for shard in corpus.shards) - 1
    return asked or [length for length in (256, 1024, 8192) if length * rows <= room] or [max(1, room // rows)]


def _first_batch(corpus: Corpus, seq_len: int, rows: int, begin: float) -> float:
    """Milliseconds since `begin` once the first batch is there."""
    tokenriver.Loader(corpus, seq_len=seq_len, global_batch=rows, seed=1, epochs=None, prefetch=0).batch(0)
    return (time.perf_counter() - begin) * 1000


def _measure(corpus: Corpus, seq_len: int, rows: int, seconds: float) -> dict[str, Any]:
    return {
        "seq_len": seq_len,
        "loader": _rates.loader_rate(corpus, seq_len, rows, seconds, prefetch=0),
        "loader_prefetch": _rates.loader_rate(corpus, seq_len, rows, seconds, prefetch=2),
        "packed": _rates.packed_rate(corpus, seq_len, rows, seconds),
        "loader_ledger": _with_ledger(corpus, seq_len, rows, seconds),
        "gather": _rates.gather_rate(corpus, seq_len, rows, seconds),
    }


def _with_ledger(corpus: Corpus, seq_len: int, rows: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return _rates.loader_rate(corpus, seq_len, rows, seconds, prefetch=0, ledger=Path(folder))
