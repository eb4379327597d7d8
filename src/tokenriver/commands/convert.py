"""Write a corpus in another format: the same ids and documents, or a refusal that says why."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import tokenriver
from tokenriver.commands import _environment, _output
from tokenriver.commands import _options as option

Sources = Annotated[
    list[Path], typer.Argument(metavar="SRC...", help="Corpora, joined in this order.", show_default=False)
]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="Format to write.", show_default=False)]
Layout = Annotated[str, typer.Option("--layout", metavar="NAME", help="A variant of the format.")]
Dtype = Annotated[
    str | None, typer.Option("--dtype", metavar="DTYPE", help="How ids are stored (default: as they are, if it can).")
]
ShardTokens = Annotated[
    int | None,
    typer.Option("--shard-tokens", parser=_output.count, metavar="N", help="Cut shards at exactly so many ids."),
]
SampleTokens = Annotated[
    int | None,
    typer.Option("--sample-tokens", parser=_output.count, metavar="N", help="Ids a sample (else it is a document)."),
]
SourceFormat = Annotated[
    str | None,
    typer.Option("--source-format", metavar="FORMAT", help="Insist on one.", rich_help_panel=option.INPUT),
]
SourceDtype = Annotated[
    str | None,
    typer.Option("--source-dtype", metavar="DTYPE", help="For files that do not say.", rich_help_panel=option.INPUT),
]
Tokenizer = Annotated[
    str | None,
    typer.Option("--tokenizer", metavar="NAME|PATH", help="What made the ids.", rich_help_panel=option.INPUT),
]
EosId = Annotated[
    int | None,
    typer.Option("--eos-id", metavar="ID", help="The id that parts documents.", rich_help_panel=option.INPUT),
]
Framing = Annotated[
    Literal["eos-after", "eos-before"],
    typer.Option("--framing", help="With --eos-id: where it stands.", rich_help_panel=option.INPUT),
]
NeedDocuments = Annotated[
    bool,
    typer.Option("--need-documents", help="Refuse files without document bounds.", rich_help_panel=option.INPUT),
]


def run(
    sources: Sources,
    out: option.Out,
    format: Format,
    shard_tokens: ShardTokens = None,
    sample_tokens: SampleTokens = None,
    dtype: Dtype = None,
    layout: Layout = "",
    name: option.Name = "tokens",
    json: option.Json = False,
    source_format: SourceFormat = None,
    source_dtype: SourceDtype = None,
    tokenizer: Tokenizer = None,
    eos_id: EosId = None,
    framing: Framing = "eos-after",
    need_documents: NeedDocuments = False,
) -> None:
    """Write a corpus in another format: the same ids and documents, or a refusal that says why.

    What the target cannot hold is refused before anything is written. Shards
    end at documents unless --shard-tokens says otherwise; a document that is
    cut by it goes on in the document index beside the shard. Trainers that
    take samples one by one (MDS, Arrow, Parquet) want them as long as a row:
    --sample-tokens, with --layout fixed for MDS.

    Example:  tokenriver convert corpus -o megatron --format megatron
    """
    begin = time.perf_counter()
    with _output.progress(f"converting to {out}", unit="ids") as report:
        result = tokenriver.convert(
            sources,
            out,
            format=format,
            layout=layout,
            dtype=dtype,
            shard_tokens=shard_tokens,
            sample_tokens=sample_tokens,
            name=name,
            source_format=source_format,
            source_dtype=source_dtype,
            tokenizer=tokenizer,
            eos_id=eos_id,
            framing=framing,
            need_documents=need_documents,
            search=_environment.tokenizer_folders(),
            progress=report,
        )
    if json:
        _output.emit_json(result.as_dict())
    else:
        _show(out, result, time.perf_counter() - begin)


def _show(out: Path, result: tokenriver.ConvertReport, seconds: float) -> None:
    _output.heading(f"{out}: {result.format}, ids stored as {result.dtype}")
    if result.complete_before:
        print(f"{out} was complete already, from the same corpora and options")
    ids = result.balance["ids"]
    rows: list[tuple[object, ...]] = [("ids read", "", ids["read"], "")]
    rows += [(f"  {name}", split["documents"], split["ids"], split["shards"]) for name, split in result.splits.items()]
    rows.append(("ids lost", "", ids["read"] - sum(ids["kept"].values()), ""))
    _output.columns(["", "documents", "ids", "shards"], rows)
    cut = result.balance["documents"]["cut_by_shards"]
    if cut:
        print(f"  {cut:,} documents are cut by the end of a shard and go on in the next")
    for note in result.notes:
        print(f"  note: {note}")
    print(f"  {seconds:.1f} s")
