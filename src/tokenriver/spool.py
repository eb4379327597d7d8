"""Examples -> a native corpus with loss masks: columns on disk until their number is known, then shards.

    with write_examples(out, plan, dtype="uint16") as writer:
        writer.add("train", batch, records, sources)      # a TokenBatch with a loss mask; whole examples
        writer.commit(tokenizer=..., sources=..., balance=...)

A document of the corpus is an example, its origin the record that it was made of. The columns wait in the hidden
folder, so that memory stays small; the manifest is written last, and a run that was killed is begun anew by the same
call. What comes out depends on the order of the examples alone, never on the batches in which they came.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenriver import files, outfolder, rules, transfer
from tokenriver.badrows import publish_bad_rows
from tokenriver.digests import sha256_file
from tokenriver.errors import InputError, LimitError, RiverError
from tokenriver.formats import native
from tokenriver.inputs import InputFile
from tokenriver.locks import hold_lock
from tokenriver.manifest import BUILD_FOLDER, Manifest, SourceInfo, TokenizerInfo, write_manifest
from tokenriver.outfolder import LOCK_NAME
from tokenriver.storage import BLOCK_IDS, Columns
from tokenriver.transfer import Cutting
from tokenriver.types import Bools, Ids, Int32, Int64, TokenBatch

PLAN_NAME = "examples.json"
NAME = "tokens"
_COLUMNS = {"mask": "bool", "lengths": "<i8", "records": "<i8", "sources": "<i4"}


def source_infos(
    inputs: Sequence[InputFile], rows: Sequence[int], digests: Mapping[int, str] | None = None
) -> list[SourceInfo]:
    """Inputs as a manifest lists them; `rows` were read of each. `digests` are the sha256 of those, by number, of which
    it is known."""
    known = digests or {}
    return [
        SourceInfo(file.name, file.size, known.get(n) or sha256_file(file.path), file.kind, file.compression, count)
        for n, (file, count) in enumerate(zip(inputs, rows, strict=True))
    ]


class ExampleWriter:
    """Takes the examples of all splits; `commit` makes the corpus."""

    def __init__(self, out: Path, plan: Mapping[str, Any], dtype: str, name: str, opened: ExitStack) -> None:
        self._out, self._plan, self._dtype, self._name, self._files = out, plan, dtype, name, opened
        self._spools: dict[str, _Spool] = {}
        self.writing = False
        """Is there something in the folder that only this plan may go on with?"""

    def add(self, split: str, batch: TokenBatch, records: Int64, sources: Int32) -> None:
        """Some whole examples of a split, in order: with `records` (k,), the raw row of each, counted from 0 in its
        input, and `sources` (k,), the numbers of those inputs. LimitError for an example without a trained id."""
        if split not in self._spools:
            self._spools[split] = _Spool(self._out / BUILD_FOLDER, split, self._dtype, self._files)
        self._spools[split].add(batch, records, sources)

    def commit(
        self,
        *,
        tokenizer: TokenizerInfo | None,
        sources: Sequence[SourceInfo],
        balance: Mapping[str, Any],
        shard_tokens: int | None = None,
        bad_rows: Path | None = None,
    ) -> Manifest:
        """Write shards, indexes, masks and the manifest. `balance` may count what else became of the records; the ids
        and documents that were kept are added; `bad_rows` is a list to put beside the corpus. InputError if there is no
        example of train."""
        if "train" not in self._spools:
            raise InputError(f"{self._out}: got no example for train, expected some; give other inputs or limits")
        flows = self.finish()
        self.publish(bad_rows)
        names = [source.path for source in sources]
        target = transfer.base_target(self._name, self._dtype, "", tokenizer, names)
        cutting = Cutting(shard_tokens or native.SHARD_TOKENS, exact=False)
        outcomes = []
        for split, flow in sorted(flows.items()):
            own = replace(target, split=split)
            made = transfer.make_job(flow, native, cutting, own, indexed=True, mask=flow.trained)
            outcomes.append(transfer.write_split(self._out, native, made))
        manifest = Manifest(
            format="native",
            tokenizer=tokenizer,
            framing="example",
            dtype=self._dtype,
            options=self._plan,
            sources=tuple(sources),
            shards=tuple(shard for outcome in outcomes for shard in outcome.shards),
            balance=self._balance(balance),
            files=tuple(file for outcome in outcomes for file in outcome.files),
        )
        write_manifest(self._out, manifest)
        return manifest

    def finish(self) -> dict[str, "SpoolFlow"]:
        """The examples of each split, when all were added."""
        self._files.close()
        return {split: spool.flow() for split, spool in self._spools.items()}

    def publish(self, bad_rows: Path | None) -> None:
        """From here on the folder fills. The list of bad rows, if there is one, comes first."""
        self.writing = True
        if bad_rows is not None:
            publish_bad_rows(self._out, bad_rows)

    def _balance(self, given: Mapping[str, Any]) -> dict[str, Any]:
        out = {"bad_rows": {}, **given}
        out["documents"] = {**out.get("documents", {}), "kept": {s: p.examples for s, p in self._spools.items()}}
        out["ids"] = {
            **out.get("ids", {}),
            "kept": {split: spool.ids for split, spool in self._spools.items()},
            "trained": {split: spool.trained for split, spool in self._spools.items()},
        }
        return out


@contextmanager
def write_examples(
    out: Path, plan: Mapping[str, Any], *, dtype: str, name: str = NAME
) -> Iterator[ExampleWriter | Manifest]:
    """Gives the writer of a corpus in the folder `out`, or its manifest if it lies there already, complete and by the
    same plan: all that determines the result, as values of JSON. Raises InputError, MismatchError."""
    rules.check(out, "options", {"name": name}, {"name": rules.PLAIN})
    before = outfolder.complete(out, "native", plan, last=(PLAN_NAME, LOCK_NAME))
    if before is not None:
        yield before
        return
    folder = out / BUILD_FOLDER
    files.make_folder(folder)
    with hold_lock(folder / LOCK_NAME) as held:
        if not held:
            raise InputError(f"{out}: another build is at work here; wait for it or choose another folder")
        outfolder.begin(out, folder / PLAN_NAME, plan, "corpus of examples")
        with ExitStack() as opened:
            writer = ExampleWriter(out, plan, dtype, name, opened)
            try:
                yield writer
            except RiverError:
                opened.close()
                if not writer.writing:
                    _forget(folder)
                raise
        if writer.writing:
            files.remove_folder(folder, last=(PLAN_NAME, LOCK_NAME))


def _forget(folder: Path) -> None:
    """Nothing was made, and another try may ask for something else; the list of bad rows stays to be read."""
    for name in files.list_folder(folder):
        if name not in outfolder.STAYS:
            files.remove(folder / name)


def have_trained(lengths: Int64, mask: Bools) -> Bools:
    """(k,) has each of the examples of these lengths, whose masks lie end to end, a trained id? The first id of an
    example does not count: where examples stay whole it is nobody's target."""
    ends, some = np.cumsum(lengths), lengths > 1
    bounds = np.stack([ends - lengths + 1, ends], 1)[some].ravel()
    if len(bounds) and bounds[-1] == len(mask):
        bounds = bounds[:-1]  # the last reaches to the end
    found = np.zeros(len(lengths), np.bool_)
    if len(bounds):
        found[some] = np.bitwise_or.reduceat(mask, bounds)[::2]
    return found


