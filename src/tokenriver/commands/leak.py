"""Find documents of one corpus in another, or of the validation split in the training split."""

from pathlib import Path
from typing import Annotated, Any

import typer

import tokenriver
from tokenriver.commands import _environment, _options, _output
from tokenriver.corpus import Corpus
from tokenriver.errors import FormatError

SHOWN = 24
"""Ids of an example that are shown as text."""

Searched = Annotated[Path, typer.Argument(metavar="PATH", help="Whose documents are looked for.", show_default=False)]
Other = Annotated[
    Path | None,
    typer.Argument(metavar="[OTHER]", help="Where they are looked for (default: PATH).", show_default=False),
]
Split = Annotated[
    str | None, typer.Option("--split", metavar="NAME", help="Of PATH (default: train; val if there is no OTHER).")
]
OtherSplit = Annotated[str, typer.Option("--other-split", metavar="NAME", help="Of OTHER.")]
Examples = Annotated[int, typer.Option("--examples", metavar="N", help="Findings to show.", min=0)]


def run(
    path: Searched,
    other: Other = None,
    split: Split = None,
    other_split: OtherSplit = "train",
    examples: Examples = 10,
    json: _options.Json = False,
) -> None:
    """Find documents of one corpus in another, or of the validation split in the training split.

    Documents are the same if their ids are, control ids at their ends apart.
    Exit code 1 if any is found.

    Example:  tokenriver leak evals corpus
    """
    split = split or ("val" if other is None else "train")
    other = path if other is None else other
    if split == other_split and path.absolute() == other.absolute():
        raise typer.BadParameter(f"got split {split!r} twice, expected another", param_hint="--other-split")
    mine, theirs = _environment.open_corpus(path, split), _environment.open_corpus(other, other_split)
    with _output.progress(f"comparing {path} with {other}", unit="ids") as report:
        found = tokenriver.leaks(mine, theirs, progress=report)
    pairs = zip(found.documents[:examples].tolist(), found.others[:examples].tolist(), strict=True)
    shown = [{**_example(mine, number), "other": _example(theirs, twin)} for number, twin in pairs]
    facts: dict[str, Any] = {
        "path": str(path),
        "split": split,
        "other": str(other),
        "other_split": other_split,
        "documents": found.num_documents,
        "found": len(found),
        "share": found.share,
        "distinct": found.distinct,
        "ids": found.num_tokens,
        "ids_found": found.leaked_tokens,
        "other_documents": found.num_others,
        "empty": found.empty,
    }
    if json:
        _output.emit_json({**facts, "examples": shown})
    else:
        _show(facts, shown)
    if len(found):
        raise typer.Exit(1)


def _example(corpus: Corpus, number: int) -> dict[str, Any]:
    """What is known of a document."""
    start, stop = corpus.doc_bounds(number)
    facts: dict[str, Any] = {"document": number, "ids": stop - start}
    try:
        facts["source"], facts["record"] = corpus.source(number)
    except FormatError:
        facts["source"] = facts["record"] = None
    facts["text"] = corpus.decode(corpus.read(start, min(stop, start + SHOWN)))
    return facts


def _show(facts: dict[str, Any], shown: list[dict[str, Any]]) -> None:
    sides = f"{facts['path']} {facts['split']} in {facts['other']} {facts['other_split']}"
    _output.heading(f"{sides}: {facts['found']:,} of {facts['documents']:,} documents ({facts['share']:.3%})")
    rows = [("different documents found", facts["distinct"]), ("ids in them", facts["ids_found"])]
    rows += [("ids compared", facts["ids"]), ("compared with documents", facts["other_documents"])]
    _output.pairs([*rows, ("left out, control ids alone", facts["empty"])])
    if not shown:
        return
    print()
    head = ["document", "source", "record", "is", "source", "record", "text"]
    _output.columns(head, [[*_place(one), *_place(one["other"]), _output.visible(one["text"])] for one in shown])
    if facts["found"] > len(shown):
        print(f"  and {facts['found'] - len(shown):,} more")


def _place(example: dict[str, Any]) -> list[object]:
    source = example["source"]
    return [example["document"], None if source is None else _output.visible(source), example["record"]]
