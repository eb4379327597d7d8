"""Options that several commands share, described once."""

from pathlib import Path
from typing import Annotated

import typer

from tokenriver.commands._output import count

CorpusPath = Annotated[Path, typer.Argument(metavar="PATH", help="A corpus folder, or a shard of any known format.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Split = Annotated[str, typer.Option("--split", help="Which split of the corpus.")]
SeqLen = Annotated[int, typer.Option("--seq-len", parser=count, metavar="T", help="Positions of a row.")]
GlobalBatch = Annotated[
    int, typer.Option("--batch-size", parser=count, metavar="B", help="Rows of all ranks in one step.")
]
Seed = Annotated[int, typer.Option("--seed", help="The one integer that fixes the order.")]