class _Scratch:
    """A file that this run alone reads, if it comes so far: it has no digest, and nobody waits until it is on the
    disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with files.naming(path, "create"):
            self._fd = files.system.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def write(self, data: memoryview) -> None:
        """Append all of it."""
        with files.naming(self._path, "write"):
            files.write_all(self._fd, data)

    def close(self) -> None:
        with files.naming(self._path, "write"):
            files.system.close(self._fd)


class _Spool:
    """The examples of one split as columns in files of the hidden folder."""

    def __init__(self, folder: Path, split: str, dtype: str, opened: ExitStack) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype).newbyteorder("<")
        self._paths = {name: folder / f"{split}.{name}" for name in ("ids", *_COLUMNS)}
        self._files = {name: opened.enter_context(closing(_Scratch(path))) for name, path in self._paths.items()}
        self.ids = self.examples = self.trained = 0

    def add(self, batch: TokenBatch, records: Int64, sources: Int32) -> None:
        mask = batch.loss_mask if batch.loss_mask is not None else np.ones(len(batch.ids), np.bool_)
        self._check(batch, mask)
        columns = (batch.ids.astype(self._dtype, copy=False), mask, batch.lengths, records, sources)
        for name, column in zip(self._paths, columns, strict=True):
            dtype = column.dtype if name == "ids" else np.dtype(_COLUMNS[name])
            self._files[name].write(np.ascontiguousarray(column, dtype).data)
        self.ids += len(batch.ids)
        self.examples += len(batch.lengths)
        self.trained += int(np.count_nonzero(mask))

    def _check(self, batch: TokenBatch, mask: Bools) -> None:
        limit = transfer.largest_in(self._dtype.name)
        if int(batch.ids.max(initial=0)) > limit:
            raise LimitError(f"id: got {int(batch.ids.max())}, expected at most {limit}; choose a wider dtype")
        assert len(batch.ids) == len(mask) == int(batch.lengths.sum()), "as many ids as the lengths say"
        idle = np.flatnonzero(~have_trained(batch.lengths, mask))
        if len(idle):
            raise LimitError(f"example {int(idle[0])} of a batch: got no trained id, expected some; drop and count it")

    def flow(self) -> "SpoolFlow":
        """What was added, once the files are closed."""
        columns = {name: np.memmap(self._paths[name], dtype, "r") for name, dtype in _COLUMNS.items()}
        return SpoolFlow(np.memmap(self._paths["ids"], self._dtype, "r"), columns)


class SpoolFlow:
    """The examples of a spool as a flow (`storage.Flow`) with a loss mask."""

    def __init__(self, ids: Ids, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._ids, self._columns = ids, columns
        self.lengths: Int64 = np.asarray(columns["lengths"])
        self._ends: Int64 = np.cumsum(self.lengths, dtype=np.int64)
        self.num_tokens, self.num_documents = len(ids), len(self._ends)

    def blocks(self, start: int, stop: int) -> Iterator[Ids]:
        for at in range(start, stop, BLOCK_IDS):
            yield np.asarray(self._ids[at : min(stop, at + BLOCK_IDS)])

    def trained(self, start: int, stop: int) -> Iterator[Bools]:
        for at in range(start, stop, BLOCK_IDS):
            yield np.asarray(self._columns["mask"][at : min(stop, at + BLOCK_IDS)])

    def example(self, number: int) -> tuple[Ids, Bools]:
        """(ids, mask) of one example."""
        here = slice(int(self._ends[number] - self.lengths[number]), int(self._ends[number]))
        return np.asarray(self._ids[here]), np.asarray(self._columns["mask"][here])

    def ended(self, position: int) -> int:
        return int(np.searchsorted(self._ends, position, "right"))

    def end_around(self, position: int) -> int:
        return int(self._ends[np.searchsorted(self._ends, position, "right")])

    def documents(self, first: int, last: int) -> Iterator[Columns]:
        for at in range(first, last, BLOCK_IDS):
            here = slice(at, min(last, at + BLOCK_IDS))
            records, sources = (np.asarray(self._columns[name][here]) for name in ("records", "sources"))
            yield self._ends[here], records, sources
