"""`tokenriver tokenizer train`."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import tokenriver
from tokenriver.commands import _options as option
from tokenriver.commands import _output
from tokenriver.training import SPECIAL

Inputs = Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders or globs.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="tokenizer.json to write.", show_default=False)]
VocabSize = Annotated[
    int, typer.Option("--vocab-size", parser=_output.count, metavar="N", help="Ids, all counted.", show_default=False)
]
Special = Annotated[
    list[str] | None,
    typer.Option("--special", metavar="TOKEN", help="A control token (repeatable; default <|endoftext|>)."),
]
Trainer = Annotated[
    Literal["fast", "reference"],
    typer.Option("--trainer", help="gigatoken's, or Hugging Face's; both make the same file."),
]


def run(
    inputs: Inputs,
    out: Out,
    vocab_size: VocabSize,
    special: Special = None,
    trainer: Trainer = "fast",
    json: option.Json = False,
    source: option.Source = "auto",
    text_field: option.TextField = "text",
    separator: option.Separator = None,
    include: option.Include = None,
) -> None:
    """Train a byte-level BPE on your own text and write it as tokenizer.json.

    Text is split as GPT-2 splits it; every byte has an id, so any text can be
    encoded. The same text gives the same file on any number of threads.

    Example:  tokenriver tokenizer train text.jsonl -o tokenizer.json --vocab-size 32768
    """
    begin = time.perf_counter()
    with _output.progress("reading text") as report:
        found = tokenriver.train_tokenizer(
            inputs,
            out,
            vocab_size=vocab_size,
            special=special or SPECIAL,
            source=source,
            text_field=text_field,
            separator=separator,
            include=include or (),
            trainer=trainer,
            progress=report,
        )
    if json:
        _output.emit_json(found.as_dict())
        return
    _output.heading(f"{out}: byte-level BPE of {found.vocab_size:,} ids")
    rows: list[tuple[str, object]] = [("documents", found.documents), ("text", _output.size(found.bytes))]
    if found.bad_rows:
        rows.append(("bad rows", found.bad_rows))
    rows += [(f"id of {_output.visible(token)}", number) for token, number in found.special.items()]
    rows.append(("trainer", f"{found.trainer}: {found.reason}" if found.reason else found.trainer))
    if found.split_by_reference:
        rows.append(("split by the reference", f"{found.split_by_reference:,} documents"))
    _output.pairs([*rows, ("fingerprint", found.fingerprint)])
    print(f"  {time.perf_counter() - begin:.1f} s")
