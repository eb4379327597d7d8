"""The end of a build: from receipts to shards, bad rows, balance and, last of all, the manifest."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import textdigests
from tokenriver.assembly import Cuts, Parts, Plan, assemble, rows_before, stays
from tokenriver.badrows import bad_rows, publish_bad_rows, write_bad_rows
from tokenriver.balance import bad_reasons, balance_of, filtered_by, rows_of
from tokenriver.buildfolder import forget_units
from tokenriver.buildplan import BAD_ROWS_NAME, BuildOptions, BuildPlan, plans_of
from tokenriver.errors import LimitError, RiverError
from tokenriver.feeding import Feeder
from tokenriver.inputs import InputFile, seen_fields
from tokenriver.limits import BadRows, Fates, names_of
from tokenriver.manifest import FileInfo, Manifest, ShardInfo, SourceInfo, tokenizer_info, write_manifest
from tokenriver.parts import Receipt
from tokenriver.reformat import Encoded, stored_dtype, vocabulary_files, write_parts
from tokenriver.rules import MAX_COUNT
from tokenriver.shards import Begun, ShardJob, ShardMaker, shard_path
from tokenriver.types import Int64, Tokenizer
from tokenriver.units import join_digests


@dataclass(frozen=True, slots=True)
class Ending:
    """What the end of a build needs to know besides the units."""

    out: Path
    plan: BuildPlan
    options: BuildOptions
    bad_rows: BadRows
    before: Manifest | None
    """The corpus that is appended to."""
    begun: Mapping[Path, Begun] = field(default_factory=dict)
    """Shards that were begun while units were still being encoded."""


def commit(ending: Ending, feeder: Feeder, tokenizer: Tokenizer) -> Manifest:
    """Assemble the finished units and write the manifest. LimitError or InputError if they make no corpus."""
    receipts = feeder.ordered()
    dtype = feeder.work.dtype
    parts = Parts(feeder.work.folder, receipts, np.dtype(dtype).itemsize)
    options = ending.options
    # in another format shards are cut when their limits are known
    shard_tokens = (options.shard_tokens if options.format == "native" else None) or MAX_COUNT
    cuts = Cuts(options.max_tokens, options.val_tokens, options.val_fraction, shard_tokens, options.exact)
    plan = assemble(parts, cuts)
    used = receipts[: plan.used]
    bases = list(rows_before(used))
    listed = write_bad_rows(ending.out, ending.before, feeder.work.folder, bad_rows(feeder.files, used, bases))
    _check_usable(ending, feeder, used, bases, plan)
    if options.format == "native":
        maker = ShardMaker(parts, dtype, bases, len(ending.before.sources) if ending.before else 0)
        shards = [maker.make(job, ending.begun.get(job.path)) for job in _shard_jobs(ending, plan)]
        manifest = _manifest(ending, feeder, tokenizer, plan, shards)
    else:
        stored = stored_dtype(options, tokenizer.vocab_size, dtype)
        outcomes = write_parts(
            ending.out, options, stored, Encoded(parts, plan, bases, [f.name for f in feeder.files]), tokenizer
        )
        shards = [shard for outcome in outcomes.values() for shard in outcome.shards]
        others = tuple(file for outcome in outcomes.values() for file in outcome.files)
        manifest = _manifest(ending, feeder, tokenizer, plan, shards)
        manifest = replace(manifest, format=options.format, dtype=stored, files=others)
    digests = _digests(ending, parts, plan)
    manifest = replace(manifest, files=(*manifest.files, *digests, *vocabulary_files(ending.out, tokenizer)))
    if listed is not None:
        publish_bad_rows(ending.out, listed)
    write_manifest(ending.out, manifest)
    return manifest


def _shard_jobs(ending: Ending, plan: Plan) -> list[ShardJob]:
    jobs = []
    for split, shards in sorted(plan.splits.items()):
        first = len(ending.before.split(split)) if ending.before else 0
        for number, segments in enumerate(shards, first):
            path = shard_path(ending.out, ending.options.name, split, number)
            if ending.before is not None and any(shard.file == path.name for shard in ending.before.shards):
                raise RiverError(f"{path}: is a shard of the corpus already; its manifest skips numbers")
            jobs.append(ShardJob(path, split, segments))
    return jobs


def _digests(ending: Ending, parts: Parts, plan: Plan) -> Iterator[FileInfo]:
    """The files of digests of texts, that of this build written; none where duplicates stay or nothing is appended."""
    options = ending.options
    if options.filters.once is None or options.format != "native":
        return
    yield from textdigests.listed(ending.before)
    kept = enumerate(stays(plan, [receipt.num_documents for receipt in parts.receipts]))
    found = ((parts.documents(unit).digests, keep) for unit, keep in kept if keep.any())
    blocks = (digests[keep] for digests, keep in found if digests is not None)
    yield textdigests.write(textdigests.path_of(ending.out, options.name, ending.before), blocks)


def _check_usable(ending: Ending, feeder: Feeder, used: list[Receipt], bases: list[Int64], plan: Plan) -> None:
    """Too many bad rows, or nothing to train on, is a failure that says what was found."""
    files, folder = feeder.files, feeder.work.folder
    documents = sum(receipt.num_documents for receipt in used)
    if not documents:
        forget_units(folder)
    Fates(
        rows_of(used),
        documents,
        Counter(bad_reasons(used)),
        Counter({reason: count for reason, (count, _) in filtered_by(used).items()}),
        _first_bad(files, used, bases),
        str(folder / BAD_ROWS_NAME),
        "a document",
        _fields(ending, files),
    ).check(ending.bad_rows, files)
    if "train" not in plan.splits:
        options, total = ending.options, sum(receipt.num_ids for receipt in used)
        raise LimitError(
            f"{names_of(files)}: got {total} ids in {documents} documents, which leave nothing to train on with "
            f"max_tokens={options.max_tokens}, val_tokens={options.val_tokens}, val_fraction={options.val_fraction}; "
            f"change those or add input"
        )


def _first_bad(files: list[InputFile], used: list[Receipt], bases: list[Int64]) -> str:
    for receipt, base in zip(used, bases, strict=True):
        for piece, record, _, reason in receipt.bad[:1]:
            return f"{files[receipt.pieces[piece].source].name} line {record + int(base[piece]) + 1}: {reason}"
    return ""


def _fields(ending: Ending, files: list[InputFile]) -> str:
    """The field names that the first input has, if the wanted one is not among them."""
    seen = seen_fields(files[0])
    wanted = ending.options.options.text_field
    if not seen or wanted in seen:
        return ""
    return f"; the rows have the fields {', '.join(seen)}, not {wanted!r}: name one with text_field"


def _manifest(ending: Ending, feeder: Feeder, tokenizer: Tokenizer, plan: Plan, shards: list[ShardInfo]) -> Manifest:
    before, dtype = ending.before, feeder.work.dtype
    balance = _balance(feeder, plan)
    sources = _sources(feeder, plan, ending.options.max_tokens)
    plans = [ending.plan.digest]
    if before is not None:
        balance = _add(before.balance, balance)
        sources = (*before.sources, *sources)
        order = {split: i for i, split in enumerate(("train", "val"))}
        shards = sorted((*before.shards, *shards), key=lambda shard: (order[shard.split], shard.file))
        plans = [*plans_of(before), *plans]
    options = before.options if before is not None else ending.options.as_dict(dtype)
    return Manifest(
        format="native",
        tokenizer=tokenizer_info(tokenizer),
        framing=ending.options.framing,
        dtype=dtype,
        options={**options, "plans": plans},
        sources=tuple(sources),
        shards=tuple(shards),
        balance=balance,
    )


def _balance(feeder: Feeder, plan: Plan) -> dict[str, Any]:
    framing = (feeder.work.before is not None) + (feeder.work.after is not None)
    return {**balance_of(feeder.ordered()[: plan.used], plan, framing), "unread_inputs": _unread(feeder, plan)}


def _unread(feeder: Feeder, plan: Plan) -> dict[str, Any]:
    """What max_tokens left unread: where reading stopped, and the inputs after it."""
    receipts = feeder.ordered()
    total = sum(receipt.num_ids for receipt in receipts)
    limit = feeder.max_tokens
    if limit is None or total <= limit:
        return {}
    last = receipts[plan.used - 1]
    source = last.pieces[-1].source
    return {"after": feeder.files[source].name, "inputs": len(feeder.files) - 1 - source, "unit": last.key[1]}


def _sources(feeder: Feeder, plan: Plan, max_tokens: int | None) -> tuple[SourceInfo, ...]:
    receipts = feeder.ordered()
    used = receipts[: plan.used]
    stopped = max_tokens is not None and sum(receipt.num_ids for receipt in receipts) > max_tokens
    last_lot = used[-1].key[0] if stopped else len(feeder.lots)
    rows: Counter[int] = Counter()
    digests: dict[int, list[str]] = {}
    for receipt in used:
        for piece in receipt.pieces:
            rows[piece.source] += piece.rows
            digests.setdefault(piece.source, []).extend(piece.digests)
    read = {piece.source for lot in feeder.lots if lot.index <= last_lot for piece in lot.pieces}
    partial = {piece.source for lot in feeder.lots if lot.index > last_lot for piece in lot.pieces}
    if stopped and feeder.lots[last_lot].stream:
        partial |= {piece.source for piece in feeder.lots[last_lot].pieces}
    out = []
    for source, file in enumerate(feeder.files):
        sha256 = None
        if source in read and source not in partial:
            sha256 = feeder.ends.get(source) or join_digests(digests[source])
        out.append(SourceInfo(file.name, file.size, sha256, file.kind, file.compression, rows[source]))
    return tuple(out)


def _add(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The balance of two builds together: numbers add up, the rest is the newer one's."""
    out = dict(old)
    for name, value in new.items():
        if isinstance(value, Mapping):
            out[name] = _add(old.get(name, {}), value)
        elif isinstance(value, int):
            out[name] = old.get(name, 0) + value
        else:
            out[name] = value
    return out
