"""Name the documents behind a row of a run: source file, record and text."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenriver.against import record_texts
from tokenriver.commands import _environment, _options, _output, _rows, _runs
from tokenriver.commands.batches import (
    BatchSize,
    Buckets,
    Characters,
    MaxTokens,
    Order,
    Overflow,
    Packing,
    WorldSize,
    bucket_options,
)
from tokenriver.errors import InputError
from tokenriver.trace import Origin

RowNumber = Annotated[
    int | None,
    typer.Option("--row-number", metavar="G", help="The row's place in the run, as Batch.row_numbers.", min=0),
]
Step = Annotated[int | None, typer.Option("--step", metavar="S", help="All rows of a step instead.", min=0)]
Rank = Annotated[int | None, typer.Option("--rank", metavar="R", help="Of a step, only this rank's.", min=0)]
SourceRoot = Annotated[
    Path | None,
    typer.Option("--source-root", metavar="DIR", help="Where the inputs lie now: show the records' texts too."),
]
Index = Annotated[int | None, typer.Option("--index", metavar="I", help="Of those, only this one, from 0.", min=0)]


def run(
    path: _options.CorpusPath,
    seq_len: _options.SeqLen,
    batch_size: BatchSize = None,
    row_number: RowNumber = None,
    step: Step = None,
    rank: Rank = None,
    index: Index = None,
    world_size: WorldSize = None,
    log: _runs.Log = None,
    seed: _options.Seed = 0,
    order: Order = "shuffled",
    packing: Packing = "concat",
    overflow: Overflow = "split",
    buckets: Buckets = None,
    max_tokens: MaxTokens = None,
    phase_shift: _runs.PhaseShift = False,
    stride: _runs.Stride = None,
    characters: Characters = 240,
    source_root: SourceRoot = None,
    tokenizer: _options.MadeBy = None,
    split: _options.Split = "train",
    json: _options.Json = False,
) -> None:
    """Name the documents behind a row of a run: source file, record and text.

    The options are those that the run's Loader had.

    Example:  tokenriver trace corpus --seq-len 1024 --batch-size 512 --seed 1 --row-number 81920
    """
    if (row_number is None) == (step is None):
        raise typer.BadParameter("give either --row-number or --step")
    if step is None and (rank is not None or index is not None):
        raise typer.BadParameter("--rank and --index are of a --step")
    options: dict[str, Any] = {"seq_len": seq_len, "global_batch": batch_size, "seed": seed, "order": order}
    options |= {"packing": packing, "overflow": overflow, "phase_shift": phase_shift, "stride": stride}
    options |= {"packing_options": bucket_options(batch_size, buckets, max_tokens), "epochs": None}
    made = _runs.open_run(_environment.open_corpus(path, split, tokenizer), world_size, log, options)
    shown = []
    for number in [row_number] if row_number is not None else _numbers(made, step or 0, rank, index):
        shown.append({**made.place(number), "documents": _documents(made, number, source_root)})
        if not json:
            _show(shown.pop(), characters)
    if json:
        _output.emit_json({"path": str(Path(path)), "split": split, "rows": shown})


def _numbers(made: _runs.Run, step: int, rank: int | None, index: int | None) -> list[int]:
    numbers = made.places.rows(step, rank)
    if index is None:
        return list(numbers)
    if index >= len(numbers):
        raise InputError(f"--index: got {index}, expected 0 to {len(numbers) - 1}, the rows of step {step}")
    return [numbers[index]]


def _documents(made: _runs.Run, number: int, root: Path | None) -> list[dict[str, Any]]:
    """The documents of a row as plain values, with the text that it shows and, given their folder, the records'."""
    origins, manifest = made.loader.trace(number), made.corpus.manifest
    wanted = {(o.path, o.record) for o in origins if o.path is not None and o.record is not None}
    texts = record_texts(manifest, wanted, root) if manifest is not None and root is not None else {}
    return [_document(made, origin, texts) for origin in origins]


def _document(made: _runs.Run, origin: Origin, texts: Mapping[tuple[str, int], bytes]) -> dict[str, Any]:
    ids = made.corpus.document(origin.number)[origin.start : origin.stop]
    cuts = {"cut_start": origin.cut_start, "cut_end": origin.cut_end}
    source = texts.get((origin.path or "", -1 if origin.record is None else origin.record))
    source_text = None if source is None else source.decode("utf-8", "replace")
    return {**asdict(origin), **cuts, "text": made.corpus.decode(ids), "source_text": source_text}


def _show(row: dict[str, Any], characters: int) -> None:
    where = f"step {row['step']:,}, rank {row['rank']:,}, index {row['index']:,}"
    _output.heading(f"row {row['row_number']:,} of the run: epoch {row['epoch']:,}, {where}")
    for document in row["documents"]:
        print(f"  document {document['document']:,}: {_runs.origin(document['path'], document['record'])}")
        cut = {
            (True, True): ", cut at both ends",
            (True, False): ", cut at its start",
            (False, True): ", cut at its end",
        }
        ids = f"ids {document['start']:,} to {document['stop']:,} of {document['length']:,}"
        places = f"positions {document['row_start']:,} to {document['row_stop']:,}"
        print(f"    {ids}, {places}{cut.get((document['cut_start'], document['cut_end']), ', whole')}")
        print(f"    |{_rows.shorten(document['text'], characters)}|")
        if document["source_text"] is not None:
            print(f"    the whole record: |{_rows.shorten(document['source_text'], characters)}|")
