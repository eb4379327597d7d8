"""Show what a model would see: decoded rows, their documents, and where there is no loss."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import tokenriver
from tokenriver.commands import _environment, _options, _output, _rows
from tokenriver.commands._output import count

Packing = Annotated[
    str, typer.Option("--packing", metavar="NAME", help="concat, sliding, document, best_fit, bos_aligned or minimind.")
]
Overflow = Annotated[
    str, typer.Option("--overflow", metavar="RULE", help="Documents longer than a row: split, truncate or drop.")
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size", parser=count, metavar="B", help="Rows of all ranks in one step; in buckets at most so many."
    ),
]
Buckets = Annotated[
    str | None,
    typer.Option(
        "--buckets", metavar="N|W,...", help="Batches of rows of like length: the number of widths, or the widths."
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens-per-batch",
        parser=count,
        metavar="N",
        help="Positions of all ranks in one step at most (--packing document).",
    ),
]
MaskFirst = Annotated[bool, typer.Option("--mask-first", help="No loss on targets that begin a document.")]
MaskEos = Annotated[bool, typer.Option("--mask-eos", help="No loss on targets that are the id that ends texts.")]
Order = Annotated[
    str,
    typer.Option(
        "--order",
        metavar="NAME",
        help="shuffled, sequential, or another loader's: llmc, llmc-sequential, nanogpt, hdf5-iterator, hdf5-shards, "
        "hdf5-sft, hdf5-sft-sequential.",
    ),
]
Rank = Annotated[int | None, typer.Option("--rank", metavar="R", help="This rank (default: RANK, else 0).")]
WorldSize = Annotated[
    int | None, typer.Option("--world-size", metavar="W", help="Number of ranks (default: WORLD_SIZE, else 1).")
]
Start = Annotated[int, typer.Option("--start", metavar="STEP", help="First step to show.", min=0)]
Steps = Annotated[int, typer.Option("--steps", metavar="N", help="Number of steps to show.", min=1)]
Characters = Annotated[
    int, typer.Option("--characters", metavar="N", help="Of each run of text; 0 shows everything.", min=0)
]


def run(
    path: _options.CorpusPath,
    seq_len: _options.SeqLen,
    batch_size: BatchSize = None,
    steps: Steps = 1,
    start: Start = 0,
    characters: Characters = 240,
    seed: _options.Seed = 0,
    order: Order = "shuffled",
    packing: Packing = "concat",
    overflow: Overflow = "split",
    buckets: Buckets = None,
    max_tokens: MaxTokens = None,
    mask_first: MaskFirst = False,
    mask_eos: MaskEos = False,
    rank: Rank = None,
    world_size: WorldSize = None,
    tokenizer: _options.MadeBy = None,
    split: _options.Split = "train",
    json: _options.Json = False,
) -> None:
    """Show what a model would see: decoded rows, their documents, and where there is no loss.

    A line is a run of positions of one document. These are the rows that
    Loader gives with the same arguments.

    Example:  tokenriver batches corpus --seq-len 1024 --batch-size 8 --steps 3
    """
    in_buckets = bucket_options(batch_size, buckets, max_tokens)
    this_rank, ranks = _environment.rank_and_world_size(rank, world_size)
    corpus = _environment.open_corpus(path, split, tokenizer)
    loader = tokenriver.Loader(
        corpus,
        seq_len=seq_len,
        global_batch=batch_size,
        packing=packing,
        overflow=overflow,
        packing_options=in_buckets,
        mask_first=mask_first,
        mask_eos=mask_eos,
        order=order,
        seed=seed,
        rank=this_rank,
        world_size=ranks,
        epochs=None,
        prefetch=0,
    )
    shown: list[dict[str, Any]] = []
    for step in range(start, start + steps):
        batch = loader.batch(step)
        if json:
            rows = list(_rows.rows(batch, corpus))
            shown.append({"step": step, "num_targets": batch.num_targets, "state": dict(batch.state), "rows": rows})
            continue
        _output.heading(f"step {step:,}: rank {this_rank} of {ranks}, {batch.num_targets:,} targets")
        for row in _rows.rows(batch, corpus):
            _rows.show(row, characters)
    if json:
        sizes = {"num_rows": loader.num_rows, "buckets": [asdict(bucket) for bucket in loader.buckets]}
        _output.emit_json({"path": str(Path(path)), "split": split, **sizes, "steps": shown})
        return
    for bucket in loader.buckets:
        filled = f"{bucket.rows:,} rows in {bucket.steps:,} steps an epoch, {bucket.padding:,} positions padded"
        print(f"  bucket of {bucket.step_rows:,} x {bucket.width:,}: {filled}, {bucket.filler:,} rows of filler")


def bucket_options(batch_size: int | None, buckets: str | None, max_tokens: int | None) -> dict[str, Any]:
    """Options of the packing for what was given of buckets; a usage error where no size of a step is known."""
    if batch_size is None and max_tokens is None:
        raise typer.BadParameter("give --batch-size, or with --packing document --max-tokens-per-batch")
    given = {"buckets": _widths(buckets), "max_tokens_per_batch": max_tokens}
    return {name: value for name, value in given.items() if value is not None}


def _widths(given: str | None) -> int | list[int] | None:
    """A number of buckets, or their widths."""
    if given is None:
        return None
    words = given.split(",")
    return count(words[0]) if len(words) == 1 else [count(word) for word in words]
