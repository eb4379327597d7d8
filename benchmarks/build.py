"""The build, through the command line in a fresh process, beside bare scripts, the cold encoder and llm.c's structure.

Every contender reads the same .jsonl.zst files from a warm page cache and ends with ids on disk after fsync. Wall time
includes the interpreter's start for ours and for the bare scripts; the cold encoder's is of its calls alone.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import zstandard

import tokenriver
from benchmarks import ceilings, corpus, measure
from benchmarks.measure import MB, Figure, Run, at_least, at_most, python

BARE = ("one", "pipes", "farm", "threads")
WORKERS = 2
MEMORY_MB = (50, 1000)
ENVIRONMENT = {"RAYON_NUM_THREADS": str(WORKERS)}
RANKS = Path(tokenriver.__file__).parent / "tokenizers" / "data" / "r50k_base.tiktoken.zst"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run works, and how much it does."""

    work: Path
    megabytes: int
    rounds: int

    @property
    def table(self) -> Path:
        """The shipped rank table as the file that bare scripts read."""
        path = self.work / "r50k_base.tiktoken"
        if not path.exists():
            path.write_bytes(zstandard.ZstdDecompressor().decompress(RANKS.read_bytes()))
        return path

    @property
    def out(self) -> Path:
        return self.work / "corpus"


class Contest:
    """The contenders on one corpus. All must write the same ids."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.texts = corpus.texts(place.work, place.megabytes)
        self.inputs = {"one": [self.texts.one], "eight": self.texts.parts}
        self.digests: set[str] = set()
        measure.warm([self.texts.jsonl, *self.inputs["one"], *self.inputs["eight"]])

    def ours(self, layout: str) -> Run:
        out = self._fresh_out()
        run = measure.call(command(self.inputs[layout], out))
        river = tokenriver.open_corpus(out)
        steps = range(0, river.num_tokens, 1 << 22)
        self._same(river.read(i, min(i + (1 << 22), river.num_tokens)).data for i in steps)
        return run

    def bare(self, mode: str, layout: str) -> Run:
        out = self._fresh_out()
        script = python(measure.HERE / "bare_scripts.py", mode, self.place.table, out, *self.inputs[layout])
        run = measure.call(script, ENVIRONMENT)
        self._same([out.read_bytes()])
        return run

    def encoder(self, how: str) -> Run:
        script = python("-m", "benchmarks.ceilings", "encoder", how, self.place.table, self.texts.jsonl)
        return _inside(measure.call(script, ENVIRONMENT))

    def llmc(self) -> Run:
        out = self._fresh_out()
        script = python("-m", "benchmarks.ceilings", "llmc", self.place.table, out, self.texts.one)
        return _inside(measure.call(script))

    def _fresh_out(self) -> Path:
        measure.drop(self.place.out)
        os.sync()
        return self.place.out

    def _same(self, ids: Iterable[bytes | memoryview]) -> None:
        digest = hashlib.sha256()
        for part in ids:
            digest.update(part)
        self.digests.add(digest.hexdigest())
        if len(self.digests) > 1:
            raise SystemExit("build: the contenders did not write the same ids")


def run(place: Place) -> list[Figure]:
    """Speed of both layouts."""
    contest = Contest(place)
    texts = contest.texts
    shares = ", ".join(f"{size / MB:.0f} MB {kind}" for kind, size in texts.shares.items())
    print(f"build: {texts.documents:,} documents, {texts.text_bytes / MB:.0f} MB of text ({shares})", flush=True)
    jobs: dict[str, Callable[[], Run]] = {}
    for layout in contest.inputs:
        jobs[f"ours, {layout}"] = partial(contest.ours, layout)
        jobs |= {f"bare {mode}, {layout}": partial(contest.bare, mode, layout) for mode in BARE}
    jobs |= {f"encoder {how}": partial(contest.encoder, how) for how in ceilings.ENCODERS}
    runs = measure.alternate(jobs, place.rounds) | {"llm.c structure": [contest.llmc()]}
    measure.drop(place.out)
    return _table(runs, texts.text_bytes / MB)


def memory(place: Place) -> list[Figure]:
    """Peak memory of the process tree for little and much text; runs of their own, since sampling costs time."""
    texts = corpus.texts(place.work, place.megabytes)
    peaks = {}
    for size in MEMORY_MB:
        path = corpus.transformed(place.work, texts, size)
        measure.drop(place.out)
        peaks[size] = measure.peak_memory(command([path], place.out))
        measure.drop(place.out)
    lines = [
        at_most(f"{size} MB of text: peak Pss of the process tree", peak["Pss"] / MB, 1000, unit=" MB", data=peak)
        for size, peak in peaks.items()
    ]
    growth = peaks[MEMORY_MB[1]]["Pss"] / peaks[MEMORY_MB[0]]["Pss"]
    return [*lines, Figure(f"{MEMORY_MB[1]} MB over {MEMORY_MB[0]} MB", f"{growth:.2f} x", "independent of size")]


def _inside(run: Run) -> Run:
    """The clock of the process itself, without its start and its reading; its CPU seconds would count those."""
    return Run(float(json.loads(run.output)["seconds"]), 0.0, run.output)


def _table(runs: Mapping[str, Sequence[Run]], size: float) -> list[Figure]:
    speeds = {name: size / measure.median([one.seconds for one in some]) for name, some in runs.items()}
    figures = []
    for name, some in runs.items():
        cpu = measure.median([one.cpu for one in some])
        shown = f"{speeds[name]:.1f} MB/s" + (f", {cpu:.1f} CPU s" if cpu else "")
        figures.append(Figure(name, shown, data=[(one.seconds, one.cpu) for one in some]))
    cold = max(speed for name, speed in speeds.items() if name.startswith("encoder"))
    for layout in ("one", "eight"):
        ours = speeds[f"ours, {layout}"]
        bare, name = max((speeds[f"bare {mode}, {layout}"], mode) for mode in BARE)
        figures += [
            at_least(f"{layout}: ours over the best bare script ({name})", ours / bare, 0.9),
            at_least(f"{layout}: ours over the cold encoder in memory", ours / cold, 0.6),
            at_least(f"{layout}: ours over llm.c's structure", ours / speeds["llm.c structure"], 10),
        ]
    return figures


def command(sources: Sequence[Path], out: Path) -> list[str]:
    """The build as a user starts it."""
    return python("-m", "tokenriver", "build", *sources, "-o", out, "--workers", WORKERS, "--json")
