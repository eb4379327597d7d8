"""Plan the rows of a packing ahead, so that every rank maps the plan instead of making it."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tokenriver import registry
from tokenriver.commands import _environment, _options, _output
from tokenriver.errors import InputError
from tokenriver.layout import own_options, refuse_samples

Packing = Annotated[
    Literal["best_fit", "bos_aligned"],
    typer.Option("--packing", help="Which packing; the rows of the others need no plan.", show_default=False),
]
Overflow = Annotated[
    Literal["split", "truncate", "drop"],
    typer.Option("--overflow", help="What becomes of documents longer than a row."),
]
BlockDocuments = Annotated[
    int | None,
    typer.Option(
        "--block-documents",
        parser=_output.count,
        metavar="N",
        help="best_fit: plan so many documents at a time, in less memory (default: all together).",
    ),
]
BufferDocuments = Annotated[
    int | None,
    typer.Option(
        "--buffer-documents", parser=_output.count, metavar="N", help="bos_aligned: documents to choose from."
    ),
]
PlanDir = Annotated[
    Path | None, typer.Option("--plan-dir", metavar="DIR", help="Folder of the plan (default: plans in the corpus).")
]


def run(
    path: _options.CorpusPath,
    seq_len: _options.SeqLen,
    packing: Packing,
    overflow: Overflow = "split",
    block_documents: BlockDocuments = None,
    buffer_documents: BufferDocuments = None,
    plan_dir: PlanDir = None,
    split: _options.Split = "train",
    json: _options.Json = False,
) -> None:
    """Plan the rows of a packing ahead, so that every rank maps the plan instead of making it.

    Loader finds the plan if it is given the same packing, seq_len, overflow and
    options (and plan_dir). A plan that is there already is checked.

    Example:  tokenriver pack corpus --seq-len 2048 --packing best_fit
    """
    corpus = _environment.open_corpus(path, split)
    refuse_samples(corpus)
    folder = plan_dir if plan_dir is not None else corpus.plan_folder
    if folder is None:
        raise InputError(f"{path}: got shards without a manifest, expected a corpus folder; give --plan-dir")
    given = {"block_documents": block_documents, "buffer_documents": buffer_documents}
    own = own_options(packing, {name: value for name, value in given.items() if value is not None})
    module = registry.load("packing", packing)
    rows = module.pack(corpus, seq_len=seq_len, overflow=overflow, plan_dir=folder, **own)
    if rows.plan is None:
        raise InputError(f"{folder}: another process is planning here; run the same command again when it is done")
    padding = len(rows) * seq_len - rows.num_targets
    facts = {"rows": len(rows), "targets": rows.num_targets, "padding": padding}
    if json:
        _output.emit_json(
            {"path": str(path), "split": split, "packing": rows.tag, **facts, "balance": dict(rows.balance)}
            | {"plan": str(rows.plan), "bytes": rows.plan.stat().st_size}
        )
        return
    _output.heading(f"{path}: {rows.tag}")
    share = f"{padding:,} positions, {padding / (len(rows) * seq_len):.3%}"
    _output.pairs([("rows", len(rows)), ("targets", rows.num_targets), ("padding", share)])
    _output.pairs([(f"ids {name}", count) for name, count in rows.balance.items()])
    _output.pairs([("plan", f"{rows.plan}, {_output.size(rows.plan.stat().st_size)}")])
