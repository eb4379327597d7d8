"""Turn conversations into a corpus with loss masks: what the assistant says is trained, the rest is context."""

import time
from typing import Annotated, Any, Literal

import typer

import tokenriver
from tokenriver.commands import _environment, _examples, _output, _report
from tokenriver.commands import _options as option
from tokenriver.defaults import TOKENIZER

Inputs = Annotated[
    list[str], typer.Argument(metavar="INPUT...", help="JSON lines, JSON arrays, Parquet.", show_default=False)
]
Template = Annotated[str, typer.Option("--template", metavar="NAME|PATH", help="What a conversation looks like.")]
Shape = Annotated[
    str,
    typer.Option(
        "--shape",
        metavar="NAME",
        help="auto, messages, conversations, alpaca, dolly, gsm8k, prompt-completion or prompt-response.",
    ),
]
Train = Annotated[Literal["all", "last"], typer.Option("--train", help="Which answers of a conversation are trained.")]
NoReasoning = Annotated[bool, typer.Option("--no-reasoning", help="Do not train what the assistant thought.")]
MaxLength = Annotated[
    int | None, typer.Option("--max-length", parser=_output.count, metavar="T", help="Ids of the longest example.")
]
Overflow = Annotated[
    Literal["drop", "truncate"], typer.Option("--overflow", help="Longer ones: dropped, or cut on the right.")
]
ValFraction = Annotated[
    float | None,
    typer.Option("--val-fraction", metavar="F", help="Share of conversations for validation, chosen by a hash."),
]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="0: one thread does all (default: more read and encode).")
]
Like = Annotated[
    str | None, typer.Option("--like", metavar="SYSTEM", help="sft-hdf5: packed rows of --seq-len ids in two files.")
]


def run(
    inputs: Inputs,
    out: option.Out,
    template: Template = "plain",
    template_option: option.TemplateOption = None,
    tokenizer: option.Tokenizer = None,
    shape: Shape = "auto",
    train: Train = "all",
    no_reasoning: NoReasoning = False,
    max_length: MaxLength = None,
    overflow: Overflow = "drop",
    seq_len: option.SeqLen = 2048,
    val_fraction: ValFraction = None,
    workers: Workers = None,
    like: Like = None,
    json: option.Json = False,
    include: option.Include = None,
    on_bad: option.OnBad = "skip",
    max_bad: option.MaxBad = 0.01,
    shard_tokens: option.ShardTokens = None,
    name: option.Name = "tokens",
) -> None:
    """Turn conversations into a corpus with loss masks: what the assistant says is trained, the rest is context.

    One example a conversation, whole: read it with packing best_fit and
    overflow drop. Bad rows are counted and listed; `tokenriver batches` shows
    what is trained.

    Example:  tokenriver sft chats.jsonl -o corpus --max-length 2048
    """
    begin = time.perf_counter()
    result = tokenriver.sft(
        inputs,
        out,
        template=template,
        template_options=_examples.template_options(template_option),
        tokenizer=tokenizer or TOKENIZER,
        shape=shape,
        train=train,
        reasoning=not no_reasoning,
        max_length=max_length,
        overflow=overflow,
        val_fraction=val_fraction,
        like=like,
        seq_len=seq_len,
        include=include or (),
        on_bad=on_bad,
        max_bad=max_bad,
        name=name,
        shard_tokens=shard_tokens,
        workers=workers,
        search=_environment.tokenizer_folders(),
    )
    if json:
        _output.emit_json(result.as_dict())
    else:
        _show(result.as_dict(), time.perf_counter() - begin)


def _show(values: dict[str, Any], seconds: float) -> None:
    _output.heading(values["path"])
    if values["complete_before"]:
        print(f"{values['path']} was complete already, from the same inputs and options")
    splits = values["splits"]
    _report.examples(values["balance"], splits)
    for split, counts in splits.items():
        if "rows" in counts:
            print(f"  {split}: {counts['rows']:,} rows; {counts['dropped_ids']:,} ids behind the last one are dropped")
    lengths = values["lengths"]
    print(f"  ids of an example: median {lengths['0.5']:,}, 99 % up to {lengths['0.99']:,}, longest {lengths['1']:,}")
    if "rows" not in splits["train"]:
        too_long = f"; {values['too_long']:,} examples fit no row" if values["too_long"] else ""
        print(f"  rows of {values['seq_len']:,} by best_fit: {values['padding']:.2%} padding{too_long}")
    if values["bad_rows"]:
        print(f"  bad rows are listed in {values['bad_rows']}")
    print(f"  {seconds:.1f} s")
