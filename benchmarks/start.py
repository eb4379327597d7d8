"""What it costs to begin, and what holds when there is much: imports, 10,000 shards, a file larger than memory.

python -m benchmarks.start shards CORPUS        batches from every shard with at most 256 open files
python -m benchmarks.start flat BIN BATCHES     private memory along many batches
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import tokenriver
from benchmarks import measure
from benchmarks.build import Place
from benchmarks.measure import MB, Figure, at_most, python

SHARDS = 10_000
DOCUMENT = 500
OPEN_FILES = 256
BATCHES = 100_000
SEQ_LEN, ROWS = 1024, 8
IMPORTS = {
    "import numpy": "import numpy",
    "import tokenriver": "import tokenriver",
    "open_corpus, Loader and build in hand": "from tokenriver import Loader, build, open_corpus",
}
# what the command does, and then: is numpy there?
HELP = (
    "import runpy, sys",
    "sys.argv = ['tokenriver', '--help']",
    "try: runpy.run_module('tokenriver', run_name='__main__')",
    "except SystemExit: print()",
    "print('numpy' in sys.modules)",
)


def run(place: Place) -> list[Figure]:
    """Everything of this file."""
    return [*_imports(place), *_help(place), *_many_shards(place), *_flat(place)]


def _imports(place: Place) -> list[Figure]:
    def seconds(code: str) -> float:
        return measure.call(python("-c", code)).seconds

    jobs: dict[str, Callable[[], float]] = {name: partial(seconds, code) for name, code in IMPORTS.items()}
    measure.alternate(jobs, 1)
    times = {name: measure.median(runs) * 1000 for name, runs in measure.alternate(jobs, 3 + 4 * place.rounds).items()}
    numpy = times.pop("import numpy")
    figures = [Figure("import numpy, fresh process", f"{numpy:.0f} ms", data=numpy)]
    package = times.pop("import tokenriver")
    figures.append(at_most("import tokenriver, over it", package - numpy, 40, unit=" ms"))
    # what the names bring when they are used: for information
    return figures + [Figure(f"{name}, over it", f"{value - numpy:.1f} ms") for name, value in times.items()]


def _help(place: Place) -> list[Figure]:
    code = "\n".join(HELP)
    loaded = measure.call(python("-c", code)).output.splitlines()[-1]
    seconds = measure.median([measure.call(python("-m", "tokenriver", "--help")).seconds for _ in range(place.rounds)])
    return [
        Figure("--help imports numpy", loaded.lower(), "false", loaded == "False"),
        Figure("--help, fresh process", f"{seconds * 1000:.0f} ms"),
    ]


def _many_shards(place: Place) -> list[Figure]:
    """A corpus of 10,000 shards, each one document of DOCUMENT bytes and its end."""
    source, out = place.work / "documents.jsonl", place.work / f"{SHARDS}-shards"
    if not (out / "manifest.json").exists():
        with source.open("w") as file:
            for number in range(SHARDS):
                file.write(json.dumps({"text": f"{number:05d} ".ljust(DOCUMENT, "abcdefghij"[number % 10])}) + "\n")
        tokens = ("--tokenizer", "byte", "--shard-tokens", DOCUMENT + 1)
        measure.call(python("-m", "tokenriver", "build", source, "-o", out, *tokens, "--json"))
    found = measure.answer(python("-m", "benchmarks.start", "shards", out))
    name = f"{found['shards']:,} shards with {OPEN_FILES} files: an epoch in random order"
    whole = found["shards"] >= SHARDS and found["ids"] == found["served"]
    value = f"{found['rate'] / 1e6:.1f} M ids/s, {found['files']} files open"
    return [Figure(name, value, "all ids served", whole, found)]


def _flat(place: Place) -> list[Figure]:
    """The file is sparse and a quarter larger than memory: its pages are made, mapped and thrown out like any
    others."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    path = place.work / "larger-than-memory.bin"
    with path.open("wb") as file:
        file.truncate(memory // 4 * 5)
    batches = BATCHES if place.rounds > 1 else BATCHES // 20
    found = measure.answer(python("-m", "benchmarks.start", "flat", path, batches))
    path.unlink()
    private = [sample["Pss_Anon"] for sample in found["samples"]]
    name = f"{batches:,} batches, file of {memory * 1.25 / 1e9:.0f} GB, {memory / 1e9:.0f} GB of memory: private growth"
    return [at_most(name, (private[-1] - private[0]) / MB, 2, unit=" MB", data=found)]


def shards(path: str) -> dict[str, Any]:
    """One epoch of shuffled windows under a limit of open files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    corpus = tokenriver.open_corpus(path)
    loader = tokenriver.Loader(corpus, seq_len=100, global_batch=ROWS, seed=1, prefetch=0)
    begin = time.perf_counter()
    served = sum(batch.num_targets for batch in loader)
    seconds = time.perf_counter() - begin
    return {
        "shards": len(corpus.shards),
        "ids": loader.num_rows * 100,
        "served": served,
        "rate": served / seconds,
        "files": len(os.listdir("/proc/self/fd")),
    }


def flat(path: str, batches: int) -> dict[str, Any]:
    """Memory of this process at ten places of a run, the first one after a hundredth of it."""
    corpus = tokenriver.open_corpus(path)
    loader = tokenriver.Loader(corpus, seq_len=SEQ_LEN, global_batch=ROWS, seed=1, epochs=None, prefetch=0)
    samples = []
    stops = {batches // 100, *(batches * tenth // 10 for tenth in range(1, 11))}
    begin = time.perf_counter()
    for number, _ in enumerate(loader, 1):
        if number in stops:
            sample = {field: measure.memory(os.getpid(), field) for field in ("Pss_Anon", "Rss")}
            samples.append({"batch": number, "seconds": time.perf_counter() - begin, **sample})
        if number == batches:
            break
    return {"samples": samples}


if __name__ == "__main__":
    print(json.dumps(shards(sys.argv[2]) if sys.argv[1] == "shards" else flat(sys.argv[2], int(sys.argv[3]))))
