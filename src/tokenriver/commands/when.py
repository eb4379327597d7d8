"""List every row of a run that shows a document: step, rank and place."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tokenriver import lookup
from tokenriver.commands import _environment, _options, _output, _runs
from tokenriver.commands.batches import (
    BatchSize,
    Buckets,
    MaxTokens,
    Order,
    Overflow,
    Packing,
    WorldSize,
    bucket_options,
)
from tokenriver.errors import InputError

Document = Annotated[int | None, typer.Option("--document", metavar="N", help="The document's number.", min=0)]
Record = Annotated[
    str | None,
    typer.Option("--record", metavar="SOURCE:N", help="Or the input and raw row (from 0) that it came from."),
]
Text = Annotated[
    str | None, typer.Option("--text", metavar="STR", help="Or every document that contains this; decodes the corpus.")
]
Epochs = Annotated[int, typer.Option("--epochs", metavar="N", help="Length of the run.", min=1)]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Rows of a document to print; 0 prints all.", min=0)]


def run(
    path: _options.CorpusPath,
    seq_len: _options.SeqLen,
    batch_size: BatchSize = None,
    document: Document = None,
    record: Record = None,
    text: Text = None,
    epochs: Epochs = 1,
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
    limit: Limit = 20,
    tokenizer: _options.MadeBy = None,
    split: _options.Split = "train",
    json: _options.Json = False,
) -> None:
    """List every row of a run that shows a document: step, rank and place.

    The options are those that the run's Loader had. Exit code 1 if there is no such document.

    Example:  tokenriver when corpus --seq-len 1024 --batch-size 512 --seed 1 --text "canary 5b1e"
    """
    if sum(given is not None for given in (document, record, text)) != 1:
        raise typer.BadParameter("give one of --document, --record and --text")
    options: dict[str, Any] = {"seq_len": seq_len, "global_batch": batch_size, "seed": seed, "order": order}
    options |= {"packing": packing, "overflow": overflow, "phase_shift": phase_shift, "stride": stride}
    options |= {"packing_options": bucket_options(batch_size, buckets, max_tokens), "epochs": epochs}
    made = _runs.open_run(_environment.open_corpus(path, split, tokenizer), world_size, log, options)
    shown = []
    for number in _documents(made, document, record, text):
        shown.append(_rows_of(made, number))
        if not json:
            _show(shown[-1], limit)
    if json:
        _output.emit_json({"path": str(Path(path)), "split": split, "documents": shown})
    if not shown:
        raise InputError(f"{path}: got no such document in split {split!r}; look in the others")


def _documents(made: _runs.Run, document: int | None, record: str | None, text: str | None) -> list[int]:
    if document is not None:
        return [document]
    if text is not None:
        return list(lookup.with_text(made.corpus, text))
    source, _, number = (record or "").rpartition(":")
    if not source or not number.isdecimal():
        raise typer.BadParameter(f"--record: got {record!r}, expected SOURCE:N, as in data/a.jsonl:17")
    return lookup.of_record(made.corpus, source, int(number))


def _rows_of(made: _runs.Run, document: int) -> dict[str, Any]:
    rows = [made.place(number) for number in made.loader.when(document).tolist()]
    path, record = made.corpus.origin(document) or (None, None)
    return {"document": document, "path": path, "record": record, "rows": rows}


def _show(found: dict[str, Any], limit: int) -> None:
    rows, origin = found["rows"], _runs.origin(found["path"], found["record"])
    _output.heading(f"document {found['document']:,}: {origin}: in {len(rows):,} rows")
    head = ("row_number", "epoch", "step", "rank", "index")
    if rows:
        _output.columns(head, [[row[name] for name in head] for row in rows[: limit or None]])
    if limit and len(rows) > limit:
        print(f"  and {len(rows) - limit:,} more; --limit 0 prints all")
