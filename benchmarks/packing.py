"""Planning rows, looking them up and loading them, for documents with lognormal lengths of 262 ids in the mean.

python -m benchmarks.packing plan SEQ_LEN DOCUMENTS     a best-fit plan beside how others make one
python -m benchmarks.packing look-up CORPUS             seconds a batch of row arithmetic
python -m benchmarks.packing trace CORPUS               microseconds a row and a document, both ways
python -m benchmarks.packing load CORPUS SECONDS ROUNDS ids a second of packed rows and of plain ones
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tokenriver
from benchmarks import measure, packers
from benchmarks.build import Place
from benchmarks.ceilings import bare_rows
from benchmarks.formats import document_lengths, make_minimind
from benchmarks.measure import Figure, at_least, at_most, python
from tokenriver import compiled
from tokenriver.batch import Batch
from tokenriver.packing._fit import best_fit
from tokenriver.types import Int64

SEQ_LEN, ROWS, MEAN = 2048, 512, 262
LOAD_IDS, LOAD_ROWS = 50_000_000, 32
SOURCES = 64
PLANNED, COMPARED = 10_000_000, 400_000
BARE = "bare numpy of the same rows"
PLAIN = "without compiled code"


def run(place: Place) -> list[Figure]:
    """Plans, row arithmetic, loading."""
    folder = place.work / "packing-source"
    if not folder.exists():
        make_minimind(folder, LOAD_IDS)
    measure.warm(sorted(folder.iterdir()))
    return [*_planning(place), *_looking_up(folder), *_tracing(place), *_loading(place, folder)]


def _planning(place: Place) -> list[Figure]:
    runs = [measure.answer(python("-m", "benchmarks.packing", "plan", SEQ_LEN, PLANNED)) for _ in range(place.rounds)]
    middle = {name: measure.median([one[name] for one in runs]) for name in runs[0]}
    what = f"best_fit of {PLANNED:,} documents, T={SEQ_LEN}"
    return [
        at_least(f"{what}: million documents/s", middle["ours"] / 1e6, 10, data=runs),
        at_most(f"{what}: memory of the plan", middle["held"], 16, unit=" bytes a document"),
        Figure(f"{what}: peak memory", f"{middle['grown']:.0f} bytes a document"),
        *(
            Figure(f"{what}: over {name}, {rate / 1e6:.2f} million/s", f"{middle['ours'] / rate:.0f} x")
            for name, rate in ((n, middle[n]) for n in ("best-fit decreasing by a tree", "a buffer of 1,000"))
        ),
        at_most(f"best_fit of {COMPARED:,}: rows over exact best-fit decreasing", middle["rows"], 1, unit=" x"),
        Figure(f"best_fit of {COMPARED:,}: rows over a buffer of 1,000 (which crops)", f"{middle['buffered']:.3f} x"),
    ]


def plan(seq_len: int, documents: int) -> dict[str, float]:
    """Documents a second of each way, bytes a document, and rows over those of the others."""
    lengths = document_lengths(documents * MEAN)[:documents]
    before = _peak()
    begin = time.perf_counter()
    river = _Lengths(np.cumsum(lengths))
    rows = tokenriver.registry.load("packing", "best_fit").pack(river, seq_len=seq_len)
    seconds = time.perf_counter() - begin
    held = sum(column.nbytes for column in (rows.table.row_ends, rows.table.starts, rows.table.sizes))
    found: dict[str, float] = {"ours": documents / seconds, "held": held / documents}
    found["grown"] = (_peak() - before) / documents
    positions = np.minimum(lengths[:COMPARED] - 1, seq_len)
    sizes = positions[positions > 0]
    ours = len(best_fit(np.bincount(sizes, minlength=seq_len + 1), seq_len).ends)
    ways = {
        "best-fit decreasing by a tree": packers.best_fit_decreasing,
        "a buffer of 1,000": packers.buffered_best_fit,
    }
    for (name, way), ratio in zip(ways.items(), ("rows", "buffered"), strict=True):
        values = sizes.tolist()
        begin = time.perf_counter()
        count = way(values, seq_len)
        found[name] = len(values) / (time.perf_counter() - begin)
        found[ratio] = ours / count
    return found


class _Lengths:
    """A river of which only the ends of documents are asked."""

    def __init__(self, ends: Int64) -> None:
        self._ends = ends
        self.num_tokens, self.num_documents = int(ends[-1]), len(ends)
        self.fingerprint = ""

    def doc_ends(self) -> Int64:
        return self._ends


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# ------------------------------------------------------------------------------------------------ look-up


def _looking_up(folder: Path) -> list[Figure]:
    found = measure.answer(python("-m", "benchmarks.packing", "look-up", folder))
    limits = {"concat": 0.5, "best_fit": 1.0, f"mixture of {SOURCES}": 1.0}
    return [
        at_most(f"rows of a batch, {ROWS} x {SEQ_LEN}: {name}", found[name] * 1000, limit, unit=" ms")
        for name, limit in limits.items()
    ]


def look_up(path: str) -> dict[str, float]:
    """Seconds a batch of finding where its rows lie, by kind."""
    corpus = tokenriver.open_corpus(path)
    sources = {f"s{number:02}": (corpus, 1.0 + number) for number in range(SOURCES)}
    kinds: dict[str, Any] = {
        "concat": (corpus, "concat"),
        "best_fit": (corpus, "best_fit"),
        f"mixture of {SOURCES}": (tokenriver.Mixture(sources), "concat"),
    }
    found = {}
    for name, (river, packing) in kinds.items():
        loader = tokenriver.Loader(
            river, seq_len=SEQ_LEN, global_batch=ROWS, packing=packing, epochs=None, seed=1, prefetch=0
        )
        course = loader._legs.find(0)[0]
        many = course.ahead(1)
        times = []
        for turn in range(30):
            begin = time.perf_counter()
            stretch = course.stretch(turn * many, 1, many)
            if stretch.runs is not None:
                for index in range(many):
                    stretch.runs_of(index, ROWS)
            times.append((time.perf_counter() - begin) / many)
        found[name] = measure.median(times)
    return found


# ------------------------------------------------------------------------------------------------ trace, when


def _tracing(place: Place) -> list[Figure]:
    folder = place.work / "trace-source"
    if not (folder / "doc_lengths.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        lengths = document_lengths(PLANNED * MEAN)
        # where documents lie is all that is asked: the ids are a hole
        with (folder / "tokens.bin").open("wb") as file:
            file.truncate(2 * int(lengths.sum()))
        np.save(folder / "doc_lengths.npy", lengths)
    found = measure.answer(python("-m", "benchmarks.packing", "trace", folder))
    documents = f"of {found.pop('documents'):,.0f} documents"
    limits = {"trace": 10.0, "when": 200.0, "when, many": 200.0}
    return [
        at_most(f"{name} {documents}", taken, limits[name.split(": ")[1]], unit=" us") for name, taken in found.items()
    ]


def trace(path: str) -> dict[str, float]:
    """Microseconds a row of finding its documents, for rows in their order; of finding the rows of one document, the
    median; of the same for many documents at once, a document."""
    corpus = tokenriver.open_corpus(path)
    found: dict[str, float] = {"documents": corpus.num_documents or 0}
    documents = np.random.default_rng(1).integers(0, corpus.num_documents or 0, 1000)
    for packing in ("concat", "best_fit"):
        loader = tokenriver.Loader(corpus, seq_len=SEQ_LEN, global_batch=ROWS, packing=packing, epochs=1, seed=1)
        loader.when(0)  # the first look-up makes a table
        numbers = np.arange(1 << 14, dtype=np.int64)
        found[f"{packing}: trace"] = _once(partial(loader.trail.shown, numbers)) / len(numbers) * 1e6
        found[f"{packing}: when"] = measure.median([_once(partial(loader.when, n)) * 1e6 for n in documents.tolist()])
        many = _once(partial(loader.trail.rows, documents, 0, loader.num_rows))
        found[f"{packing}: when, many"] = many / len(documents) * 1e6
    return found


def _once(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# ------------------------------------------------------------------------------------------------ loading


def _loading(place: Place, folder: Path) -> list[Figure]:
    rates = measure.answer(python("-m", "benchmarks.packing", "load", folder, 0.3, 2 * place.rounds + 1))
    plain, bare = rates["concat"], rates[BARE]
    targets = {"best_fit, cu_seqlens": 0.6, "best_fit, cu_seqlens, position_ids, loss_mask": 0.35}
    return [
        *(
            at_least(f"T={SEQ_LEN}, {name}: {rate / 1e6:,.0f} M ids/s, over concat", rate / plain, targets[name])
            if name in targets
            else Figure(f"T={SEQ_LEN}, {name}: {rate / 1e6:,.0f} M ids/s, over concat", f"{rate / plain:.2f}")
            for name, rate in rates.items()
        ),
        *(Figure(f"T={SEQ_LEN}, {name}: over {BARE}", f"{rates[name] / bare:.2f}") for name in targets),
    ]


def load(path: str, seconds: float, rounds: int) -> dict[str, float]:
    """Median ids a second of each kind of batch."""
    corpus = tokenriver.open_corpus(path)
    jobs: dict[str, Callable[[], float]] = {}
    for name, packing, look in (
        ("concat", "concat", _plain),
        ("document", "document", _plain),
        ("best_fit, cu_seqlens", "best_fit", _edges),
        ("best_fit, cu_seqlens, position_ids, loss_mask", "best_fit", _everything),
    ):
        loader = tokenriver.Loader(
            corpus, seq_len=SEQ_LEN, global_batch=LOAD_ROWS, packing=packing, epochs=None, seed=1, prefetch=0
        )
        jobs[name] = partial(_rate, iter(loader).__next__, look, seconds)
        if packing == "best_fit":
            jobs[f"{name}; {PLAIN}"] = partial(
                _by_numpy, partial(_rate, iter(loader.strided(0, 1)).__next__, look, seconds)
            )
    # the loader of packed rows came last
    course = loader._legs.find(0)[0]
    stretch = course.stretch(0, 1, loader.steps_per_epoch - 1)
    runs = [stretch.runs_of(index, LOAD_ROWS) for index in range(len(stretch.filled))]
    rows = bare_rows(Path(path) / "tokens.bin", [(one.starts, one.sizes) for one in runs], (LOAD_ROWS, SEQ_LEN))
    jobs[BARE] = partial(_rate, rows.__next__, lambda pair: int(pair[0][0, 0]) + int(pair[1][-1, -1]), seconds)
    measure.alternate(jobs, 1)
    return {name: measure.median(rates) for name, rates in measure.alternate(jobs, rounds).items()}


def _by_numpy(job: Callable[[], float]) -> float:
    """What a job does where no C compiler was found."""
    with patch.object(compiled, "COMPILED", None):
        return job()


def _plain(batch: Batch) -> int:
    return int(batch.input_ids[0, 0]) + int(batch.targets[-1, -1])


def _edges(batch: Batch) -> int:
    return _plain(batch) + int(batch.cu_seqlens[-1])


def _everything(batch: Batch) -> int:
    return _edges(batch) + int(batch.position_ids[-1, -1]) + int(batch.loss_mask[-1, -1])


def _rate(take: Callable[[], Any], look: Callable[[Any], int], seconds: float) -> float:
    """Positions a second, filled or padded; the consumer looks at what it asked for of every batch."""
    count = seen = 0
    begin = now = time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        for _ in range(8):
            seen += look(take())
        count += 8
    assert seen != 0
    return count * LOAD_ROWS * SEQ_LEN / (now - begin)


if __name__ == "__main__":
    _what, *_rest = sys.argv[1:]
    if _what == "plan":
        print(json.dumps(plan(int(_rest[0]), int(_rest[1]))))
    elif _what == "trace":
        print(json.dumps(trace(_rest[0])))
    elif _what == "look-up":
        print(json.dumps(look_up(_rest[0])))
    else:
        print(json.dumps(load(_rest[0], float(_rest[1]), int(_rest[2]))))
