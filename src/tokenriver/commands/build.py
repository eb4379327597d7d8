"""Turn text into a corpus of token ids: exact, parallel, and safe to stop at any moment."""

import importlib
import time
from typing import Annotated, Any

import typer

import tokenriver
from tokenriver.commands import _environment, _output, _report
from tokenriver.commands import _options as option
from tokenriver.defaults import UNIT_BYTES
from tokenriver.engines.nursery import Nursery

Inputs = Annotated[
    list[str], typer.Argument(metavar="INPUT...", help="Files, folders, globs or URLs.", show_default=False)
]


def run(
    context: typer.Context,
    inputs: Inputs,
    out: option.Out,
    tokenizer: option.Tokenizer = None,
    like: option.Like = None,
    val_fraction: option.ValFraction = 0.0,
    workers: option.Workers = None,
    json: option.Json = False,
    source: option.Source = "auto",
    text_field: option.TextField = "text",
    separator: option.Separator = None,
    include: option.Include = None,
    filter: option.Filter = None,
    max_document_tokens: option.MaxDocumentTokens = None,
    unit_bytes: option.UnitBytes = UNIT_BYTES,
    on_bad: option.OnBad = "skip",
    max_bad: option.MaxBad = 0.01,
    framing: option.Framing = None,
    bos: option.Bos = None,
    eos: option.Eos = None,
    format: option.Format = None,
    val_tokens: option.ValTokens = None,
    max_tokens: option.MaxTokens = None,
    layout: option.Layout = None,
    shard_tokens: option.ShardTokens = None,
    name: option.Name = "tokens",
    append: option.Append = False,
    encoder: option.Encoder = "fast",
    encoder_check: option.EncoderCheck = "on",
) -> None:
    """Turn text into a corpus of token ids: exact, parallel, and safe to stop at any moment.

    Inputs are JSON lines, plain text, Parquet, or an Arrow folder; text may be
    packed by gzip or zstd. After a crash, a full disk or Ctrl-C run the same
    command again: what is done stays done, and the corpus comes out the same.

    Example:  tokenriver build text.jsonl.zst -o corpus --val-fraction 0.01
    """
    begin = time.perf_counter()
    if any("://" in word for word in inputs):
        inputs = importlib.import_module("tokenriver.commands._fetch").local(inputs)  # only where something is remote
    search = _environment.tokenizer_folders()
    early: Nursery | None = context.obj  # begun before the words were understood, perhaps wrongly
    with _output.progress(f"building {out}") as report:
        result = tokenriver.build(
            inputs,
            out,
            tokenizer=tokenizer,
            like=like,
            format=format,
            layout=layout,
            framing=framing,
            bos=bos,
            eos=eos,
            val_fraction=val_fraction,
            val_tokens=val_tokens,
            max_tokens=max_tokens,
            max_document_tokens=max_document_tokens,
            filter=filter or (),
            shard_tokens=shard_tokens,
            unit_bytes=unit_bytes,
            workers=early if early is not None and workers in (None, early.count) else workers,
            source=source,
            text_field=text_field,
            separator=separator,
            include=include or (),
            on_bad=on_bad,
            max_bad=max_bad,
            name=name,
            append=append,
            encoder=encoder,
            encoder_check=encoder_check == "on",
            search=search,
            progress=report,
        )
    values: dict[str, Any] = result.as_dict()
    if json:
        _output.emit_json(values)
    else:
        _output.heading(str(out))
        _report.built(values, time.perf_counter() - begin)
