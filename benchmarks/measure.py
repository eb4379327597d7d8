"""How things are measured here: fresh processes, medians of alternating runs, memory of a whole process tree."""

import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tokenriver

HERE = Path(__file__).resolve().parent
MB = 1_000_000
SAMPLE_SECONDS = 0.05
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table: what was measured, and what it was to reach."""

    name: str
    value: str
    target: str = ""
    reached: bool | None = None
    """None where nothing is promised."""
    data: object = None
    """The numbers behind it, for results.json."""


@dataclass(frozen=True, slots=True)
class Run:
    """One process from start to end."""

    seconds: float
    cpu: float
    """CPU seconds of the process and of all that it waited for: steadier than wall time where others work too."""
    output: str


def at_least(name: str, value: float, target: float, *, unit: str = "", data: object = None) -> Figure:
    """A figure that must not fall below its target."""
    return Figure(name, f"{value:.2f}{unit}", f">= {target:g}{unit}", value >= target, data)


def at_most(name: str, value: float, target: float, *, unit: str = "", data: object = None) -> Figure:
    """A figure that must not exceed its target."""
    shown = f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
    return Figure(name, f"{shown}{unit}", f"<= {target:g}{unit}", value <= target, data)


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print a table."""
    rows = [(f.name, f.value, f.target, {None: "", True: "yes", False: "NO"}[f.reached]) for f in figures]
    rows.insert(0, (title, "measured", "target", "reached"))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for number, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    print(flush=True)


def python(*arguments: object) -> list[str]:
    """A command line of this interpreter."""
    return [sys.executable, *(str(argument) for argument in arguments)]


def call(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a fresh process; its wall time includes the interpreter's start. A failure stops the benchmark."""
    cpu, begin = _cpu(), time.perf_counter()
    done = subprocess.run(command, env=os.environ | dict(environment or {}), capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return Run(seconds, _cpu() - cpu, done.stdout)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answer(command: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON object on the last line that a fresh process prints."""
    value: dict[str, Any] = json.loads(call(command, environment).output.splitlines()[-1])
    return value


def alternate(jobs: Mapping[str, Callable[[], Value]], rounds: int) -> dict[str, list[Value]]:
    """Do every job once a round, the order turned by one each round, so that a drift of the machine meets all alike."""
    names = list(jobs)
    values: dict[str, list[Value]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            values[name].append(jobs[name]())
    return values


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def descendants(root: int) -> list[int]:
    """A process and all that live below it."""
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        for task in Path("/proc", str(process), "task").glob("*/children"):
            try:
                waiting.extend(map(int, task.read_text().split()))
            except OSError:
                continue
    return found


def memory(process: int, field: str = "Pss") -> int:
    """Bytes of one field of /proc/PROCESS/smaps_rollup; 0 when the process is gone. Pss counts a page that n
    processes share as 1/n in each, so a sum over a tree counts it once."""
    try:
        lines = Path("/proc", str(process), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


def peak_memory(command: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, int]:
    """Highest sum over the process tree of Pss and of its private part (Pss_Anon), sampled; in bytes. For runs that
    nobody times."""
    peak = {"Pss": 0, "Pss_Anon": 0}
    with subprocess.Popen(
        command, env=os.environ | dict(environment or {}), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None:
            tree = descendants(process.pid)
            for field in peak:
                peak[field] = max(peak[field], sum(memory(member, field) for member in tree))
            time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return peak


def compile_ours() -> None:
    """Write our bytecode, as installers do: a source tree may have none, where the environment forbids Python to write
    it, and then each process compiles anew what it imports."""
    compileall.compile_dir(Path(tokenriver.__file__).parent, quiet=1)


def drop(path: Path) -> None:
    """Remove what an earlier run left under the work folder."""
    subprocess.run(["rm", "-rf", "--", str(path)], check=True)


def warm(paths: Sequence[Path]) -> None:
    """Read files once, so that every contender finds them in the page cache."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass
