"""`tokenriver tokenizer check`."""

from typing import Annotated

import typer

from tokenriver.commands import _environment, _output
from tokenriver.commands import _options as option
from tokenriver.comparing import EncoderReport, compare_encoders
from tokenriver.defaults import TOKENIZER

Files = Annotated[
    list[str] | None, typer.Argument(metavar="[INPUT...]", help="Files, folders or globs.", show_default=False)
]


def run(
    inputs: Files = None,
    tokenizer: option.Tokenizer = TOKENIZER,
    json: option.Json = False,
    source: option.Source = "auto",
    text_field: option.TextField = "text",
) -> None:
    """Compare a tokenizer's fast encoder with its reference, on built-in texts and on your own.

    The built-in texts tell split patterns and Unicode tables apart. Every
    document of the inputs is encoded by both, at the reference's speed.
    Exit code 1 if ids differ.

    Example:  tokenriver tokenizer check text.jsonl --tokenizer gpt2
    """
    name = tokenizer or TOKENIZER
    with _output.progress(f"comparing encoders of {name}") as report:
        found = compare_encoders(
            name,
            inputs or (),
            source=source,
            text_field=text_field,
            search=_environment.tokenizer_folders(),
            progress=report,
        )
    if json:
        _output.emit_json(found.as_dict())
    else:
        _show(found)
    if found.differences:
        raise typer.Exit(1)


def _show(found: EncoderReport) -> None:
    _output.heading(f"{found.tokenizer}: {_verdict(found)}")
    rows: list[tuple[str, object]] = [("built-in texts compared", found.hostile_texts)]
    rows += [("documents compared", found.documents), ("their text", _output.size(found.bytes))]
    if found.bad_rows:
        rows.append(("bad rows", found.bad_rows))
    _output.pairs([*rows, ("differences", found.differences)])
    if found.first is not None:
        print(f"  first: {_output.visible(found.first)}")


def _verdict(found: EncoderReport) -> str:
    if found.encoder != "fast":
        return "has no fast encoder here, so there is nothing to compare"
    return "the encoders differ" if found.differences else "the fast encoder gives the reference's ids"
