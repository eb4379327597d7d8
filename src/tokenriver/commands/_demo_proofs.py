"""The steps of the demo once the text is there: each does one thing, says what it saw, and returns it as plain values.

A step that proves something returns `passed`.
"""

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tokenriver
from tokenriver.batch import Batch
from tokenriver.commands import _demo_crash, _demo_ranks, _demo_rates, _environment, _output, _rates, _report, _rows

UNITS = 12
ORDERS = ((1,), (2,), (3,), (1, 2, 3))
SEQ_LEN, ROWS = 1024, 32
SECONDS = 0.5

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo plays, and what was found so far, by step."""

    text: Path
    corpus: Path
    again: Path
    workers: int
    found: dict[str, Values]

    @property
    def options(self) -> dict[str, Any]:
        """Of both builds: small units, so that there is something to be killed between."""
        unit_bytes = max(1, self.found["text"]["text_bytes"] // UNITS)
        return {"workers": self.workers, "unit_bytes": unit_bytes, "val_fraction": 0.01}

    @property
    def words(self) -> list[str]:
        """The same options as the command line has them."""
        return [word for key, value in self.options.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def build(stage: Stage) -> Values:
    """The corpus, by the function behind `tokenriver build`."""
    _say(["build", str(stage.text), "-o", str(stage.corpus), *stage.words])
    seen: list[tuple[float, float]] = []
    begin = time.perf_counter()
    with _output.progress("  building") as bar:

        def progress(done: int, total: int) -> None:
            seen.append((time.perf_counter(), done / total))
            bar(done, total)

        result = tokenriver.build(stage.text, stage.corpus, progress=progress, **stage.options)
    seconds = time.perf_counter() - begin
    _report.built(result.as_dict(), seconds)
    return {"seconds": seconds, "steady": _steady(seen, stage.workers), **result.as_dict()}


def _steady(seen: Sequence[tuple[float, float]], workers: int) -> float | None:
    """Share of the input a second once every worker had finished a unit; None if there was no more to do."""
    at, done = seen[min(workers, len(seen)) - 1]
    end, all_done = seen[-1]
    return (all_done - done) / (end - at) if end > at else None


def verify(stage: Stage) -> Values:
    """Every checksum, and every document against its source."""
    _say(["verify", str(stage.corpus), "--against-inputs", "--inputs-root", str(stage.text.parent)])
    begin = time.perf_counter()
    with _output.progress("  verifying"):
        findings = tokenriver.verify(stage.corpus, against_inputs=True, inputs_root=stage.text.parent)
    seconds = time.perf_counter() - begin
    print(f"  {len(findings) or 'no'} findings, {seconds:.1f} s")
    for finding in findings[:10]:
        print(f"  {finding.path}: {finding.what}: got {finding.got}, expected {finding.expected}")
    return {"seconds": seconds, "findings": len(findings), "passed": not findings}


def batch(stage: Stage) -> Values:
    """Two rows, as `tokenriver batches` prints them: the first step that shows documents side by side."""
    corpus = _environment.open_corpus(stage.corpus)
    loader = tokenriver.Loader(corpus, seq_len=256, global_batch=2, seed=3, epochs=None, prefetch=0)
    step = max(range(500), key=lambda step: (_changes(loader.batch(step)), -step))
    _say(["batches", str(stage.corpus), *f"--seq-len 256 --batch-size 2 --seed 3 --start {step}".split()])
    shown = loader.batch(step)
    for row in _rows.rows(shown, corpus):
        _rows.show(row, 160)
    print(f"  state after it: {json.dumps(shown.state)}")
    return {"num_rows": loader.num_rows, "state": shown.state}


def _changes(batch: Batch) -> int:
    """Document starts inside the rows, four at most: more of them are no better to look at."""
    return min(4, int(np.count_nonzero(np.diff(batch.document_ids, axis=1))))


def crash(stage: Stage) -> Values:
    """The same build into another folder, killed and run again."""
    seen = _demo_crash.kill_and_rerun(["build", str(stage.text), *stage.words], stage.again, stage.corpus)
    print(f"  SIGKILL to all its processes when the second receipt was there; {seen.receipts} units were done by then")
    print(f"  opening what it left: {seen.refusal or 'it opened, which it must not'}")
    done = seen.units - seen.resumed
    print(f"  the same command again: {seen.resumed} units taken over, {done} done, {seen.seconds:.1f} s")
    same = f"all {seen.files} files have" if not seen.different else f"{', '.join(seen.different)} do not have"
    print(f"  {same} the same bytes as in {stage.corpus}, which nobody disturbed")
    return {**asdict(seen), "passed": seen.passed}


def ranks(stage: Stage) -> Values:
    """Every row of the epoch is counted, and its ids are compared with those that one rank got."""
    corpus = _environment.open_corpus(stage.corpus)
    epochs = [_demo_ranks.serve(corpus, order) for order in ORDERS]
    one = epochs[0]
    head = ["ranks", "rows served", "never", "twice", "filler", "same order and ids as 1 rank"]
    table = [[e.ranks, e.served, e.missed, e.repeats, e.filler, e.same_as(one)] for e in epochs]
    _output.columns(head, table)
    print(f"  '1 > 2 > 3' stopped twice and resumed on other ranks from a state of {epochs[-1].state_bytes} bytes")
    passed = all(epoch.exactly_once() and epoch.same_as(one) for epoch in epochs)
    return {"rows": len(one.samples), "state_bytes": epochs[-1].state_bytes, "passed": passed}


def rates(stage: Stage) -> Values:
    """Build and loader beside bare scripts of this run; nothing is proved, machines differ."""
    size, done = stage.found["text"]["text_bytes"], stage.found["build"]
    built, steady = size / done["seconds"], size * (done["steady"] or 0.0)
    bare = _demo_rates.ceilings(stage.text, stage.text.with_name("scratch.bin"))
    corpus = _environment.open_corpus(stage.corpus)
    loader = _rates.loader_rate(corpus, SEQ_LEN, ROWS, SECONDS, prefetch=0)
    gather = _rates.gather_rate(corpus, SEQ_LEN, ROWS, SECONDS)
    script, encoder = (
        "zstd, JSON, encoder, file: one bare process",
        "the encoder alone, cold: one process",
    )
    rows = [
        ["build, from start to commit", *_share(built, bare.script, "MB/s"), script],
        [f"build, its {stage.workers} workers running", *_share(steady, bare.script, "MB/s"), script],
        ["", *_share(steady, bare.encoder, "MB/s"), encoder],
        ["loader, one thread", *_share(loader, gather, "M ids/s"), "numpy gather into one reused buffer"],
    ]
    _output.columns(["", "measured", "ceiling", "share", "the ceiling is"], rows)
    if steady:
        rest = done["seconds"] - size / steady
        print(f"  {rest:.1f} s of the build's {done['seconds']:.1f} s went into starting its processes and committing")
    values = {"build": built, "build_steady": steady, "script": bare.script, "encoder": bare.encoder}
    return {**values, "loader": loader, "gather": gather}


def _share(rate: float, ceiling: float, unit: str) -> Sequence[str]:
    million = [f"{value / 1e6:,.{0 if value >= 1e7 else 1}f} {unit}" for value in (rate, ceiling)]
    return *million, f"{rate / ceiling:.0%}"


def _say(words: Sequence[str]) -> None:
    print(f"  $ tokenriver {shlex.join(words)}")
