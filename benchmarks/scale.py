"""Start and resume on files of up to 10^12 ids. The files are sparse: nothing here depends on what the ids are, but a
page that is touched is made, with as many around it as the system reads ahead (/sys/block/*/queue/read_ahead_kb).

    python -m benchmarks.scale first BIN SEED    seconds from open_corpus to the first batch, memory over the imports
    python -m benchmarks.scale resume BIN        seconds to the first batch after a state, at several places of a run

Each runs in a fresh process that has imported numpy and tokenriver.
"""

import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tokenriver
from benchmarks import measure
from benchmarks.build import Place
from benchmarks.measure import MB, Figure, at_most, python

SIZES = (10**9, 10**10, 10**11, 10**12)
SEQ_LEN, ROWS = 1024, 32
PLACES = {"start": 0.0, "one percent": 0.01, "half": 0.5, "end": 0.999}


def run(place: Place) -> list[Figure]:
    """First batch by size, then resume and state on the largest."""
    figures = []
    for ids in SIZES:
        runs = [_fresh(place, ids, seed) for seed in range(place.rounds + 2)]
        seconds = measure.median([one["seconds"] for one in runs])
        name = f"10^{len(str(ids)) - 1} ids: open_corpus to first batch"
        figures.append(at_most(name, seconds * 1000, 100, unit=" ms", data=runs))
    whole = measure.median([one["with_imports"] for one in runs])
    figures.append(Figure("10^12 ids: the same with the modules behind the names", f"{whole * 1000:.1f} ms"))
    grown = max(one["grown"] for one in runs)
    figures.append(at_most("10^12 ids: resident memory over the import", grown / MB, 100, unit=" MB"))
    return figures + _resume(place)


def _resume(place: Place) -> list[Figure]:
    found = measure.answer(python("-m", "benchmarks.scale", "resume", _sparse(place, SIZES[-1])))
    start = found["seconds"]["start"]
    figures = [Figure("resume: start of the run", f"{start * 1000:.2f} ms", data=found)]
    for name, seconds in found["seconds"].items():
        if name != "start":
            figures.append(at_most(f"resume: {name} of the run over its start", seconds / start, 1.25, unit=" x"))
    _sparse(place, SIZES[-1]).unlink()
    return [*figures, at_most("state as JSON, longest seen", found["state_bytes"], 256, unit=" bytes")]


def _fresh(place: Place, ids: int, seed: int) -> dict[str, Any]:
    path = _sparse(place, ids)
    found = measure.answer(python("-m", "benchmarks.scale", "first", path, seed))
    path.unlink()
    return found


def _sparse(place: Place, ids: int) -> Path:
    """A nanoGPT file of zeros that takes no room and, new each time, lies in no cache."""
    path = place.work / f"sparse-{ids}.bin"
    with path.open("wb") as file:
        file.truncate(2 * ids)
    return path


def first(path: str, seed: int) -> dict[str, float]:
    """Seconds with and without the first use of the names, which imports the modules behind them, and peak resident
    bytes over those after it (of file pages too)."""
    start = time.perf_counter()
    open_corpus, make_loader = tokenriver.open_corpus, tokenriver.Loader
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    corpus = open_corpus(path)
    loader = make_loader(corpus, seq_len=SEQ_LEN, global_batch=ROWS, seed=seed, prefetch=0)
    batch = next(iter(loader))
    total = int(batch.input_ids.sum() + batch.targets.sum())
    end = time.perf_counter()
    assert total == 0
    assert batch.targets.dtype == np.int64
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return {"seconds": end - begin, "with_imports": end - start, "grown": grown}


def resume(path: str) -> dict[str, Any]:
    """Median seconds of new loader + load_state_dict + first batch, by place, the places in turn."""
    corpus = tokenriver.open_corpus(path)
    states = {}
    for name, share in PLACES.items():
        loader = _loader(corpus)
        states[name] = loader.batch(int(share * loader.steps_per_epoch)).state
    seconds: dict[str, list[float]] = {name: [] for name in states}
    for _ in range(40):
        for name, state in states.items():
            begin = time.perf_counter()
            loader = _loader(corpus)
            loader.load_state_dict(state)
            next(iter(loader))
            seconds[name].append(time.perf_counter() - begin)
    return {
        "seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "state_bytes": max(len(json.dumps(state)) for state in states.values()),
    }


def _loader(corpus: "tokenriver.Corpus") -> "tokenriver.Loader":
    return tokenriver.Loader(corpus, seq_len=SEQ_LEN, global_batch=ROWS, seed=7, prefetch=0)


if __name__ == "__main__":
    print(json.dumps(first(sys.argv[2], int(sys.argv[3])) if sys.argv[1] == "first" else resume(sys.argv[2])))
