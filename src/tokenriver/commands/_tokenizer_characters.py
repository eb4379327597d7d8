"""`tokenriver tokenizer characters`."""

from pathlib import Path
from typing import Annotated

import typer

import tokenriver
from tokenriver.commands import _options as option
from tokenriver.commands import _output

SHOWN = 200

Inputs = Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders or globs.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="meta.pkl to write.", show_default=False)]


def run(
    inputs: Inputs,
    out: Out,
    json: option.Json = False,
    source: option.Source = "auto",
    text_field: option.TextField = "text",
    separator: option.Separator = None,
    include: option.Include = None,
) -> None:
    """Write the characters of a text as nanoGPT's meta.pkl, which build takes as --tokenizer.

    Build with --tokenizer char does the same for its own inputs; a file of its
    own serves several builds, such as halves for training and validation.

    Example:  tokenriver tokenizer characters train.txt val.txt -o meta.pkl
    """
    with _output.progress("reading characters") as report:
        found = tokenriver.write_characters(
            inputs,
            out,
            source=source,
            text_field=text_field,
            separator=separator,
            include=include or (),
            progress=report,
        )
    if json:
        _output.emit_json(found.as_dict())
        return
    _output.heading(str(out))
    rows: list[tuple[str, object]] = [("characters", len(found.characters)), ("documents", found.documents)]
    if found.bad_rows:
        rows.append(("bad rows", found.bad_rows))
    more = len(found.characters) - SHOWN
    shown = _output.visible(found.characters[:SHOWN])
    _output.pairs([*rows, ("they are", f"{shown} and {more:,} more" if more > 0 else shown)])
