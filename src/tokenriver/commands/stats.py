"""Say how long documents are, and what each packing pads, cuts and loses at some row lengths."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

import tokenriver
from tokenriver.commands import _environment, _options, _output
from tokenriver.corpus import Corpus
from tokenriver.fertility import SourceStats
from tokenriver.rowcounts import RowStats
from tokenriver.stats import PACKINGS, LengthStats
from tokenriver.vocabulary import VocabularyStats

SeqLens = Annotated[
    list[str] | None,
    typer.Option("--seq-len", metavar="T,...", help="Row lengths to compare (repeatable; 256 to 4096)."),
]
Packings = Annotated[
    list[str] | None,
    typer.Option("--packing", metavar="NAME", help="Packings to compare (repeatable; concat, document, best_fit)."),
]
Buckets = Annotated[
    int | None, typer.Option("--buckets", metavar="N", help="Show document rows in N buckets as well.", min=1)
]
Ids = Annotated[bool, typer.Option("--ids", help="Read all ids: vocabulary use, and bytes a token by decoding.")]
By = Annotated[
    Literal["source", "folder"] | None,
    typer.Option("--by", help="What each input gave, or each first folder of inputs; bytes a token with --ids."),
]
BySource = Annotated[bool, typer.Option("--by-source", help="The same as --by source.")]


def run(
    path: _options.CorpusPath,
    seq_len: SeqLens = None,
    packing: Packings = None,
    buckets: Buckets = None,
    ids: Ids = False,
    by: By = None,
    by_source: BySource = False,
    tokenizer: _options.MadeBy = None,
    split: _options.Split = "train",
    json: _options.Json = False,
) -> None:
    """Say how long documents are, and what each packing pads, cuts and loses at some row lengths.

    A row of T positions shows up to T + 1 ids: input and target. Lost ids are
    in no row of an epoch, whatever the reason; --json has the reasons. Only
    the document index is read, unless --ids is given.

    Example:  tokenriver stats corpus --seq-len 340,1024
    """
    lengths = [_output.count(word) for words in seq_len or [] for word in words.split(",")]
    corpus = _environment.open_corpus(path, split, tokenizer)
    by = by or ("source" if by_source else None)
    lines = packing or PACKINGS
    found = tokenriver.stats(corpus, seq_lens=lengths or None, packings=lines, buckets=buckets, ids=ids, by=by)
    if json:
        _output.emit_json({"path": str(Path(path)), "split": split, **found.as_dict()})
        return
    _output.heading(f"{path}: {split}")
    facts: list[tuple[str, object]] = [("ids", found.num_tokens), ("documents", found.num_documents)]
    if found.trained is not None:
        facts.append(("trained", f"{found.trained:,}, {found.trained / found.num_tokens:.1%} of the ids"))
    if found.bytes_per_token is not None:
        facts.append(("bytes a token", found.bytes_per_token))
    _output.pairs(facts)
    if found.lengths is not None:
        _show_lengths(found.lengths, found.num_tokens)
    _show_rows(found.rows, found.longer)
    if found.sources:
        _show_sources(found.sources, by or "source")
    if found.vocabulary is not None:
        _show_vocabulary(found.vocabulary, corpus)
    for note in found.notes:
        print(f"  note: {note}")


def _show_lengths(lengths: LengthStats, num_tokens: int) -> None:
    print()
    _output.heading("ids a document")
    rows: list[tuple[str, object]] = [("shortest", lengths.shortest)]
    rows += [(f"{share:.0%} up to", length) for share, length in lengths.quantiles.items()]
    _output.pairs([*rows, ("longest", lengths.longest), ("mean", f"{lengths.mean:,.1f}")])
    print()
    total = sum(row.documents for row in lengths.histogram)
    table = [
        [
            f"{row.low:,} to {max(0, 2 * row.low - 1):,}",
            row.documents,
            f"{row.ids / num_tokens:.1%}",
            _bar(row.documents, total),
        ]
        for row in lengths.histogram
    ]
    _output.columns(["ids", "documents", "of all ids", ""], table)


def _show_sources(sources: Sequence[SourceStats], by: str) -> None:
    print()
    _output.heading(f"by {by}")
    table = [
        [
            _output.visible(row.name),
            row.documents,
            row.ids,
            _rate(row.ids_per_document, 1),
            _rate(row.bytes_per_token, 3),
            _rate(row.ids_per_byte, 3),
            "-" if row.stored_bytes is None else _output.size(row.stored_bytes),
        ]
        for row in sources
    ]
    head = [by, "documents", "ids", "ids a document", "bytes a token", "ids a byte", "stored"]
    _output.columns(head, table)


def _rate(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _bar(part: int, total: int) -> str:
    return "#" * -(-40 * part // total) if total else ""


def _show_rows(rows: tuple[RowStats, ...], longer: Mapping[int, float]) -> None:
    head = ["packing", "overflow", "rows", "padding %", "lost ids", "lost %", "documents split", "cut"]
    for seq_len in dict.fromkeys(row.seq_len for row in rows):
        print()
        long = f"; {longer[seq_len]:.1%} of the ids are in longer documents" if seq_len in longer else ""
        _output.heading(f"rows of {seq_len:,}{long}")
        table = [
            [
                f"{row.packing} in {len(row.widths)}" if row.widths else row.packing,
                row.overflow or "-",
                row.rows,
                f"{row.padding_share:.2%}",
                row.lost,
                f"{row.lost_share:.2%}",
                row.documents_split,
                row.documents_cut,
            ]
            for row in rows
            if row.seq_len == seq_len
        ]
        _output.columns(head, table)


def _show_vocabulary(found: VocabularyStats, corpus: Corpus) -> None:
    print()
    _output.heading("vocabulary")
    rows: list[tuple[str, object]] = [("size", found.vocab_size), ("used", found.used), ("used once", found.once)]
    rows += [("largest id", found.largest), ("outside", found.outside), ("bos, eos, pad", found.special)]
    _output.pairs([*rows, ("decoded bytes a token", found.bytes_per_token)])
    print()
    table = [
        [str(number), _output.visible(repr(corpus.decode([number]))), times, f"{times / corpus.num_tokens:.2%}"]
        for number, times in found.most.items()
    ]
    _output.columns(["id", "text", "times", "of all ids"], table)
