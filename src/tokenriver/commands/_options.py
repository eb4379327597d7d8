"""Options that commands share, or that would drown the command they belong to; each described once."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tokenriver.commands._output import count

INPUT, OUTPUT, CHECKS = "Input", "Output", "Checks"

CorpusPath = Annotated[Path, typer.Argument(metavar="PATH", help="A corpus folder, or a shard of any known format.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Split = Annotated[str, typer.Option("--split", metavar="NAME", help="Which split of the corpus.")]
SeqLen = Annotated[int, typer.Option("--seq-len", parser=count, metavar="T", help="Positions of a row.")]
GlobalBatch = Annotated[
    int, typer.Option("--batch-size", parser=count, metavar="B", help="Rows of all ranks in one step.")
]
Seed = Annotated[int, typer.Option("--seed", help="The one integer that fixes the order.")]

# build: the six that most people need
Out = Annotated[Path, typer.Option("--out", "-o", metavar="CORPUS", help="Folder to write.", show_default=False)]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="NAME|PATH",
        help="gpt2 (if none), byte, char, a cached tiktoken encoding, or a tokenizer.json, .tiktoken, .model, .bin or "
        ".pkl file.",
    ),
]
MadeBy = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="PATH",
        help="The file of the tokenizer that made the ids, where it is not found by itself.",
    ),
]
Like = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="SYSTEM",
        help="Frame, store and lay out as llmc, nanogpt, pile-hdf5, minimind or hdf5-shards do.",
    ),
]
ValFraction = Annotated[
    float,
    typer.Option(
        "--val-fraction", metavar="F", help="Share of documents for validation, chosen by a hash of the text."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="Worker processes (default: one a core, none for small input)."),
]

TemplateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--template-option",
        metavar="NAME=VALUE",
        help="What a template of a file reads, as JSON or text: enable_thinking=false (repeatable).",
    ),
]

# build: input
Source = Annotated[
    Literal["auto", "jsonl", "text", "parquet", "arrow"],
    typer.Option("--source", help="Kind of the inputs; auto tells it by content and name.", rich_help_panel=INPUT),
]
TextField = Annotated[
    str, typer.Option("--text-field", metavar="NAME", help="Field or column with the text.", rich_help_panel=INPUT)
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="STR|blank-line",
        help="Where a document of plain text ends; without it a file is a document.",
        rich_help_panel=INPUT,
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", metavar="GLOB", help="Only these files of a folder (repeatable).", rich_help_panel=INPUT),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="NAME[:KEY=VALUE,...]",
        help="Which documents stay: length:min_chars=20, exact-dedup, a dotted name of your own (repeatable).",
        rich_help_panel=INPUT,
    ),
]
MaxDocumentTokens = Annotated[
    int | None,
    typer.Option(
        "--max-document-tokens",
        parser=count,
        metavar="N",
        help="Drop documents of more ids, framing included.",
        rich_help_panel=INPUT,
    ),
]
UnitBytes = Annotated[
    int,
    typer.Option("--unit-bytes", parser=count, metavar="N", help="Text per unit of work.", rich_help_panel=INPUT),
]
OnBad = Annotated[
    Literal["skip", "fail"],
    typer.Option("--on-bad", help="Bad rows: count and list them, or stop at the first.", rich_help_panel=INPUT),
]
MaxBad = Annotated[
    float,
    typer.Option("--max-bad", metavar="RATIO", help="Fail above this share of bad rows.", rich_help_panel=INPUT),
]

# build: output
Framing = Annotated[
    Literal["eos-after", "eos-before", "bos-eos", "none"] | None,
    typer.Option("--framing", help="Control ids around a document (default eos-after).", rich_help_panel=OUTPUT),
]
Bos = Annotated[
    str | None,
    typer.Option("--bos", metavar="TOKEN", help="Which control token begins a document.", rich_help_panel=OUTPUT),
]
Eos = Annotated[
    str | None,
    typer.Option(
        "--eos",
        metavar="TOKEN",
        help="Which control token ends one (tokenizer show --special lists them).",
        rich_help_panel=OUTPUT,
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="Format of the shards.", rich_help_panel=OUTPUT)
]
ValTokens = Annotated[
    int | None,
    typer.Option(
        "--val-tokens", parser=count, metavar="N", help="Leading documents for validation.", rich_help_panel=OUTPUT
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens", parser=count, metavar="N", help="Stop after the documents that fit.", rich_help_panel=OUTPUT
    ),
]
ShardTokens = Annotated[
    int | None,
    typer.Option(
        "--shard-tokens",
        parser=count,
        metavar="N",
        help="Ids per shard (default: as is usual in the format).",
        rich_help_panel=OUTPUT,
    ),
]
Layout = Annotated[
    str | None, typer.Option("--layout", metavar="NAME", help="A variant of the format.", rich_help_panel=OUTPUT)
]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="First word of the shards' names.", rich_help_panel=OUTPUT)
]
Append = Annotated[
    bool, typer.Option("--append", help="Add to a finished corpus; its shards stay.", rich_help_panel=OUTPUT)
]

# build: checks
Encoder = Annotated[
    Literal["fast", "reference"],
    typer.Option(
        "--encoder", help="The native encoder, or the library that it is compared with.", rich_help_panel=CHECKS
    ),
]
EncoderCheck = Annotated[
    Literal["on", "off"],
    typer.Option("--encoder-check", help="Compare both on hostile texts and on a sample.", rich_help_panel=CHECKS),
]
