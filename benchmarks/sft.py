"""Fine-tuning data: megabytes of message text a second beside the bare encoder in the same run, and padding; and what
a loss mask costs the loader.

python -m benchmarks.sft make FILE TEXTS MB conversations of log-normal lengths, one to three exchanges each
python -m benchmarks.sft encoder FILE       seconds of the encoder alone, one thread, over the texts of the messages
python -m benchmarks.sft ours FILE OUT      seconds of tr.sft, and the padding of rows of 2,048 by best_fit
python -m benchmarks.sft masked OUT ROUNDS  ids a second of the loader, with the corpus's mask and without, by T

The first two begin with everything imported and the first texts encoded.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import tokenriver
from benchmarks import corpus, load, measure
from benchmarks.build import Place
from benchmarks.measure import Figure, at_least, at_most, python

SEQ_LEN, TARGET = 2048, 50
MIDDLE = {"user": 250, "assistant": 750}
"""Median characters of a message by its role."""
BATCH = 4096
WARM = 64
"""Texts that a tokenizer encodes before the clock starts: it makes its table then."""
SEQ_LENS, SECONDS = (1024, 2048), 0.3
"""Of the loader; windows of time in which it runs with a mask and without by turns."""


def run(place: Place) -> list[Figure]:
    """Speed of both, and padding."""
    path, out = place.work / "sft.jsonl", place.work / "sft-corpus"
    if not path.exists():
        make(path, corpus.texts(place.work, place.megabytes).jsonl, place.megabytes)
    measure.warm([path])

    def ours() -> dict[str, Any]:
        measure.drop(out)
        return measure.answer(python("-m", "benchmarks.sft", "ours", path, out))

    jobs = {"ours": ours, "encoder": lambda: measure.answer(python("-m", "benchmarks.sft", "encoder", path))}
    runs = measure.alternate(jobs, place.rounds)
    rates = {name: measure.median([found["bytes"] / found["seconds"] / 1e6 for found in runs[name]]) for name in runs}
    cost = measure.answer(python("-m", "benchmarks.sft", "masked", out, 3 * place.rounds))
    measure.drop(out)
    return [
        at_least("message text to a corpus, template plain: MB/s", rates["ours"], TARGET, data=runs["ours"]),
        Figure("the encoder alone, one thread: MB/s", f"{rates['encoder']:.0f}", data=runs["encoder"]),
        Figure("share of the encoder's rate", f"{rates['ours'] / rates['encoder']:.2f} x"),
        at_most(f"padding of rows of {SEQ_LEN:,} by best_fit", runs["ours"][0]["padding"] * 100, 1, unit=" %"),
        *[_masked(name, rates) for name, rates in cost.items()],
    ]


def _masked(name: str, rates: dict[str, float]) -> Figure:
    """Time an id with a mask over that without."""
    spent = {kind: 1e9 / rate for kind, rate in rates.items()}
    ratio = f"{spent['with'] / spent['without']:.2f} x"
    return Figure(f"{name}: loading with a loss mask over without", f"{ratio} of {spent['without']:.2f} ns an id")


def make(path: Path, texts: Path, megabytes: int) -> dict[str, float]:
    """Conversations whose messages have log-normal lengths, cut one after another from the texts of a corpus."""
    generator = np.random.default_rng(1)
    total = 0
    with path.open("wb") as file, texts.open("rb") as lines:
        stream = (orjson.loads(line)["text"] for line in lines)
        rest = ""
        while total < megabytes * 1_000_000:
            messages = []
            for _ in range(int(generator.choice([1, 1, 1, 2, 3]))):
                for role, middle in MIDDLE.items():
                    size = int(generator.lognormal(np.log(middle), 0.8)) + 1
                    while len(rest) < size:
                        more = next(stream, None)
                        if more is None:
                            return {"bytes": total}
                        rest += more
                    content, rest = rest[:size], rest[size:]
                    total += len(content)
                    messages.append({"role": role, "content": content})
            file.write(orjson.dumps({"messages": messages}, option=orjson.OPT_APPEND_NEWLINE))
    return {"bytes": total}


def encoder(path: Path) -> dict[str, float]:
    """The texts are there; they are encoded as many at a time as ours are."""
    texts = _texts(path)
    tokenizer = tokenriver.load_tokenizer("gpt2")
    tokenizer.encode_batch(texts[:WARM])
    begin = time.perf_counter()
    for at in range(0, len(texts), BATCH):
        tokenizer.encode_batch(texts[at : at + BATCH])
    return {"seconds": time.perf_counter() - begin, "bytes": sum(map(len, texts))}


def ours(path: Path, out: Path) -> dict[str, float]:
    """From the file to the committed corpus."""
    texts, sft = _texts(path), tokenriver.sft
    size = sum(map(len, texts))
    tokenizer = tokenriver.load_tokenizer("gpt2")
    tokenizer.encode_batch(texts[:WARM])
    del texts
    begin = time.perf_counter()
    report = sft(path, out, tokenizer=tokenizer, max_length=SEQ_LEN, seq_len=SEQ_LEN)
    return {"seconds": time.perf_counter() - begin, "bytes": size, "padding": report.padding}


def masked(out: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Median ids a second of windows in shuffled order, in one process and by turns, the mask left out or kept."""
    measure.warm(sorted(out.iterdir()))
    found = {}
    for seq_len in SEQ_LENS:
        takes = {"with": load.loader(out, seq_len, 0), "without": load.loader(out, seq_len, 0, masked=False)}
        jobs = {name: partial(load.rate, take, seq_len, SECONDS) for name, take in takes.items()}
        measure.alternate(jobs, 1)
        runs = measure.alternate(jobs, rounds)
        found[f"T={seq_len}"] = {name: measure.median(rates) for name, rates in runs.items()}
    return found


def _texts(path: Path) -> list[bytes]:
    rows = [orjson.loads(line)["messages"] for line in path.read_bytes().splitlines()]
    return [message["content"].encode() for row in rows for message in row]


if __name__ == "__main__":
    what, file, *more = sys.argv[1:]
    answer: dict[str, Any]
    if what == "make":
        answer = make(Path(file), Path(more[0]), int(more[1]))
    elif what == "masked":
        answer = masked(Path(file), int(more[0]))
    else:
        answer = encoder(Path(file)) if what == "encoder" else ours(Path(file), Path(more[0]))
    print(json.dumps(answer))
