"""Run the benchmarks, print their tables, keep the numbers.

    python -m benchmarks [build memory load formats ...] [--quick] [--work bench-work]

Every ratio is of two things measured in the same run. --quick does less of everything: its numbers are for a look.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import build, chat, downloads, formats, load, measure, packing, scale, sft, start, tokenizers, training
from benchmarks.measure import Figure

BENCHMARKS: dict[str, Callable[[build.Place], list[Figure]]] = {
    "build": build.run,
    "memory": build.memory,
    "load": load.run,
    "formats": formats.run,
    "packing": packing.run,
    "scale": scale.run,
    "sft": sft.run,
    "start": start.run,
    "downloads": downloads.run,
    "training": training.run,
    "chat": chat.run,
    "tokenizers": tokenizers.run,
}


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 when a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="less text, fewer rounds")
    parser.add_argument("--work", type=Path, default=Path("bench-work"), help="texts, scratch and results.json")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(BENCHMARKS)):
        parser.error(f"got {', '.join(unknown)}, expected some of {', '.join(BENCHMARKS)}")
    options.work.mkdir(parents=True, exist_ok=True)
    measure.compile_ours()
    place = build.Place(options.work.resolve(), 50 if options.quick else 200, 1 if options.quick else 5)
    results = {}
    for name in options.names or BENCHMARKS:
        figures = BENCHMARKS[name](place)
        measure.show(name, figures)
        results[name] = [asdict(figure) for figure in figures]
        _keep(place.work / "results.json", results)
    missed = [figure["name"] for figures in results.values() for figure in figures if figure["reached"] is False]
    print(f"missed: {'; '.join(missed)}" if missed else "every target reached")
    return 1 if missed else 0


def _keep(path: Path, results: dict[str, list[dict[str, object]]]) -> None:
    """Add what was measured to what is there."""
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(old | results, indent=1) + "\n")
