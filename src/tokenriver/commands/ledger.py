"""Compare what two runs saw; name the first step where they part."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenriver.commands import _options, _output
from tokenriver.ledger import Seen, compare, read_ledger

First = Annotated[Path, typer.Argument(metavar="A", help="Folder that a run's Loader had as ledger=.")]
Second = Annotated[Path, typer.Argument(metavar="B", help="That of another run.")]


def run(first: First, second: Second, json: _options.Json = False) -> None:
    """Compare what two runs saw; name the first step where they part.

    Steps that only one run tells of are not compared: one may be longer. World
    sizes and micro batches may differ. Exit code 1 if the runs part, or have
    no step in common.

    Example:  tokenriver ledger first-run second-run
    """
    found = compare(read_ledger(first), read_ledger(second))
    only = [("steps of both", found.steps), (f"only in {first}", found.only[0]), (f"only in {second}", found.only[1])]
    if json:
        seen = None if found.seen is None else [_plain(seen) for seen in found.seen]
        _output.emit_json({"steps": found.steps, "only": list(found.only), "parted": found.parted, "seen": seen})
    elif found.seen is not None:
        _output.heading(f"the runs part at step {found.parted:,}")
        _output.pairs([*only, *((str(path), _words(s)) for path, s in zip((first, second), found.seen, strict=True))])
    elif found.steps:
        _output.heading("the runs saw the same")
        _output.pairs(only)
    else:
        _output.heading("the runs have no step in common")
        _output.pairs(only)
    if found.seen is not None or not found.steps:
        raise typer.Exit(1)


def _plain(seen: Seen) -> dict[str, Any]:
    return {**asdict(seen), "sum": f"{seen.sum:032x}"}


def _words(seen: Seen) -> str:
    rows = f"rows {seen.row:,} to {seen.row + seen.rows:,}" if seen.rows else "no row"
    return f"{rows}, sum {seen.sum:032x}"
