"""Say how long a run will be: steps, epochs, hours and disk, from a measured rate; raw text is sampled."""

import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

import tokenriver
from tokenriver.commands import _environment, _output
from tokenriver.commands import _options as option
from tokenriver.errors import FormatError, InputError
from tokenriver.estimate import Interval

_SOURCE = re.compile(r"([^=:/]+)=(.+):([0-9.eE+-]+)")

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="A corpus; several NAME=PATH:WEIGHT, a mixture; with --tokenizer raw text.",
        show_default=False,
    ),
]
Rate = Annotated[
    float,
    typer.Option("--tokens-per-second", metavar="R", help="Positions a second of all ranks.", show_default=False),
]
RateSteps = Annotated[int | None, typer.Option("--rate-steps", metavar="N", help="Steps that R was measured over.")]
WorldSize = Annotated[int, typer.Option("--world-size", metavar="W", help="Number of ranks.")]
GradAccum = Annotated[int, typer.Option("--grad-accum", metavar="A", help="Micro-batches of a rank in one step.")]
Packing = Annotated[str, typer.Option("--packing", metavar="NAME", help="concat, sliding, document or best_fit.")]
Overflow = Annotated[
    str, typer.Option("--overflow", metavar="RULE", help="Documents longer than a row: split, truncate or drop.")
]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="E", help="Length of the run (default: one epoch).")]
Steps = Annotated[int | None, typer.Option("--steps", parser=_output.count, metavar="N", help="Or so many steps.")]
Budget = Annotated[
    int | None, typer.Option("--token-budget", parser=_output.count, metavar="N", help="Or so many positions.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option("--tokenizer", metavar="NAME|PATH", help="PATH is raw text: sample it."),
]
Framing = Annotated[
    str | None, typer.Option("--framing", metavar="RULE", help="As in build.", rich_help_panel=option.INPUT)
]


def run(
    paths: Paths,
    seq_len: option.SeqLen,
    batch_size: option.GlobalBatch,
    tokens_per_second: Rate,
    world_size: WorldSize = 1,
    grad_accum: GradAccum = 1,
    packing: Packing = "concat",
    overflow: Overflow = "split",
    epochs: Epochs = None,
    steps: Steps = None,
    token_budget: Budget = None,
    rate_steps: RateSteps = None,
    split: option.Split = "train",
    tokenizer: Tokenizer = None,
    json: option.Json = False,
    source: option.Source = "auto",
    text_field: option.TextField = "text",
    separator: option.Separator = None,
    include: option.Include = None,
    framing: Framing = None,
) -> None:
    """Say how long a run will be: steps, epochs, hours and disk, from a measured rate; raw text is sampled.

    Rows, steps and epochs are those of Loader. With --tokenizer, PATH is text
    as for build: a sample gives ids, disk and time, each with the bounds that
    hold 95 times of 100.

    Example:  tokenriver plan corpus --seq-len 1024 --batch-size 512 --tokens-per-second 180000
    """
    text = None
    if tokenizer is not None:
        text = tokenriver.estimate(
            paths,
            tokenizer=tokenizer,
            framing=framing or "eos-after",
            source=source,
            text_field=text_field,
            separator=separator,
            include=include or (),
            search=_environment.tokenizer_folders(),
            clock=time.perf_counter,
        )
    found = tokenriver.plan(
        text if text is not None else _open(paths, split),
        seq_len=seq_len,
        global_batch=batch_size,
        tokens_per_second=tokens_per_second,
        world_size=world_size,
        grad_accum=grad_accum,
        packing=packing,
        overflow=overflow,
        epochs=epochs,
        steps=steps,
        token_budget=token_budget,
        rate_steps=rate_steps,
    )
    for warning in found.warnings:
        warnings.warn(warning, stacklevel=2)
    if json:
        _output.emit_json({"paths": paths, **found.as_dict(), "text": text.as_dict() if text is not None else None})
        return
    _output.heading(" ".join(paths))
    if text is not None:
        _show_text(text)
    _show(found)


def _open(paths: list[str], split: str) -> "tokenriver.Corpus | tokenriver.Mixture":
    """One corpus by its path, or a mixture of NAME=PATH:WEIGHT."""
    parts = [None if Path(word).exists() else _SOURCE.fullmatch(word) for word in paths]
    if len(paths) == 1 and parts[0] is None:
        return _one(Path(paths[0]), split)
    sources: dict[str, tuple[tokenriver.Corpus, float]] = {}
    for word, part in zip(paths, parts, strict=True):
        if part is None or part[1] in sources:
            raise InputError(f"PATH: got {word!r} of {len(paths)}, expected NAME=PATH:WEIGHT, each name once")
        sources[part[1]] = _environment.open_corpus(Path(part[2]), split), _weight(word, part[3])
    return tokenriver.Mixture(sources)


def _one(path: Path, split: str) -> "tokenriver.Corpus":
    try:
        return _environment.open_corpus(path, split)
    except (FormatError, InputError) as error:
        if path.is_file():
            raise InputError(f"{error}; if it is raw text, give its --tokenizer") from error
        raise


def _weight(word: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"PATH: {word}: weight: got {text!r}, expected a number; give NAME=PATH:WEIGHT") from None


def _show(found: "tokenriver.Plan") -> None:
    bounds = found.interval
    rows = [
        ("tokens a step", found.tokens_per_step, None),
        ("rows of a micro-batch", found.micro_batch, None),
        ("rows an epoch", found.rows_per_epoch, bounds.get("rows_per_epoch")),
        ("steps an epoch", found.steps_per_epoch, bounds.get("steps_per_epoch")),
        ("padding", f"{found.padding_share:.2%}", None),
        ("steps", found.steps, bounds.get("steps")),
        ("tokens", found.tokens, None),
        ("epochs", _number(found.epochs), bounds.get("epochs")),
        ("hours", _number(found.hours), bounds.get("hours")),
    ]
    lines: list[tuple[str, object]] = [(name, f"{_output.cell(value)}{_between(pair)}") for name, value, pair in rows]
    if found.trained_share is not None:
        lines.insert(5, ("trained", f"{found.trained_share:.1%} of the ids"))
    if found.read_bytes_per_second is not None:
        lines.append(("disk read", f"{_output.size(found.read_bytes_per_second)}/s"))
    _output.pairs(lines)
    if found.sources[0].name:
        print()
        table = [
            [s.name, s.num_tokens, s.rows_per_epoch, s.rows, f"{s.share:.2%}", _number(s.epochs)] for s in found.sources
        ]
        _output.columns(["source", "ids", "rows an epoch", "rows of the run", "share", "epochs"], table)


def _between(pair: tuple[float, float] | None) -> str:
    return "" if pair is None or pair[0] == pair[1] else f"  ({_number(pair[0])} to {_number(pair[1])})"


def _number(value: float) -> str:
    """Three digits at least, all that stand before the point."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


def _show_text(text: "tokenriver.TextEstimate") -> None:
    def line(name: str, shown: Callable[[float], str], value: Interval) -> tuple[str, object]:
        exact = value.low == value.high
        bounds = "" if exact else f"  ({shown(value.low)} to {shown(value.high)})"
        return name, f"{shown(value.mid)}{bounds}"

    size = _output.size
    read = f"{size(text.sampled_bytes)} of {size(text.input_bytes)} in {text.files:,} files"
    rows: list[tuple[str, object]] = [("sample", f"{read}, {text.stretches} stretches")]
    rows += [line("ids", _number, text.ids), line("documents", _number, text.documents)]
    rows += [line("bytes a token", lambda n: f"{n:.3g}", text.bytes_per_token), line("text", size, text.text_bytes)]
    rows.append(line("disk", size, text.disk_bytes))
    if text.build_seconds is not None:
        rows.append(line("build, one process", lambda n: f"{_number(n)} s", text.build_seconds))
    _output.pairs(rows)
    for note in text.notes:
        print(f"  note: {note}")
    print()
