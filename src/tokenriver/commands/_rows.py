"""One batch as a person reads it: each row cut into runs of one document with or without loss; of a corpus with a loss
mask, into what is context and what is trained."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.text import Text

from tokenriver.batch import Batch
from tokenriver.commands._output import console, visible
from tokenriver.corpus import Corpus

COLORS = ("cyan", "green", "magenta", "yellow")
BREAK = "⏎"


def rows(batch: Batch, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Each row of a batch as plain values: where it is in the run, and its runs of positions [start, stop)."""
    for line in range(len(batch.input_ids)):
        mask = batch.loss_mask[line]
        yield {
            "row_number": int(batch.row_numbers[line]),
            "sample_id": int(batch.sample_ids[line]),
            "num_targets": int(np.count_nonzero(mask)),
            "runs": list(_runs(batch, line, corpus)) if batch.sample_ids[line] >= 0 else [],
            **({"pieces": list(_pieces(batch, line, corpus))} if corpus.has_loss_mask else {}),
        }


def _runs(batch: Batch, line: int, corpus: Corpus) -> Iterator[dict[str, Any]]:
    documents, mask, ids = batch.document_ids[line], batch.loss_mask[line], batch.input_ids[line]
    changes = (np.diff(documents) != 0) | (np.diff(mask) != 0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(ids)]
    for start, stop in itertools.pairwise(edges):
        document = int(documents[start])
        yield {
            "document": document if document >= 0 else None,
            "start": start,
            "stop": stop,
            "loss": bool(mask[start]),
            # positions without a document and without loss are padding where documents are known: ids mean nothing
            "text": corpus.decode(ids[start:stop].astype(np.uint32))
            if document >= 0 or mask[start] or corpus.num_documents is None
            else "",
        }


def _pieces(batch: Batch, line: int, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """The ids of each document of a row, its last target among them, cut where what is trained begins or ends."""
    documents, mask = batch.document_ids[line], batch.loss_mask[line]
    ids, targets = batch.input_ids[line], batch.targets[line]
    edges = [0, *(np.flatnonzero(np.diff(documents)) + 1).tolist(), len(ids)]
    for start, stop in itertools.pairwise(edges):
        if documents[start] < 0 and (corpus.num_documents is not None or batch.sample_ids[line] < 0):
            continue  # padding
        own, trained = ids[start:stop], np.append(False, mask[start : stop - 1])
        # where rows are whole examples, what ends one is a target alone
        if mask[stop - 1] and (stop == len(ids) or targets[stop - 1] != ids[stop]):
            own, trained = np.append(own, targets[stop - 1]), np.append(trained, True)
        for first, last in itertools.pairwise([0, *(np.flatnonzero(np.diff(trained)) + 1).tolist(), len(own)]):
            text = corpus.decode(own[first:last].astype(np.uint32))
            document = int(documents[start]) if documents[start] >= 0 else None
            yield {"document": document, "trained": bool(trained[first]), "text": text}


def show(row: dict[str, Any], characters: int) -> None:
    """Print one row: a line for the row, then one for each run; documents differ by number and by colour."""
    if row["sample_id"] < 0:
        print(f"row {row['row_number']:,}: filler, no row of the corpus; every target is ignored")
        return
    length = row["runs"][-1]["stop"]
    targets = f"{row['num_targets']:,} targets in {length:,} positions"
    print(f"row {row['row_number']:,}: sample {row['sample_id']:,}, {targets}")
    if "pieces" in row:
        _show_pieces(row["pieces"], characters)
        return
    order = {document: at for at, document in enumerate(dict.fromkeys(run["document"] for run in row["runs"]))}
    for run in row["runs"]:
        unknown = "document ?" if run["loss"] else "padding"
        name = unknown if run["document"] is None else f"document {run['document']:,}"
        loss = "" if run["loss"] else "  NO LOSS"
        line = Text(f"  {name:<16}  {run['start']:>6,} to {run['stop'] - 1:>6,}{loss}  ")
        color = COLORS[order[run["document"]] % len(COLORS)]
        line.append(f"|{shorten(run['text'], characters)}|", style=color if run["loss"] else f"{color} dim")
        console().print(line, soft_wrap=True)


def _show_pieces(pieces: list[dict[str, Any]], characters: int) -> None:
    """A line for each piece: what is trained is told by a word and by colour."""
    for piece in pieces:
        trained = piece["trained"]
        name = "?" if piece["document"] is None else f"{piece['document']:,}"
        line = Text(f"  document {name:<7}  {'TRAINED' if trained else 'context'}  ")
        line.append(f"|{shorten(piece['text'], characters)}|", style="bold green" if trained else "dim")
        console().print(line, soft_wrap=True)


def shorten(text: str, characters: int) -> str:
    """Head and tail of a long text, with how much was left out; line breaks and control characters made visible."""
    if not characters or len(text) <= characters:
        return visible(text, BREAK)
    tail = characters // 3
    head, left = characters - tail, len(text) - characters
    return f"{visible(text[:head], BREAK)} … {left:,} more characters … {visible(text[len(text) - tail :], BREAK)}"
