"""Say what a corpus is, and what a given trainer would refuse about it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenriver.choices import choice_format
from tokenriver.commands import _environment, _options, _output, _report, _trainers, choice
from tokenriver.corpus import Corpus
from tokenriver.errors import RiverError
from tokenriver.manifest import TokenizerInfo
from tokenriver.roles import role_ids, special_tokens
from tokenriver.rounds import rows_per_sample

For = Annotated[str | None, typer.Option("--for", metavar="TRAINER", help="llmc or nanogpt: what it would refuse.")]
SeqLen = Annotated[int | None, typer.Option("--seq-len", metavar="T", min=1, help="With --for: positions of a row.")]
Batch = Annotated[
    int | None, typer.Option("--batch-size", metavar="B", min=1, help="With --for: rows of all ranks in one step.")
]
WorldSize = Annotated[int, typer.Option("--world-size", metavar="W", min=1, help="With --for: number of ranks.")]


def run(
    path: _options.CorpusPath,
    trainer: For = None,
    batch_size: Batch = None,
    seq_len: SeqLen = None,
    world_size: WorldSize = 1,
    json: _options.Json = False,
) -> None:
    """Say what a corpus is, and what a given trainer would refuse about it.

    Exit code 1 if the trainer of --for would refuse something.

    Example:  tokenriver info corpus --for llmc --batch-size 32 --seq-len 1024
    """
    if trainer is not None and trainer not in _trainers.TRAINERS:
        raise typer.BadParameter(f"got {trainer!r}, expected {' or '.join(_trainers.TRAINERS)}", param_hint="--for")
    if choice_format(path):
        if trainer is not None:
            raise typer.BadParameter("got a file of multiple-choice examples, expected a corpus", param_hint="--for")
        choice.look(path, {}, 0, (seq_len, 0, None), json=json)
        return
    corpora = _splits(path)
    facts = _facts(corpora)
    if json:
        out: dict[str, Any] = {"path": str(path), **facts}
    else:
        _show(path, corpora[0], facts)
    refused: list[str] = []
    if trainer is not None:
        refused, remarks = _ask(trainer, corpora, seq_len, batch_size, world_size)
        if json:
            out["for"] = {"trainer": trainer, "refused": refused, "remarks": remarks}
        else:
            _show_answer(trainer, refused, remarks)
    if json:
        _output.emit_json(out)
    if refused:
        raise typer.Exit(1)


def _splits(path: Path) -> list[Corpus]:
    """Every split of the corpus, train first."""
    with_default = _environment.open_corpus(path)
    names = [with_default.split, *(name for name in with_default.splits if name != with_default.split)]
    return [with_default, *(_environment.open_corpus(path, name) for name in names[1:])]


def _facts(corpora: list[Corpus]) -> dict[str, Any]:
    """Everything that `info` says, as plain values."""
    first = corpora[0]
    facts: dict[str, Any] = {
        "format": first.format,
        "dtype": first.dtype.name,
        "vocab_size": first.vocab_size,
        "splits": {
            corpus.split: {
                "ids": corpus.num_tokens,
                "documents": corpus.num_documents,
                "shards": len(corpus.shards),
                "fingerprint": corpus.fingerprint,
            }
            for corpus in corpora
        },
    }
    manifest = first.manifest
    if manifest is not None:
        facts["fingerprint"] = manifest.fingerprint
        if manifest.tokenizer is not None:
            facts["tokenizer"] = manifest.tokenizer.name
            facts["model_vocab_size"] = manifest.tokenizer.model_vocab_size
            facts["special"] = _special(first, manifest.tokenizer, manifest.options)
        facts["framing"] = manifest.framing
        facts["sources"] = {"files": len(manifest.sources), "bytes": sum(source.size for source in manifest.sources)}
        facts["bytes"] = sum(shard.num_bytes + shard.index_bytes for shard in manifest.shards)
        facts["bytes"] += sum(file.num_bytes for file in manifest.files)
        facts["options"], facts["balance"] = dict(manifest.options), dict(manifest.balance)
    return facts


def _special(corpus: Corpus, made_by: TokenizerInfo, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Id and name of each role that the manifest has; a name is null where the tokenizer is not at hand."""
    try:
        names = {number: name for name, number in special_tokens(corpus.load_tokenizer()).items()}
    except RiverError:
        names = {}
    return {
        role: {"id": number, "token": options.get(role) or names.get(number)}
        for role, number in role_ids(made_by).items()
        if number is not None
    }


def _show(path: Path, corpus: Corpus, facts: dict[str, Any]) -> None:
    _output.heading(f"{path}: {facts['format']} corpus")
    labels = [("tokenizer", "tokenizer"), ("vocabulary", "vocab_size"), ("padded", "model_vocab_size")]
    labels += [("framing", "framing"), ("ids stored as", "dtype")]
    rows = [(label, facts[key]) for label, key in labels if key in facts]
    for role, found in facts.get("special", {}).items():
        rows.append((role, f"{found['id']} {_output.visible(found['token'] or '')}".rstrip()))
    if corpus.manifest is not None:
        rows.append(("sources", f"{facts['sources']['files']:,} files, {_output.size(facts['sources']['bytes'])}"))
        rows.append(("on disk", _output.size(facts["bytes"])))
    together = 1 if corpus.manifest is None else rows_per_sample(corpus.manifest.options)
    if together != 1:
        rows.append(("samples", f"{together} documents each, which stay together: PairLoader reads them"))
    if corpus.has_loss_mask:
        rows.append(("loss mask", "yes: not every id is trained"))
    rows.append(("fingerprint", facts.get("fingerprint", corpus.fingerprint)))
    _output.pairs(rows)
    print()
    shards = {name: split["shards"] for name, split in facts["splits"].items()}
    balance = facts.get("balance", {})
    if trained := balance.get("ids", {}).get("trained"):
        counts = {
            name: {"examples": split["documents"] // together, "ids": split["ids"], "trained": trained[name]}
            for name, split in facts["splits"].items()
        }
        _report.examples(balance, counts)
    elif "rows" in balance:
        _report.balance(facts["balance"], shards)
    else:
        table = [[name, split["documents"], split["ids"], shards[name]] for name, split in facts["splits"].items()]
        _output.columns(["split", "documents", "ids", "shards"], table)


def _ask(
    trainer: str, corpora: list[Corpus], seq_len: int | None, global_batch: int | None, world_size: int
) -> _trainers.Answer:
    shards = [
        _trainers.Shard(shard.path, corpus.split, shard.num_tokens) for corpus in corpora for shard in corpus.shards
    ]
    first = corpora[0]
    return _trainers.TRAINERS[trainer](
        _trainers.Facts(first.format, first.dtype, shards, seq_len, global_batch, world_size, first.has_loss_mask)
    )


def _show_answer(trainer: str, refused: list[str], remarks: list[str]) -> None:
    print()
    _output.heading(f"{trainer} would {'refuse' if refused else 'read this corpus'}")
    for text in refused:
        print(f"  refused  {text}")
    for text in remarks:
        print(f"  remark   {text}")
