"""A run as the command line gives it: the options of its loader, and where a row of it was served."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import tokenriver
from tokenriver.commands import _environment, _output
from tokenriver.corpus import Corpus
from tokenriver.errors import InputError
from tokenriver.loader import Loader
from tokenriver.runlog import Places, read_log

PhaseShift = Annotated[bool, typer.Option("--phase-shift", help="Windows are cut elsewhere in each epoch (concat).")]
Stride = Annotated[int | None, typer.Option("--stride", metavar="N", help="Ids between two windows (sliding).", min=1)]
Log = Annotated[
    Path | None, typer.Option("--run", metavar="LOG", help="The run's log, if batch or world size changed in it.")
]


@dataclass(frozen=True, slots=True)
class Run:
    """A corpus, its loader, and where rows were served."""

    corpus: Corpus
    loader: Loader
    places: Places

    def place(self, row_number: int) -> dict[str, int]:
        """Where a row was served, as plain values."""
        step, rank, index = self.places.place(row_number)
        epoch = row_number // self.loader.num_rows
        return {"row_number": row_number, "epoch": epoch, "step": step, "rank": rank, "index": index}


def origin(path: str | None, record: int | None) -> str:
    """Where a document came from, in words."""
    source = "unknown source" if path is None else _output.visible(path)
    return source if record is None else f"{source}, record {record:,}"


def open_run(corpus: Corpus, world_size: int | None, log: Path | None, options: dict[str, Any]) -> Run:
    """The run of a corpus that these options describe; with a log the steps are those of the log."""
    _, ranks = _environment.rank_and_world_size(0, world_size)
    loader = tokenriver.Loader(corpus, world_size=ranks, prefetch=0, **options)
    if log is not None and loader.buckets:
        raise InputError(f"--run: got {log} for a run in buckets, which needs no log; leave it out")
    return Run(corpus, loader, loader.places if log is None else read_log(log))
